import { execFile } from 'node:child_process';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { freePort, isFree, listeningInodes, portOwner } from './ports.ts';

const TABLE = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:C7B1 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000
   1: 0100007F:C7B1 0100007F:D000 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000
`;

test('the sockets of a port are those that listen, not its connections', () => {
  expect(listeningInodes(TABLE, 51121)).toEqual(['4711']);
  expect(listeningInodes(TABLE, 22)).toEqual(['4713']);
  expect(listeningInodes(TABLE, 23)).toEqual([]);
  expect(listeningInodes('', 22)).toEqual([]);
});

test('a port with a listener is not free, and its owner is found', async () => {
  const port = await freePort();
  expect(portOwner(port)).toBeUndefined();
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  expect(await isFree(port)).toBe(false);
  expect(portOwner(port)).toContain(`(pid ${process.pid})`);
  expect(await freePort(port)).not.toBe(port);
  await new Promise((resolve) => server.close(resolve));
  expect(await freePort(port)).toBe(port);
});

test.runIf(process.platform === 'linux')(
  'a port that one process chose is chosen by no other before its server listens',
  async () => {
    const port = await freePort();
    expect(await isFree(port)).toBe(true);
    const program = `import(${JSON.stringify(join(import.meta.dirname, 'ports.ts'))}).then(async ({ freePort }) =>
      console.log(await freePort(${port})))`;
    const { stdout } = await promisify(execFile)(process.execPath, ['-e', program]);
    expect(Number(stdout)).toBeGreaterThan(0);
    expect(Number(stdout)).not.toBe(port);
    expect(await freePort(port)).toBe(port);
  },
);

test('two calls never choose the same port', async () => {
  const ports = await Promise.all(Array.from({ length: 200 }, () => freePort()));
  expect(new Set(ports).size).toBe(200);
});
