import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import type { KubeClient } from '../../../src/kube/mod.ts';
import { storedApplication } from '../../../testing/stored.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { createPlugin } from '../_plugin.ts';

/** Which token a session has, as a controller sees it that refuses them all. */

const shop = storedApplication(
  'shop',
  [
    ['web', '7faa827a-4355-4898-8705-10cb8a4c9efa'],
    ['cache', '0d1c1c6e-2a0f-4a0e-9d0e-5a3c1d7e8f90'],
  ].map(([name = '', uuid = '']) => ({ name, uuid, agent: { name: 'edge-1' }, images: { amd64: 'x' } })),
);
let folder: string;
let seen: (string | undefined)[];
let renew: () => void;
let origin: string;
beforeEach(async () => {
  folder = temporaryFolder();
  seen = [];
  renew = () => {};
  const server = createServer().on('upgrade', (request, socket) => {
    seen.push(request.headers.authorization);
    renew();
    socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return () => server.close();
});

const plugin = (env: NodeJS.ProcessEnv) =>
  createPlugin({ find: async () => shop } as unknown as KubeClient, 'skerry', {
    env: { SKERRY_CONTROLLER: origin, ...env },
  });
const logs = (env: NodeJS.ProcessEnv) => plugin(env)('logs', 'shop/web');

describe('$SKERRY_TOKEN_FILE', () => {
  test('is read for each session, so that a token that was renewed meanwhile is used', async () => {
    const file = join(folder, 'token');
    writeFileSync(file, 'first.token\n');
    renew = () => writeFileSync(file, 'second.token\n');
    expect(await plugin({ SKERRY_TOKEN_FILE: file })('logs', 'shop')).toMatchObject({
      code: 1,
      err: expect.stringContaining('for $SKERRY_TOKEN or the file of $SKERRY_TOKEN_FILE'),
    });
    expect(seen).toEqual(['Bearer first.token', 'Bearer second.token']);
  });

  test('gives way to $SKERRY_TOKEN', async () => {
    await logs({ SKERRY_TOKEN_FILE: join(folder, 'none'), SKERRY_TOKEN: 'mine' });
    expect(seen[0]).toBe('Bearer mine');
  });

  test.each([
    ['that is missing', undefined, /which cannot be read \(ENOENT\); name a file/],
    ['that is empty', ' \n', /which has nothing; the output of "kubectl create token/],
    ['of two lines', 'secret\nvalue', /which has no bearer token; the output of/],
    ['that is too long', 'a'.repeat(16 * 1024 + 1), /which has more than 16384 bytes; the output of/],
  ])('with the name of a file %s is refused without a word of the file', async (_, content, message) => {
    const file = join(folder, 'token');
    if (content !== undefined) writeFileSync(file, content);
    const { code, err } = await logs({ SKERRY_TOKEN_FILE: file });
    expect(code).toBe(1);
    expect(err).toContain(`$SKERRY_TOKEN_FILE names "${file}"`);
    expect(err).toMatch(message);
    expect(err).not.toMatch(/secret|aaaa/);
    expect(seen).toEqual([]);
  });
});
