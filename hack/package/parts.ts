import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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

/** Where a Node says in its binary from where its headers come, and so which version it is. */
const HEADERS = 'https://nodejs.org/download/release/v';
const LEAST_NODE = 24;

/**
 * The Node for armv7 that a user names: a binary, or an archive of a distribution of Node, which is unpacked into `folder`. Throws
 * when it is a program for other machines, or says that it is too old for the agent.
 */
export async function armv7Node(path: string, folder: string): Promise<string> {
  const isArchive = /\.(tar\.(gz|xz)|tgz)$/.test(path);
  if (isArchive) {
    const args = ['-xf', path, '-C', folder, '--strip-components=2', '--wildcards', '*/bin/node'];
    await run('tar', args, { timeout: PATIENCE_MS });
  }
  const binary = isArchive ? join(folder, 'node') : path;
  const content = readFileSync(binary);
  const head = content.subarray(0, 20);
  // ELF, 32 bits, machine 40.
  const isArm = head.toString('latin1', 0, 4) === '\x7fELF' && head[4] === 1 && head[18] === 40;
  if (!isArm)
    throw new Error(`NODE_ARMV7="${path}": has to be a Node for armv7, a binary or the archive with its bin/node`);
  const said = content.indexOf(HEADERS);
  const version =
    said < 0 ? undefined : /^\d+\.\d+\.\d+/.exec(content.toString('latin1', said + HEADERS.length, said + 64));
  if (version && Number.parseInt(version[0], 10) < LEAST_NODE)
    throw new Error(`NODE_ARMV7="${path}": is Node ${version[0]}, and the agent needs ${LEAST_NODE} or newer`);
  return binary;
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
function debianPackage(library: DebianPackage, architecture: ImageArchitecture): Promise<string> {
  const { name, version, path, sha256 } = library;
  return cached(`${name}_${version}_${architecture}`, async (draft) => {
    const archive = join(draft, 'package.deb');
    const bytes = await download(`${path}_${architecture}.deb`, sha256[architecture]);
    writeFileSync(archive, bytes);
    await run('dpkg-deb', ['--extract', archive, draft]);
    rmSync(archive);
  });
}

async function download(path: string, sha256: string): Promise<Buffer> {
  const problems: string[] = [];
  for (const archive of DEBIAN_ARCHIVES) {
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
  throw new Error(`a package of Debian cannot be had:\n${problems.join('\n')}`);
}

/** A folder of the cache that is filled once, and has its name only when it is complete. */
async function cached(name: string, fill: (draft: string) => Promise<void>): Promise<string> {
  const folder = join(cacheFolder(), 'release', name);
  if (existsSync(folder)) return folder;
  await using _one = await lock(join(cacheFolder(), `release-${name}.lock`));
  if (existsSync(folder)) return folder;
  const draft = `${folder}.draft`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  await fill(draft);
  renameSync(draft, folder);
  return folder;
}
