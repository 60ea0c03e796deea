import { expect, test } from 'vitest';
import { makeTar } from '../../../../src/lib/tar/write.ts';
import type { Containerd } from './client.ts';
import { storeFiles } from './load-images.ts';

test('a load keeps the list of images alone of an archive in memory', async () => {
  const containerd = {
    exchange: async function* (_method: unknown, requests: AsyncIterable<unknown>) {
      for await (const _each of requests) yield {};
    },
  } as unknown as Containerd;
  const entries = ['manifest.json', 'layer.tar', 'config.json'].map((path) => ({
    ...{ path, type: 'file' as const },
    content: Buffer.from(`of ${path}`),
  }));
  const archive = async function* () {
    yield makeTar(entries);
  };
  const files = await storeFiles(containerd, archive(), 'lease');
  expect([...files].map(([name, { text, size }]) => [name, text, size])).toEqual([
    ['manifest.json', 'of manifest.json', 16],
    ['layer.tar', undefined, 12],
    ['config.json', undefined, 14],
  ]);
});
