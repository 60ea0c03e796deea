import { createHash } from 'node:crypto';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { buildImage, buildIndex, type Image, saveImage } from '../../../../hack/image.ts';
import { makeTar as makeAny, pax, type TarPart } from '../../../../src/lib/tar/_parts.ts';
import { readTar } from '../../../../src/lib/tar/read.ts';
import { makeTar } from '../../../../src/lib/tar/write.ts';
import { type ExaminedArchive, examineArchive, repackArchive } from './archive.ts';

async function* pieces(bytes: Buffer, size = 10_000) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** Bytes that were taken, by the last look at the room. */
let taken = 0;
const examine = (bytes: Buffer, room = Number.POSITIVE_INFINITY) =>
  examineArchive(pieces(bytes), {
    architecture: 'amd64',
    checkRoom: (wanted) => {
      taken = wanted;
      if (wanted > room) throw new Error(`no room for ${wanted}`);
    },
  });

async function repacked(bytes: Buffer, examined: ExaminedArchive): Promise<Map<string, Buffer>> {
  const files = new Map<string, Buffer>();
  for await (const { path, content } of readTar(repackArchive(pieces(bytes), examined))) {
    const read: Buffer[] = [];
    for await (const piece of content) read.push(Buffer.from(piece));
    files.set(path, Buffer.concat(read));
  }
  return files;
}

const image = (content = 'x', architecture: 'amd64' | 'arm64' = 'amd64') =>
  buildImage({ files: [{ path: '/a', content }], architecture });
const digestOf = (bytes: Buffer | string) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
const idOf = (of: Image) =>
  (JSON.parse(of.manifests.get(of.top.digest)?.bytes.toString() ?? '') as { config: { digest: string } }).config.digest;

/** Files of a saved image, changed. */
async function edited(bytes: Buffer, change: (files: Map<string, Buffer>) => void): Promise<Buffer> {
  const files = new Map<string, Buffer>();
  for await (const { path, content } of readTar(pieces(bytes))) {
    const read: Buffer[] = [];
    for await (const piece of content) read.push(Buffer.from(piece));
    files.set(path, Buffer.concat(read));
  }
  change(files);
  return makeTar([...files].map(([path, content]) => ({ path, type: 'file', content })));
}
const ociOnly = (bytes: Buffer) => edited(bytes, (files) => files.delete('manifest.json'));

describe('an archive of images', () => {
  test('has the names and ids of its images in docker form', async () => {
    const one = image();
    const { images } = await examine(saveImage(one, 'shop/web:1'));
    expect(images).toMatchObject([{ names: ['docker.io/shop/web:1'], id: idOf(one) }]);
  });

  test('has the name that its OCI index gives the image', async () => {
    const one = image();
    const { images } = await examine(await ociOnly(saveImage(one, 'registry.example.com/shop/web:1')));
    expect(images).toMatchObject([{ names: ['registry.example.com/shop/web:1'], id: idOf(one) }]);
  });

  test('gives the image of this architecture where its OCI index has several', async () => {
    const [amd, arm] = [image('amd'), image('arm', 'arm64')];
    const { images } = await examine(await ociOnly(saveImage(buildIndex([arm, amd]), 'web:1')));
    expect(images).toMatchObject([{ names: ['docker.io/library/web:1'], id: idOf(amd) }]);
    const other = saveImage(buildIndex([image('a', 'arm64'), image('b', 'arm64')]), 'web:1');
    await expect(examine(await ociOnly(other))).rejects.toThrow('it has an image for arm64, arm64, and none for amd64');
  });

  test.each([
    ['as it is', (bytes: Buffer) => bytes],
    ['compressed by gzip', (bytes: Buffer) => gzipSync(bytes)],
    [
      'compressed by gzip in two parts',
      (bytes: Buffer) => Buffer.concat([gzipSync(bytes.subarray(0, 700)), gzipSync(bytes.subarray(700))]),
    ],
  ])('is repacked for the engine with its own names: %s', async (_, packed) => {
    const one = image();
    const bytes = packed(saveImage(one, 'web:1'));
    const examined = await examine(bytes);
    const files = await repacked(bytes, examined);
    const [{ config, layers } = { config: '', layers: [''] }] = examined.images;
    expect([...files.keys()]).toEqual([config, ...layers, 'manifest.json']);
    expect(digestOf(files.get(config) ?? '')).toBe(idOf(one));
    expect(JSON.parse(files.get('manifest.json')?.toString() ?? '')).toEqual([
      { Config: config, RepoTags: ['docker.io/library/web:1'], Layers: layers },
    ]);
  });

  test('an archive that is changed between both readings gives the engine no names', async () => {
    const examined = await examine(saveImage(image('one'), 'web:1'));
    const other = saveImage(image('two'), 'web:1');
    const read: string[] = [];
    const repack = async () => {
      for await (const { path } of readTar(repackArchive(pieces(other), examined))) read.push(path);
    };
    await expect(repack()).rejects.toThrow('it was changed while it was read');
    expect(read).not.toContain('manifest.json');
  });

  test('with a link to a layer has the layer once', async () => {
    const tar = makeTar([
      { path: 'config.json', type: 'file', content: Buffer.from('{"rootfs":{}}') },
      { path: 'a/layer.tar', type: 'file', content: makeTar([]) },
      { path: 'b/layer.tar', type: 'symlink', target: '../a/layer.tar' },
      {
        path: 'manifest.json',
        type: 'file',
        content: Buffer.from(
          JSON.stringify([{ Config: 'config.json', RepoTags: null, Layers: ['a/layer.tar', 'b/layer.tar'] }]),
        ),
      },
    ]);
    const examined = await examine(tar);
    expect(examined.images).toMatchObject([{ names: [], layers: ['a/layer.tar', 'a/layer.tar'] }]);
    expect([...(await repacked(tar, examined)).keys()]).toEqual(['config.json', 'a/layer.tar', 'manifest.json']);
  });
});

