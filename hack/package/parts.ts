import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import type { ImageFile } from '../image.ts';
import { lock } from '../lock.ts';
import { cacheFolder } from '../paths.ts';
import {
  DEBIAN_ARCHIVES,
  type DebianPackage,
  type ImageArchitecture,
  LIBRARIES,
  LOADERS,
  NODES,
  type Platform,
  TRIPLETS,
} from './pinned.ts';

/** Fetches what pinned.ts names into the cache folder, once, and verifies it. */
const run = promisify(execFile);
const PATIENCE_MS = 300_000;

export interface NodeParts {
  /** path of the binary */
  binary: string;
  /** path of the licences of Node and of what is in it */
  license: string;
}

/** The Node of a platform. */
export async function nodeOf(platform: Platform): Promise<NodeParts> {
  const { name, version, integrity } = NODES[platform];
  const folder = await cached(`${name}-${version}`, async (draft) => {
    const args = ['pack', `${name}@${version}`, '--pack-destination', draft, '--silent'];
    const { stdout } = await run('npm', args, { cwd: draft, timeout: PATIENCE_MS });
    const archive = join(draft, stdout.trim().split('\n').at(-1) ?? '');
    const digest = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
    if (digest !== integrity)
      throw new Error(`${name}@${version} has the digest ${digest}, and is pinned to ${integrity}`);
    await run('tar', ['-xzf', archive, '-C', draft, '--strip-components=1', 'package/bin/node', 'package/LICENSE']);
    rmSync(archive);
  });
  return { binary: join(folder, 'bin/node'), license: join(folder, 'LICENSE') };
}

/** The libraries that Node needs, with their licences, as files of an image. */
export async function librariesFor(architecture: ImageArchitecture): Promise<ImageFile[]> {
  const loader = LOADERS[architecture];
  const triplet = TRIPLETS[architecture];
  const files: ImageFile[] = [];
  for (const library of LIBRARIES) {
    const folder = await debianPackage(library, architecture);
    for (const pattern of library.files) {
      const path = pattern.replace('<triplet>', triplet).replace('<loader>', loader.file);
      const content = readFileSync(realpathSync(join(folder, path)));
      files.push({ path: `/${path}`, content, mode: path.endsWith('/copyright') ? 0o644 : 0o755 });
    }
  }
  const target = `/lib/${triplet}/${loader.file}`;
  return [...files, { path: loader.path, link: target }];
}

/** The folder with an unpacked package of Debian. */
function debianPackage({ path, sha256 }: DebianPackage, architecture: ImageArchitecture): Promise<string> {
  const remedy = 'Name a version that there is in hack/package/pinned.ts';
  const file = { path: `${path}_${architecture}.deb`, sha256: sha256[architecture] };
  return debianFolder({ ...file, archives: DEBIAN_ARCHIVES, remedy });
}

interface DebianFile {
  /** below the root of an archive */
  path: string;
  sha256: string;
  /** they are asked one after another */
  archives: readonly string[];
  /** what people do when none has it */
  remedy: string;
}

/** The folder with an unpacked package of Debian. */
export function debianFolder(file: DebianFile): Promise<string> {
  const name = `${basename(file.path, '.deb')}-${file.sha256.slice(0, 12)}`;
  return cached(name, async (draft) => {
    const archive = join(draft, 'package.deb');
    writeFileSync(archive, await download(file));
    await run('dpkg-deb', ['--extract', archive, draft]);
    rmSync(archive);
  });
}

/** The bytes of a package; throws when no archive has it with this digest. */
export async function download({ path, sha256, archives, remedy }: DebianFile): Promise<Buffer> {
  const problems: string[] = [];
  for (const archive of archives) {
    const url = `${archive}/${path}`;
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
      const bytes = Buffer.from(await response.arrayBuffer());
      const digest = createHash('sha256').update(bytes).digest('hex');
      if (response.ok && digest === sha256) return bytes;
      problems.push(
        `${url}: ${response.ok ? `has the digest ${digest}, and is pinned to ${sha256}` : response.status}`,
      );
    } catch (error) {
      problems.push(`${url}: ${(error as Error).message}`);
    }
  }
  throw new Error(`a package of Debian cannot be had:\n${problems.join('\n')}\n${remedy}`);
}

/**
 * A folder of the cache that is filled once, and has its name only when it is complete. What was changed since then is filled
 * again: the digest of all its files is beside it.
 */
export async function cached(
  name: string,
  fill: (draft: string) => Promise<void>,
  cache: string = cacheFolder(),
): Promise<string> {
  const folder = join(cache, 'release', name);
  const isWhole = () => existsSync(folder) && readDigest(folder) === treeDigest(folder);
  if (isWhole()) return folder;
  await using _one = await lock(join(cache, `release-${name}.lock`));
  if (isWhole()) return folder;
  rmSync(folder, { recursive: true, force: true });
  const draft = `${folder}.draft`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  await fill(draft);
  writeFileSync(`${folder}.sha256`, treeDigest(draft));
  renameSync(draft, folder);
  return folder;
}

const readDigest = (folder: string) =>
  existsSync(`${folder}.sha256`) ? readFileSync(`${folder}.sha256`, 'utf8') : undefined;

/** One digest of the paths, kinds and contents of all that is in a folder. */
function treeDigest(folder: string): string {
  const hash = createHash('sha256');
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const paths = entries.map((entry) => [join(entry.parentPath, entry.name).slice(folder.length), entry] as const);
  for (const [path, entry] of paths.sort(([a], [b]) => (a < b ? -1 : 1))) {
    hash.update(`${path}\0`);
    if (entry.isSymbolicLink()) hash.update(`-> ${readlinkSync(join(folder, path))}\0`);
    if (entry.isFile())
      hash.update(
        createHash('sha256')
          .update(readFileSync(join(folder, path)))
          .digest(),
      );
  }
  return hash.digest('hex');
}
