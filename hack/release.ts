import { spawnSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { Log } from './progress.ts';

/** The part of `fetch` that a download uses. */
export type Download = (url: string, init: { signal: AbortSignal }) => Promise<Response>;

const ENVTEST_INDEX = 'https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml';
const KUBERNETES = 'https://dl.k8s.io/release';

/** Timeout for a response and for each further chunk, so that a machine without internet loses only seconds. */
const PATIENCE_MS = 5_000;

/**
 * Downloads the envtest release (etcd, kube-apiserver, kubectl) of the newest patch of `version`'s minor and puts its
 * binaries into `folder`. The archive must have the SHA-512 of the index.
 */
export async function downloadEnvtest(version: string, download: Download, folder: string, log: Log): Promise<void> {
  // A checksum of digits only must remain text.
  const index = parse((await get(ENVTEST_INDEX, download)).toString(), { schema: 'failsafe' });
  const release = pickEnvtest(index, version, process.platform, goArch());
  log(`Downloading the envtest release ${release.version}`);
  const archive = await get(release.url, download, release.hash);

  const unpacked = join(folder, `.${randomUUID()}`);
  mkdirSync(unpacked, { recursive: true });
  try {
    const args = ['-xz', '-C', unpacked, '--strip-components=2', '-f', '-'];
    const tar = spawnSync('tar', args, { input: archive });
    if (tar.status !== 0) throw new Error(`tar could not unpack ${release.url}: ${tar.stderr ?? tar.error}`);
    for (const file of readdirSync(unpacked)) renameSync(join(unpacked, file), join(folder, file));
  } finally {
    rmSync(unpacked, { recursive: true, force: true });
  }
}

/** Downloads one binary of the Kubernetes release itself, for what envtest does not have. */
export async function downloadKubernetes(
  name: string,
  version: string,
  download: Download,
  folder: string,
  log: Log,
): Promise<void> {
  const url = `${KUBERNETES}/v${version}/bin/${process.platform}/${goArch()}/${name}`;
  const hash = (await get(`${url}.sha512`, download)).toString().trim();
  log(`Downloading ${name} ${version}`);
  const binary = await get(url, download, hash);
  const partial = join(folder, `.${randomUUID()}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(partial, binary);
  chmodSync(partial, 0o755);
  renameSync(partial, join(folder, name));
}

/** The entry of the envtest index for the newest patch of a version's minor. */
export function pickEnvtest(
  index: { releases?: Record<string, Record<string, { hash: string; selfLink: string }>> },
  version: string,
  platform: string,
  arch: string,
): { version: string; hash: string; url: string } {
  const minor = version.split('.').slice(0, 2).join('.');
  const versions = Object.keys(index.releases ?? {})
    .filter((key) => key.startsWith(`v${minor}.`) && /^v[\d.]+$/.test(key))
    .sort((a, b) => Number(a.split('.')[2]) - Number(b.split('.')[2]));
  const newest = versions.at(-1);
  const entry = newest && index.releases?.[newest]?.[`envtest-${newest}-${platform}-${arch}.tar.gz`];
  if (!entry) throw new Error(`there is no envtest release of ${minor} for ${platform}-${arch}`);
  return { version: newest.slice(1), hash: entry.hash, url: entry.selfLink };
}

async function get(url: string, download: Download, sha512?: string): Promise<Buffer> {
  if (sha512 !== undefined && !/^[0-9a-f]{128}$/.test(sha512))
    throw new Error(`${url}: there is no checksum to compare`);
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(new Error(`no answer in ${PATIENCE_MS / 1000} s`)), PATIENCE_MS);
  try {
    const response = await download(url, { signal: abort.signal });
    if (!response.ok) throw new Error(`status ${response.status}`);
    const hash = createHash('sha512');
    const pieces: Uint8Array[] = [];
    for await (const piece of response.body ?? []) {
      timer.refresh();
      pieces.push(piece);
      hash.update(piece);
    }
    if (sha512 !== undefined && hash.digest('hex') !== sha512) throw new Error('its checksum is not the published one');
    return Buffer.concat(pieces);
  } catch (error) {
    throw new Error(`${url}: ${reasonOf(error)}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

function reasonOf(error: unknown): string {
  const { cause, message } = error as Error & { cause?: { code?: string } };
  return cause?.code ?? message;
}

function goArch(): string {
  return { x64: 'amd64', ia32: '386' }[process.arch as string] ?? process.arch;
}
