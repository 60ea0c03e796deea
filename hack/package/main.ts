/**
 * `make release`: leaves in dist/ what people install. The same commit makes the same bytes: all times are those of the
 * commit, and what comes from elsewhere is pinned (pinned.ts).
 *
 *     BASE=<folder with an OCI layout>     the images are built on this image, which brings the libraries of Node along
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import packageJson from '../../package.json' with { type: 'json' };
import { NODE_FLAGS } from '../agent-release.ts';
import { bundle } from '../build.ts';
import { readImage, saveImage } from '../image.ts';
import { ROOT } from '../paths.ts';
import { startClock } from '../progress.ts';
import { type Ground, groundImage, joined, type Origin, type ProductImage, productImage, products } from './images.ts';
import { librariesFor, nodeOf } from './parts.ts';
import type { ImageArchitecture } from './pinned.ts';

const ARCHITECTURES: readonly ImageArchitecture[] = ['amd64', 'arm64'];

/** Version, commit and time of what is released. */
function originOf(env: NodeJS.ProcessEnv): Origin {
  const git = (...args: string[]) => {
    const { status, stdout } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' });
    return status === 0 ? stdout.trim() : undefined;
  };
  const revision = git('rev-parse', 'HEAD');
  const seconds = env.SOURCE_DATE_EPOCH ?? git('log', '-1', '--format=%ct');
  if (revision === undefined || seconds === undefined)
    throw new Error('a release is made from a commit: this folder is no checkout of git');
  const isChanged = git('status', '--porcelain') !== '';
  return {
    version: packageJson.version,
    revision: isChanged ? `${revision}-changed` : revision,
    created: new Date(Number(seconds) * 1000),
  };
}

async function main(out: string): Promise<void> {
  const log = startClock((text) => process.stderr.write(text));
  const origin = originOf(process.env);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const write = (path: string, content: Uint8Array | string) => {
    mkdirSync(dirname(join(out, path)), { recursive: true });
    writeFileSync(join(out, path), content);
  };

  log(`Release ${origin.version} of ${origin.revision}`);
  const work = join(out, '.bundles');
  const bundles = {
    skerry: await bundle('skerry', work),
    'skerry-templates': await bundle('skerry-templates', work),
    'skerry-agent': await bundle('skerry-agent', work),
  };

  const base = process.env.BASE;
  const grounds = new Map<ImageArchitecture, Ground>();
  for (const architecture of ARCHITECTURES) {
    const node = await nodeOf(`linux-${architecture}`);
    const below = base ? { base: readImage(base, architecture) } : { libraries: await librariesFor(architecture) };
    grounds.set(architecture, { node, ...below });
  }
  const shared = new Map(
    [...grounds].map(([architecture, ground]) => [architecture, groundImage(ground, architecture, origin)]),
  );
  for (const product of products(bundles, NODE_FLAGS)) {
    const images = Object.fromEntries(
      ARCHITECTURES.map((architecture) => {
        const [ground, below] = [grounds.get(architecture), shared.get(architecture)];
        if (!ground || !below) throw new Error(`nothing to build on for ${architecture}`);
        return [architecture, productImage(product, ground, below, architecture, origin)];
      }),
    ) as Record<ImageArchitecture, ProductImage>;
    const image = joined(images);
    const path = `images/${product.name}-${origin.version}`;
    const reference = `skerry/${product.name.replace('skerry-', '')}:${origin.version}`;
    write(`${path}.oci.tar`, saveImage(image, reference));
    write(`${path}.digest`, `${image.top.digest}\n`);
    for (const architecture of ARCHITECTURES)
      write(`${path}-${architecture}.cdx.json`, images[architecture].billOfMaterials);
    log(`${reference} ${image.top.digest}`);
  }

  rmSync(work, { recursive: true });
  write('SHA256SUMS', checksums(out));
  log(`The release is in ${out}`);
}

/** The digests of all files, in the form of sha256sum. */
function checksums(folder: string): string {
  const files = globSync('**/*', { cwd: folder, withFileTypes: true }).filter((entry) => entry.isFile());
  const lines = files.map((entry) => {
    const path = join(entry.parentPath, entry.name);
    return `${createHash('sha256').update(readFileSync(path)).digest('hex')}  ${path.slice(folder.length + 1)}\n`;
  });
  return lines.sort((a, b) => (a.slice(66) < b.slice(66) ? -1 : 1)).join('');
}

if (import.meta.main) await main(join(ROOT, 'dist'));
