import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../machine/clock.ts';
import { ControllerClient } from './client.ts';
import { fetchAuthority } from './trust.ts';

const read = (name: string) => readFileSync(join(import.meta.dirname, 'testdata', name), 'utf8');
const authority = read('ca.pem');
const digest = createHash('sha256').update(new X509Certificate(authority).raw).digest('hex');
let server: Server;
let url: string;

beforeAll(async () => {
  // The controller sends its authority with its certificate as well.
  server = createServer({ key: read('server.key'), cert: read('server.pem') + authority }, (_incoming, outgoing) =>
    outgoing.end('{"status":"online","timestamp":1000,"uptimeSec":1}'),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

async function ping(options: { ca?: string; insecure?: boolean }): Promise<unknown> {
  const client = new ControllerClient({
    controllerUrl: url,
    instance: 'i',
    boot: 'b',
    clock: systemClock(),
    ...options,
  });
  try {
    return await client.ping();
  } finally {
    client.close();
  }
}

test('the authority whose digest the join string has is fetched and then trusted', async () => {
  const ca = await fetchAuthority(url, digest);
  expect(new X509Certificate(ca).fingerprint256).toBe(new X509Certificate(authority).fingerprint256);
  expect(await ping({ ca })).toMatchObject({ uptimeSec: 1 });
});

test('a server whose authority has another digest than the join string is refused', async () => {
  await expect(fetchAuthority(url, '0'.repeat(64))).rejects.toThrow(/no certificate authority with the digest/);
});

test('a certificate is not trusted without its authority', async () => {
  await expect(ping({})).rejects.toMatchObject({ connection: 'BROKEN_CERTIFICATE' });
});

test('insecure: true turns certificate verification off', async () => {
  expect(await ping({ insecure: true })).toMatchObject({ uptimeSec: 1 });
});