const config = Buffer.from('{"rootfs":{}}');
/** An archive with one image, whose layer and names a test chooses. */
function archive(layer: Buffer, tags: unknown = ['web:1'], more: TarPart[] = []): Buffer {
  const manifest = JSON.stringify([{ Config: 'config.json', RepoTags: tags, Layers: ['layer.tar'] }]);
  return makeAny({ path: 'config.json', content: config }, { path: 'layer.tar', content: layer }, ...more, {
    path: 'manifest.json',
    content: manifest,
  });
}
const zeros = Buffer.alloc(64 * 1024 * 1024);
const layerOf = (...parts: TarPart[]) => makeAny(...parts);

describe('a hostile archive', () => {
  const cases: Record<string, [Buffer | Promise<Buffer>, RegExp]> = {
    'bytes that are no archive': [Buffer.alloc(5000, 'x'), /^it is no tar archive/],
    'an empty file': [Buffer.alloc(0), /neither manifest.json nor index.json/],
    'an archive of something else': [makeAny({ path: 'readme', content: 'x' }), /neither manifest.json nor index.json/],
    'another compression': [Buffer.from('BZh91AY&SY'), /another way than by gzip/],
    'a gzip stream that is cut off': [
      gzipSync(archive(zeros.subarray(0, 100_000))).subarray(0, 200),
      /^it (is damaged|ends)/,
    ],
    'an archive that is cut off': [archive(zeros.subarray(0, 5000)).subarray(0, 3000), /it ends within an entry/],
    'a device': [archive(config, [], [{ path: 'dev', type: '3' }]), /neither a file nor a symbolic link/],
    'a pipe': [archive(config, [], [{ path: 'pipe', type: '6' }]), /neither a file nor a symbolic link/],
    'a hard link': [archive(config, [], [{ path: 'x', type: '1', target: '/etc/shadow' }]), /neither a file nor/],
    'a link out of the archive': [
      archive(config, [], [{ path: 'x', type: '2', target: '../../etc/shadow' }]),
      /leads out/,
    ],
    'an absolute link': [archive(config, [], [{ path: 'x', type: '2', target: '/etc/shadow' }]), /leads out/],
    'a path out of the archive': [archive(config, [], [{ path: '../x' }]), /leads out of the archive/],
    'an absolute path': [archive(config, [], [{ path: '/etc/x' }]), /leads out of the archive/],
    'a path twice': [archive(config, [], [{ path: 'layer.tar' }]), /two entries "layer.tar"/],
    'a link in circles': [
      makeAny(
        { path: 'a', type: '2', target: 'b' },
        { path: 'b', type: '2', target: 'a' },
        { path: 'manifest.json', content: '[{"Config":"a","Layers":[]}]' },
      ),
      /it has no file "a"/,
    ],
    'a name of the engine API': [archive(config, ['../containers/x:1']), /is no name of an image/],
    'a name with a query': [archive(config, ['web?force=1']), /is no name of an image/],
    'a name by digest': [archive(config, [`web@sha256:${'a'.repeat(64)}`]), /is no name of an image/],
    'a name that stands for a digest': [
      archive(config, [`r.example.com/web:sha256-${'a'.repeat(64)}`]),
      /stands for a digest/,
    ],
    'names that are no list': [archive(config, 'web:1'), /other than a list/],
    'a name that is no text': [archive(config, [7]), /lacks a text/],
    'too many names': [
      archive(
        config,
        Array.from({ length: 1001 }, (_, at) => `web:${at}`),
      ),
      /more than 1000 names/,
    ],
    'a manifest that is no JSON': [makeAny({ path: 'manifest.json', content: '[{' }), /its manifest.json is no JSON/],
    'a manifest of another file': [makeAny({ path: 'manifest.json', content: '[{"Config":"../x"}]' }), /has no file/],
    'a configuration with the digest of another one': [
      ociOnly(saveImage(image(), 'web:1')).then((bytes) =>
        edited(bytes, (files) => {
          const path = `blobs/${idOf(image()).replace(':', '/')}`;
          files.set(path, Buffer.from(`${files.get(path)} `));
        }),
      ),
      /has another digest/,
    ],
    'an index that contains itself': [
      edited(saveImage(image(), 'web:1'), (files) => {
        files.delete('manifest.json');
        files.set('index.json', Buffer.from(JSON.stringify({ manifests: [{ digest: digestOf('self') }] })));
        files.set(`blobs/${digestOf('self').replace(':', '/')}`, Buffer.from('{"manifests":[]}'));
      }),
      /has another digest/,
    ],
    'a sparse file in a layer': [
      archive(layerOf({ path: 'big', type: 'S', content: 'x' })),
      /layer "layer.tar".*sparse/,
    ],
    'a sparse file in a layer by pax': [
      archive(
        gzipSync(
          layerOf({ path: 'x', type: 'x', content: pax('GNU.sparse.realsize', '10995116277760') }, { path: 'big' }),
        ),
      ),
      /layer "layer.tar".*sparse/,
    ],
    'a layer in another compression': [
      archive(Buffer.from('BZh91AY&SY'.repeat(100))),
      /in a way that is not supported/,
    ],
  };
  test.each(Object.entries(cases))('is not loaded: %s', async (_, [bytes, error]) => {
    await expect(examine(await bytes)).rejects.toThrow(error);
  });

  const MIB = 1024 ** 2;
  const bombs: Record<string, Buffer> = {
    'a layer by gzip': archive(gzipSync(zeros)),
    'a layer by zstd': archive(zstdCompressSync(zeros)),
    'the archive itself': gzipSync(archive(zeros)),
    'a layer by gzip in an archive by gzip': gzipSync(archive(gzipSync(zeros))),
    'zeros that no image names': gzipSync(archive(config, [], [{ path: 'zeros', content: zeros }])),
  };
  test.each(Object.entries(bombs))('the reading of a bomb stops within 17 MiB of the room: %s', async (_, bomb) => {
    expect(bomb.length).toBeLessThan(MIB);
    await expect(examine(bomb, 20 * MIB)).rejects.toThrow('no room for');
    expect(taken).toBeGreaterThan(20 * MIB);
    expect(taken).toBeLessThan(37 * MIB);
  });

  test('counts a layer as it is and unpacked', async () => {
    await examine(archive(gzipSync(zeros)));
    expect(taken).toBeGreaterThan(zeros.length);
    await examine(archive(zeros));
    expect(taken).toBeGreaterThan(2 * zeros.length);
  });

  test('with any number of entries stops', async () => {
    const parts = Array.from({ length: 20_001 }, (_, at): TarPart => ({ path: `d${at}/`, type: '5' }));
    await expect(examine(makeAny(...parts))).rejects.toThrow('more than 20000 entries');
  });
});
