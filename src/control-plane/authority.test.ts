import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer as createPlainServer, type Server } from 'node:net';
import { createServer } from 'node:tls';
import { expect, test } from 'vitest';
import { atEnd } from '../../testing/at-end.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createSigner } from '../signer/signer.ts';
import { writeAuthority } from './authority.ts';
import { authorityFile, layoutOf } from './layout.ts';

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  atEnd(() => server.close());
  return (server.address() as AddressInfo).port;
}

async function serve() {
  const signer = createSigner();
  const second = Math.floor(Date.now() / 1000) * 1000;
  const request = { algorithm: 'ECDSA', notBefore: second - 60_000, notAfter: second + 3_600_000 } as const;
  const authority = await signer.issue({ ...request, subject: 'authority', names: [], isAuthority: true });
  const names = [{ type: 'dns', value: 'localhost' }] as const;
  const own = await signer.issue({ ...request, subject: 'controller', names, isAuthority: false }, authority);
  const port = await listen(createServer({ key: own.key, cert: own.cert + authority.cert }));
  return { port, authority: authority.cert.replaceAll(/\s/g, '') };
}

const newLayout = () => layoutOf({ SKERRY_CONTROL_PLANE_DATA: temporaryFolder() });

test('the authority of the certificate that the controller serves is written', async () => {
  const layout = newLayout();
  const { port, authority } = await serve();
  await writeAuthority(layout, port);
  expect(readFileSync(authorityFile(layout), 'utf8').replaceAll(/\s/g, '')).toBe(authority);
});

test('an authority that cannot be written leaves the former one', async () => {
  const layout = newLayout();
  await writeAuthority(layout, (await serve()).port);
  const former = readFileSync(authorityFile(layout), 'utf8');
  mkdirSync(`${authorityFile(layout)}.new`);
  await expect(writeAuthority(layout, (await serve()).port)).rejects.toThrow('EISDIR');
  expect(readFileSync(authorityFile(layout), 'utf8')).toBe(former);
});

test('a controller that sends no certificate is waited for no longer than a deadline', async () => {
  const port = await listen(createPlainServer());
  await expect(writeAuthority(newLayout(), port, 20)).rejects.toThrow('no certificate within 20 ms');
});
