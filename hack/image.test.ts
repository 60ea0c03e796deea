import { spawnSync } from 'node:child_process';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { buildImage, buildIndex, type Image, saveImage } from './image.ts';

const manifestOf = (image: Image) => JSON.parse(image.manifests.get(image.top.digest)?.bytes.toString() ?? '');
const listing = (tar: Buffer) =>
  spawnSync('tar', ['-tv', '--numeric-owner', '-f', '-'], {
    input: tar,
    encoding: 'utf8',
    env: { ...process.env, TZ: 'UTC' },
  })
    .stdout.trim()
    .split('\n')
    .map((line) => line.replace(/\s+/g, ' '));

test('images of equal specs have equal digests, and one with another file has another digest', () => {
  const make = (content: string) => buildImage({ files: [{ path: '/a', content }], architecture: 'amd64' }).top.digest;
  expect(make('1')).toBe(make('1'));
  expect(make('1')).not.toBe(make('2'));
});

test('a manifest describes exactly the blobs of its image', () => {
  const image = buildImage({
    files: [{ path: '/a', content: 'x' }],
    entrypoint: ['/a'],
    env: { KEY: 'a=b' },
    ports: [80],
  });
  const { config, layers } = manifestOf(image);
  for (const { digest, size } of [config, ...layers]) expect(image.blobs.get(digest)?.length).toBe(size);
  expect([...image.blobs.keys()].sort()).toEqual([config.digest, layers[0].digest].sort());
  expect(JSON.parse(image.blobs.get(config.digest)?.toString() ?? '')).toMatchObject({
    os: 'linux',
    config: { Entrypoint: ['/a'], Env: ['KEY=a=b'], ExposedPorts: { '80/tcp': {} } },
  });
});

test('a layer has parent folders, links, owners and modes', () => {
  const image = buildImage({
    files: [
      { path: '/usr/bin/app', content: 'x', mode: 0o755, uid: 5, gid: 6 },
      { path: '/usr/bin/link', link: 'app' },
      { path: '/tmp' },
    ],
  });
  const layer = image.blobs.get(manifestOf(image).layers[0].digest) as Buffer;
  expect(listing(gunzipSync(layer))).toEqual([
    'drwxr-xr-x 0/0 0 1970-01-01 00:00 usr/',
    'drwxr-xr-x 0/0 0 1970-01-01 00:00 usr/bin/',
    '-rwxr-xr-x 5/6 1 1970-01-01 00:00 usr/bin/app',
    'lrwxr-xr-x 0/0 0 1970-01-01 00:00 usr/bin/link -> app',
    'drwxrwxrwt 0/0 0 1970-01-01 00:00 tmp/',
  ]);
});

test('an index lists its images by architecture and contains all of them', () => {
  const images = (['amd64', 'arm64'] as const).map((architecture) =>
    buildImage({ files: [{ path: '/a', content: architecture }], architecture }),
  );
  const index = buildIndex(images);
  expect(
    manifestOf(index).manifests.map((each: { platform: { architecture: string } }) => each.platform.architecture),
  ).toEqual(['amd64', 'arm64']);
  for (const image of images) expect(index.manifests.has(image.top.digest)).toBe(true);
  expect(index.blobs.size).toBe(4);
});

test('a saved image is an OCI layout that docker can load as well', () => {
  const image = buildImage({ files: [{ path: '/a', content: 'x' }] });
  const names = listing(saveImage(image, 'local/app:v1')).map((line) => line.split(' ').at(-1));
  const { config, layers } = manifestOf(image);
  const path = (digest: string) => `blobs/${digest.replace(':', '/')}`;
  const blobs = [config.digest, layers[0].digest, image.top.digest].map(path);
  expect(names).toEqual(['oci-layout', 'index.json', 'manifest.json', ...blobs]);
});
