import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import type { Origin } from '../build.ts';
import { buildImage, type Image } from '../image.ts';
import { billOfMaterials, notice, packageParts } from './contents.ts';
import { controlPlaneProduct, type Ground, groundImage, productImage, products } from './images.ts';
import { LIBRARIES, NODES } from './pinned.ts';

const origin: Origin = { version: '1.2.3', revision: 'abc', created: new Date('2026-01-02T03:04:05Z') };

/** A Node and bundles of a few bytes. */
function makeParts() {
  const folder = temporaryFolder();
  const file = (name: string) => {
    writeFileSync(join(folder, name), `content of ${name}`);
    return join(folder, name);
  };
  const ground: Ground = {
    node: { binary: file('node'), license: file('LICENSE') },
    libraries: [{ path: '/lib/libc.so.6', content: 'libc' }],
  };
  const one = (name: string) => ({ path: file(name), packages: ['node_modules/zod'] });
  const bundled = {
    skerry: one('skerry.mjs'),
    'skerry-templates': one('skerry-templates.mjs'),
    'skerry-agent': one('skerry-agent.mjs'),
  };
  return { ground, bundled };
}

const manifestOf = (image: Image) => JSON.parse(image.manifests.get(image.top.digest)?.bytes.toString() ?? '');
const configOf = (image: Image) =>
  JSON.parse(image.blobs.get(manifestOf(image).config.digest)?.toString() ?? '') as {
    config: Record<string, unknown> & { Labels: Record<string, string> };
  };
const pathsOf = (image: Image) =>
  manifestOf(image)
    .layers.map(({ digest }: { digest: string }) => gunzipSync(image.blobs.get(digest) as Buffer).toString('latin1'))
    .join('');

test('images of one commit have one digest, and images of another commit have another', () => {
  const { ground, bundled } = makeParts();
  const digests = (origin: Origin) =>
    products(bundled, []).map(
      (product) =>
        productImage(product, ground, groundImage(ground, 'amd64', origin), 'amd64', origin).image.top.digest,
    );
  expect(digests(origin)).toEqual(digests(origin));
  expect(digests({ ...origin, revision: 'def' })).not.toEqual(digests(origin));
});

test('the image of the controller runs as a user without rights and says what it is', () => {
  const { ground, bundled } = makeParts();
  const [controller, agent] = products(bundled, ['--flag']).map(
    (product) => productImage(product, ground, groundImage(ground, 'arm64', origin), 'arm64', origin).image,
  ) as [Image, Image];
  expect(configOf(controller)).toMatchObject({
    architecture: 'arm64',
    config: {
      User: '65532:65532',
      Entrypoint: ['/usr/bin/node', '/opt/skerry/skerry.mjs'],
      Labels: { 'org.opencontainers.image.version': '1.2.3', 'org.opencontainers.image.revision': 'abc' },
    },
  });
  expect(configOf(agent).config.Entrypoint).toEqual(['/usr/bin/node', '--flag', '/opt/skerry/skerry-agent.mjs']);
  for (const name of ['skerry.mjs', 'skerry-templates.mjs', 'NOTICE', 'sbom.cdx.json', 'libc.so.6'])
    expect(pathsOf(controller)).toContain(name);
  expect(manifestOf(controller).layers[0]).toEqual(manifestOf(agent).layers[0]);
});

test('an image on another base has the layers of the base and none of the libraries', () => {
  const { ground, bundled } = makeParts();
  const base = buildImage({
    files: [{ path: '/etc/base', content: 'x' }],
    env: { FROM: 'base' },
    architecture: 'amd64',
  });
  const on = { node: ground.node, base };
  const [product] = products(bundled, []);
  if (!product) throw new Error('there is no product');
  const { image, billOfMaterials } = productImage(product, on, groundImage(on, 'amd64', origin), 'amd64', origin);
  expect(manifestOf(image).layers[0]).toEqual(manifestOf(base).layers[0]);
  expect(configOf(image).config.Env).toContain('FROM=base');
  expect(pathsOf(image)).toContain('etc/base');
  expect(pathsOf(image)).not.toContain('libc.so.6');
  expect(billOfMaterials).not.toContain('pkg:deb');
  expect(() => groundImage(on, 'arm64', origin)).toThrow('the base is an image for amd64, not for arm64');
});

test('a bill of materials is CycloneDX with the licence and the package URL of each part', () => {
  const product = { name: 'skerry-agent', version: '1.2.3', created: origin.created };
  const parts = packageParts(['node_modules/zod', 'node_modules/@kubernetes/client-node']);
  const text = billOfMaterials(product, parts);
  expect(text).toBe(billOfMaterials(product, [...parts].reverse()));
  expect(JSON.parse(text)).toMatchObject({
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    metadata: { timestamp: '2026-01-02T03:04:05.000Z', component: { name: 'skerry-agent', version: '1.2.3' } },
    components: [
      {
        purl: expect.stringMatching(/^pkg:npm\/%40kubernetes\/client-node@/),
        licenses: [{ license: { id: 'Apache-2.0' } }],
      },
      { name: 'zod', licenses: [{ license: { id: 'MIT' } }] },
    ],
  });
});

test('a notice has the words of the licence of each part', () => {
  const text = notice('Skerry', packageParts(['node_modules/zod']));
  expect(text).toMatch(/^zod \d/m);
  expect(text).toContain('Permission is hereby granted, free of charge');
});

test('the tests run on the Node of a release for linux', () => {
  for (const platform of ['linux-amd64', 'linux-arm64'] as const)
    expect(NODES[platform].version).toBe(packageJson.devDependencies.node);
  expect(LIBRARIES.map(({ name }) => name)).toContain('libc6');
});

test('a notice has the text that a licence names by a path of Debian, once', () => {
  const part = { version: '1', license: 'GPL-3.0-or-later', purl: 'pkg:deb/debian/a@1' };
  const text = 'The text is in /usr/share/common-licenses/GPL-3.';
  const written = notice('Skerry', [
    { ...part, name: 'a', text },
    { ...part, name: 'b', text },
  ]);
  expect(written.match(/GNU GENERAL PUBLIC LICENSE\n +Version 3/g)).toHaveLength(1);
});

test('the image of a control plane has its programs, both bundles of the controller, and two commands', () => {
  const { ground, bundled } = makeParts();
  const part = { name: 'etcd', version: '3.6.0', license: 'Apache-2.0', purl: 'pkg:golang/etcd@v3.6.0' };
  const withPrograms = { ...ground, programs: [{ name: 'etcd', binary: bundled.skerry.path, part }] };
  const names = { 'skerry-control-plane': bundled.skerry, 'kubectl-skerry': bundled['skerry-agent'] };
  const product = controlPlaneProduct({ ...bundled, ...names }, []);
  const shared = groundImage(withPrograms, 'amd64', origin);
  const { image, billOfMaterials } = productImage(product, withPrograms, shared, 'amd64', origin);
  const files = pathsOf(image);
  for (const path of ['opt/skerry/bin/etcd', 'usr/bin/skerry-control-plane', 'usr/bin/skerry', 'skerry-templates.mjs'])
    expect(files).toContain(path);
  expect(configOf(image).config).toMatchObject({ User: '65532:65532', ExposedPorts: { '51121/tcp': {} } });
  expect(billOfMaterials).toContain('pkg:golang/etcd');
});
