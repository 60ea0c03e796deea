import { describe, expect, test } from 'vitest';
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

describe('the bytes of images', () => {
  const manifest = (name: string) =>
    JSON.stringify({
      config: { digest: `config-${name}` },
      layers: [
        { digest: name, size: 1 },
        { digest: 'shared', size: 1 },
      ],
    });
  const config = (name: string) =>
    JSON.stringify({ architecture: 'amd64', rootfs: { diff_ids: [`sha256:${name}`, `sha256:below-${name}`] } });

  /** A containerd with images of two layers each, which counts what it is asked. */
  function fixture(...names: string[]) {
    const asked = { documents: 0, bytes: 0, lists: 0 };
    const images = () =>
      names.map((name) => ({ name: `r.example/${name}:1`, target: { mediaType: '', digest: name, size: 1 } }));
    const containerd = {
      call: async (method: unknown) => {
        if (method === CONTAINERD.listImages) {
          asked.lists++;
          return { images: images() };
        }
        asked.bytes++;
        return { size: 10 };
      },
      exchange: async function* (_method: unknown, [{ digest }]: [{ digest: string }]) {
        asked.documents++;
        yield { data: Buffer.from(digest.startsWith('config-') ? config(digest) : manifest(digest)) };
      },
    } as unknown as Containerd;
    const store = new ImageStore(containerd, 'amd64');
    const bytes = async () => {
      const all: number[] = [];
      for (const { content } of await store.list()) all.push(await store.bytesOf(content.layers));
      return all;
    };
    return { asked, names, bytes };
  }

  test('are asked for once for each layer, and documents once for each image', async () => {
    const { asked, bytes } = fixture(...Array.from({ length: 50 }, (_, at) => `image-${at}`));
    expect(await bytes()).toEqual(Array.from({ length: 50 }, () => 22));
    expect(asked).toEqual({ documents: 100, bytes: 100, lists: 1 });
    await bytes();
    expect(asked).toEqual({ documents: 100, bytes: 100, lists: 2 });
  });

  test('the memory has no layers of a removed image, so that it does not grow with every pull', async () => {
    const { asked, names, bytes } = fixture('old', 'new');
    await bytes();
    names.shift();
    await bytes();
    names.unshift('old');
    await bytes();
    expect(asked).toEqual({ documents: 6, bytes: 6, lists: 3 });
  });
});

test('an image with a document that cannot be read can be removed by its name', async () => {
  const store = new ImageStore(containerd(), 'amd64');
  expect(await store.removalOf('r.example/noJson:1')).toEqual({ names: ['r.example/noJson:1'] });
  expect(await store.removalOf('r.example/good:1')).toEqual({ names: ['r.example/good:1'], lastOf: 'config' });
  expect(await store.removalOf(`sha256:${'0'.repeat(64)}`)).toEqual({ names: [] });
});
