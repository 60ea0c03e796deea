import { createPublicKey, type JsonWebKey, verify } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * The lower bound of the cost of an authenticated response: a server that only verifies one signature. It is a process of
 * its own, which gets the key from its parent and sends it its port.
 */
process.once('message', (jwk: JsonWebKey) => {
  const key = createPublicKey({ key: jwk, format: 'jwk' });
  const server = createServer((request, response) => {
    const token = request.headers.authorization?.slice('Bearer '.length) ?? '';
    const end = token.lastIndexOf('.');
    const signature = Buffer.from(token.slice(end + 1), 'base64url');
    const right = verify(null, Buffer.from(token.slice(0, end)), key, signature);
    response.writeHead(right ? 200 : 401, { 'Content-Type': 'application/json', 'Content-Length': 2 });
    response.end('{}');
  });
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
});
process.once('disconnect', () => process.exit());
