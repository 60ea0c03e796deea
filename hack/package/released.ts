import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readImage } from '../image.ts';
import type { Product } from './images.ts';
import type { ImageArchitecture } from './pinned.ts';

/** Each image of a release, and what its bill of materials has beside packages of npm. */
const IMAGES: Readonly<Record<Product['name'], readonly string[]>> = {
  'skerry-controller': ['node'],
  'skerry-agent': ['node'],
  'skerry-control-plane': ['node', 'etcd', 'etcdutl', 'kube-apiserver', 'kube-controller-manager'],
};
const ARCHITECTURES: readonly ImageArchitecture[] = ['amd64', 'arm64'];

/**
 * Faults of the images of a release in a folder, a sentence each: an archive or an architecture that is absent, a blob with
 * other content than its digest says, another digest than the release names, a part without a licence.
 */
export function faultsOfImages(folder: string, version: string): string[] {
  return Object.entries(IMAGES).flatMap(([name, parts]) => {
    const path = join(folder, 'images', `${name}-${version}`);
    if (!existsSync(`${path}.oci.tar`)) return [`${name}: there is no archive`];
    return [...faultsOfArchive(name, path), ...ARCHITECTURES.flatMap((each) => faultsOfBill(name, path, each, parts))];
  });
}

function faultsOfArchive(name: string, path: string): string[] {
  const layout = mkdtempSync(join(tmpdir(), 'skerry-released-'));
  try {
    execFileSync('tar', ['-xf', `${path}.oci.tar`, '-C', layout]);
    const { manifests } = JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8')) as {
      manifests: { digest: string }[];
    };
    const said = readFileSync(`${path}.digest`, 'utf8').trim();
    const digest = manifests[0]?.digest;
    const faults = digest === said ? [] : [`${name}: its digest is ${digest}, and the release says ${said}`];
    for (const architecture of ARCHITECTURES)
      try {
        readImage(layout, architecture);
      } catch (error) {
        faults.push(`${name}: ${(error as Error).message.replace(`${layout}: `, '').replace(`${layout} `, 'it ')}`);
      }
    return faults;
  } finally {
    rmSync(layout, { recursive: true, force: true });
  }
}

interface Bill {
  components?: { name: string; licenses?: object[] }[];
}

function faultsOfBill(name: string, path: string, architecture: string, parts: readonly string[]): string[] {
  const file = `${path}-${architecture}.cdx.json`;
  if (!existsSync(file)) return [`${name}: there is no bill of materials for ${architecture}`];
  const { components = [] } = JSON.parse(readFileSync(file, 'utf8')) as Bill;
  return parts.flatMap((part) => {
    const found = components.find((each) => each.name === part);
    return found?.licenses?.length
      ? []
      : [`${name}: ${part} has no licence in the bill of materials for ${architecture}`];
  });
}
