import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { isPortTaken } from './port-probe.ts';

const listenTcp = (host: string) =>
  new Promise<{ port: number; close: () => Promise<void> }>((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ port: 0, host }, () => {
      const { port } = server.address() as { port: number };
      resolve({ port, close: () => new Promise((done) => server.close(() => done())) });
    });
  });

const listenUdp = (address: string) =>
  new Promise<{ port: number; close: () => Promise<void> }>((resolve, reject) => {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    socket.once('error', reject);
    socket.bind({ port: 0, address }, () =>
      resolve({
        port: socket.address().port,
        close: () => new Promise((done) => socket.close(() => done())),
      }),
    );
  });

for (const [protocol, listen] of [
  ['tcp', listenTcp],
  ['udp', listenUdp],
] as const)
  for (const host of ['127.0.0.1', '0.0.0.0', '::1', '::'])
    test(`a ${protocol} port on ${host} is taken while somebody listens, and free afterwards`, async () => {
      const { port, close } = await listen(host);
      const mapping = { internal: 1, external: port, protocol };
      expect(await isPortTaken(mapping)).toBe(true);
      expect(await isPortTaken({ ...mapping, protocol: protocol === 'tcp' ? 'udp' : 'tcp' })).toBe(false);
      await close();
      expect(await isPortTaken(mapping)).toBe(false);
    });
