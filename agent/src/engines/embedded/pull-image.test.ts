import { expect, test } from 'vitest';
import type { Containerd } from './client.ts';
import type { ImageStore } from './image-store.ts';
import { containerdPull, quietLimit } from './pull-image.ts';
import { CRI } from './wire/cri.ts';

test.each([
  ['docker.io', 'https://registry-1.docker.io'],
  ['r.example:5000', 'https://r.example:5000'],
])('credentials for %s go to %s', async (host, serverAddress) => {
  const given: unknown[] = [];
  const containerd = {
    call: async (method: unknown, request: { auth: unknown }) => {
      if (method === CRI.pullImage) given.push(request.auth);
      return { statuses: [] };
    },
  } as unknown as Containerd;
  const images = { find: async () => ({ content: { id: 'sha256:1' } }) } as unknown as ImageStore;
  const credentials = { host, username: 'u', password: 'p' };
  await containerdPull(containerd, images, { reference: `${host}/own/a:1`, platform: '', credentials });
  expect(given).toEqual([expect.objectContaining({ username: 'u', password: 'p', serverAddress })]);
});

test('a pull may be quiet for longer while nothing is fetched: its layers are unpacked', () => {
  expect([quietLimit(0), quietLimit(1)]).toEqual([30 * 60_000, 5 * 60_000]);
});
