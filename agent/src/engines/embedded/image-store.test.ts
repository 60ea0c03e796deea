import { expect, test } from 'vitest';
import { EngineError } from '../../engine-port/error.ts';
import type { Containerd } from './client.ts';
import { ImageStore } from './image-store.ts';
import { CONTAINERD } from './wire/containerd.ts';

const CONFIG = JSON.stringify({ architecture: 'amd64', rootfs: { diff_ids: [] } });
const DOCUMENTS: Readonly<Record<string, string>> = {
  good: JSON.stringify({ config: { digest: 'config' }, layers: [] }),
  config: CONFIG,
  noJson: '<html>',
};

/** A containerd that has an image for each document; a document that it does not know has a digest it refuses. */
function containerd(): Containerd {
  const target = (digest: string) => ({ mediaType: '', digest, size: 1 });
  const images = ['good', 'noJson', 'refused'].map((name) => ({ name: `r.example/${name}:1`, target: target(name) }));
  return {
    call: async (method: unknown, { name }: { name: string }) =>
      method === CONTAINERD.listImages ? { images } : { image: images.find((each) => each.name === name) },
    exchange: async function* (_method: unknown, [{ digest }]: [{ digest: string }]) {
      const text = DOCUMENTS[digest];
      if (text === undefined) throw new EngineError('Invalid', 'invalid digest');
      yield { data: Buffer.from(text) };
    },
  } as unknown as Containerd;
}

test('an image with a document that cannot be read does not keep others from being listed', async () => {
  const store = new ImageStore(containerd(), 'amd64');
  expect((await store.list()).map(({ names }) => names)).toEqual([['r.example/good:1']]);
  expect(await store.find('r.example/noJson:1')).toBeUndefined();
  expect(await store.find('r.example/refused:1')).toBeUndefined();
});

test('an image with a document that cannot be read can be removed by its name', async () => {
  const store = new ImageStore(containerd(), 'amd64');
  expect(await store.removalOf('r.example/noJson:1')).toEqual({ names: ['r.example/noJson:1'] });
  expect(await store.removalOf('r.example/good:1')).toEqual({ names: ['r.example/good:1'], lastOf: 'config' });
  expect(await store.removalOf(`sha256:${'0'.repeat(64)}`)).toEqual({ names: [] });
});
