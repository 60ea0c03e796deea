import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { buildImage, buildIndex, saveImage } from '../image.ts';
import { faultsOfImages } from './released.ts';

const NAMES = ['skerry-controller', 'skerry-agent', 'skerry-control-plane'] as const;
const PARTS = ['node', 'etcd', 'etcdutl', 'kube-apiserver', 'kube-controller-manager'];

/** The images of a release as `make release` leaves them, of a few bytes. */
function makeRelease(architectures: readonly ('amd64' | 'arm64')[] = ['amd64', 'arm64'], parts = PARTS) {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'images'));
  const components = parts.map((name) => ({ name, licenses: [{ license: { id: 'Apache-2.0' } }] }));
  for (const name of NAMES) {
    const path = join(folder, 'images', `${name}-1.2.3`);
    const image = buildIndex(
      architectures.map((architecture) => buildImage({ architecture, files: [{ path: '/a', content: name }] })),
    );
    writeFileSync(`${path}.oci.tar`, saveImage(image, `skerry/${name}:1.2.3`));
    writeFileSync(`${path}.digest`, `${image.top.digest}\n`);
    for (const each of architectures) writeFileSync(`${path}-${each}.cdx.json`, JSON.stringify({ components }));
  }
  return { folder, at: (name: string) => join(folder, 'images', `skerry-control-plane-1.2.3${name}`) };
}

test('a release whose images have each architecture, their digests and licences has no fault', () => {
  expect(faultsOfImages(makeRelease().folder, '1.2.3')).toEqual([]);
});

test('a release without an archive, an architecture or a bill of materials says which', () => {
  const { folder, at } = makeRelease();
  rmSync(at('-arm64.cdx.json'));
  expect(faultsOfImages(folder, '1.2.3')).toEqual(['skerry-control-plane: there is no bill of materials for arm64']);
  rmSync(at('.oci.tar'));
  expect(faultsOfImages(folder, '1.2.3')).toEqual(['skerry-control-plane: there is no archive']);
  expect(faultsOfImages(makeRelease(['amd64']).folder, '1.2.3')).toContain(
    'skerry-control-plane: it has no image for arm64',
  );
});

test('a release with another digest than it says, a changed layer or a part without a licence says which', () => {
  const { folder, at } = makeRelease(undefined, PARTS.slice(0, -1));
  const image = buildImage({ architecture: 'amd64', files: [{ path: '/a', content: 'first' }] });
  const layer = [...image.blobs].find(([, bytes]) => bytes[0] !== '{'.charCodeAt(0))?.[0] ?? '';
  const changed = { ...image, blobs: new Map(image.blobs).set(layer, Buffer.from('changed')) };
  writeFileSync(at('.oci.tar'), saveImage(changed, 'skerry/control-plane:1.2.3'));
  expect(faultsOfImages(folder, '1.2.3')).toEqual([
    expect.stringMatching(/^skerry-control-plane: its digest is sha256:\S+, and the release says sha256:/),
    `skerry-control-plane: the blob ${layer} has other content`,
    'skerry-control-plane: it has no image for arm64',
    ...['amd64', 'arm64'].map(
      (each) => `skerry-control-plane: kube-controller-manager has no licence in the bill of materials for ${each}`,
    ),
  ]);
});
