import type { Clock } from '../../../../src/lib/clock.ts';
import type { RegistryView } from '../../../../src/wire/agent.ts';
import { type ArtifactView, artifactFingerprint } from '../../../../src/wire/artifacts.ts';
import type { ArtifactKind } from '../../domain/artifact.ts';
import { type DiskRoom, roomRefusal } from '../../domain/disk-room.ts';
import type { Random } from '../../domain/jitter.ts';
import type { ReachLimits } from '../../domain/reach.ts';
import { registryIdOf } from '../../domain/registry-number.ts';
import { artifactSource, isAllowed, type RegistrySource } from '../../domain/target.ts';
import { RegistryClient } from '../registries/client.ts';
import { download } from './download.ts';
import { ArtifactError, toArtifactError } from './error.ts';
import { fileNamesProblem } from './file-name.ts';
import { resolveHub } from './hub.ts';
import { resolveOci } from './oci.ts';
import type { Pace } from './pace.ts';
import { type ArtifactRecord, artifactKey, type RecordFile } from './record.ts';
import type { Resolved, SourceFile } from './source.ts';
import { type ArtifactStore, contentDigest } from './store.ts';
import { unpack } from './unpack.ts';

/** A pull may take so long, ms; what it has brought by then stays for the next one. */
const DEADLINE = 6 * 3600 * 1000;
const REPOSITORY = /^\w[\w.-]*(\/\w[\w.-]*)*$/;

/** An artifact and where it is. */
interface Asked {
  kind: ArtifactKind;
  view: ArtifactView;
  registry: RegistryView | undefined;
}

export interface ResolveDependencies {
  /** `linux` and the machine's architecture, for indexes */
  platform: { os: string; architecture: string };
  /** what bounds where the agent goes for a registry */
  reach(): ReachLimits;
}

export interface PullDependencies extends ResolveDependencies {
  store: ArtifactStore;
  clock: Clock;
  random: Random;
  pace: Pace;
  /** read again while bytes arrive */
  room(): Promise<DiskRoom>;
  /** one download of a content at a time */
  exclusively<T>(identity: string, act: () => Promise<T>): Promise<T>;
  claim(sha256: string): void;
  quiet?: number;
}

/** How far a pull is: bytes of all files that are here, and of all files as far as their sizes are known. */
export type OnProgress = (received: number, total: number) => void;

/** Pulls one artifact into the store, and returns its record, which is not saved. Throws ArtifactError. */
export async function pullArtifact(
  { kind, view, registry }: Asked,
  deps: PullDependencies,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<ArtifactRecord> {
  const late = AbortSignal.timeout(DEADLINE);
  const ended = AbortSignal.any([signal, late]);
  try {
    const limits = deps.reach();
    const source = sourceOf(view, registry, limits);
    using client = new RegistryClient(source, limits);
    const resolved = await resolve({ kind, view, registry }, client, deps, ended);
    // What is in archives is known when they are here.
    checkNames(
      view,
      resolved.files.filter(({ archive }) => !archive),
    );
    // A digest names a content wherever it comes from; everything else means something at its host only.
    for (const file of resolved.files)
      if (!file.identity.startsWith('sha256:')) file.identity = `${source.host}/${file.identity}`;
    const files = await fetchAll(resolved, artifactKey({ kind, uuid: view.uuid }), deps, onProgress, ended);
    checkNames(view, files);
    return {
      ...{ kind, uuid: view.uuid, name: view.name, asked: artifactFingerprint(view) },
      ...{ resolvedRevision: resolved.revision, floating: resolved.floating, files },
      digest: contentDigest(files),
      totalBytes: files.reduce((sum, { size }) => sum + size, 0),
      pulledAt: deps.clock.wall(),
    };
  } catch (error) {
    signal.throwIfAborted();
    if (late.aborted) throw new ArtifactError('Unavailable', 'the pull was not done within 6 hours');
    throw toArtifactError(error);
  }
}

function checkNames({ repo }: ArtifactView, files: readonly { path: string }[]): void {
  const problem = fileNamesProblem(files.map(({ path }) => path));
  if (problem) throw new ArtifactError('Invalid', `${repo}: ${problem}`);
}

/** The revision that the name in a view means now: a manifest digest, or a commit. Throws ArtifactError. */
export async function lookUpRevision(asked: Asked, deps: ResolveDependencies, signal: AbortSignal): Promise<string> {
  try {
    const limits = deps.reach();
    using client = new RegistryClient(sourceOf(asked.view, asked.registry, limits), limits);
    return (await resolve(asked, client, deps, signal)).revision;
  } catch (error) {
    throw toArtifactError(error);
  }
}

function resolve(
  { kind, view, registry }: Asked,
  client: RegistryClient,
  { platform }: ResolveDependencies,
  signal: AbortSignal,
): Promise<Resolved> {
  return registry?.type === 'hub' ? resolveHub(kind, view, client, signal) : resolveOci(view, client, platform, signal);
}

function sourceOf(
  { repo, registryId }: ArtifactView,
  registry: RegistryView | undefined,
  { policy }: ReachLimits,
): RegistrySource {
  const source = registry && artifactSource(registry);
  if (!registry)
    throw new ArtifactError('NotFound', `${nodeOf(registryId)} has no registry ${registryIdOf(registryId)}`);
  if (!source)
    throw new ArtifactError(
      'Invalid',
      `registry ${registryIdOf(registryId)} is no host that artifacts can be pulled from`,
    );
  if (!REPOSITORY.test(repo)) throw new ArtifactError('Invalid', `${JSON.stringify(repo)} is no name of a repository`);
  if (!isAllowed(registry, policy))
    throw new ArtifactError('PolicyRefused', `the machine takes nothing from ${source.host}`);
  return source;
}

/** Whose registries a number is one of. */
const nodeOf = (registryId: number) => (registryId < 0 ? 'this machine' : 'this node');

async function fetchAll(
  { files }: Resolved,
  owner: string,
  deps: PullDependencies,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<RecordFile[]> {
  const { store } = deps;
  const missing = await missingBytes(files, store);
  const refused = roomRefusal(missing, await deps.room());
  if (refused) throw new ArtifactError('DiskFull', refused);
  const total = files.reduce((sum, { size = 0 }) => sum + size, 0);
  let done = 0;
  const fetched: RecordFile[] = [];
  for (const file of files) {
    const bounds = {
      ...{ ...deps, owner },
      checkRoom: async () => {
        const refusal = roomRefusal(0, await deps.room());
        if (refusal) throw new ArtifactError('DiskFull', refusal);
      },
      onBytes: (bytes: number) => onProgress(done + bytes, Math.max(total, done + bytes)),
    };
    const { path: name, archive: form } = file;
    // Two artifacts with one file would also write to one partial file for each file of an archive.
    const contents = await deps.exclusively(file.identity, async () => {
      const found = await download(file, bounds, signal);
      done += found.size;
      return form ? unpack({ name, form, ...found }, bounds, signal) : [{ path: name, ...found }];
    });
    fetched.push(...contents);
  }
  return fetched;
}

/** Bytes that have to be written; files of unknown size do not count. */
async function missingBytes(files: readonly SourceFile[], store: ArtifactStore): Promise<number> {
  let bytes = 0;
  for (const { size = 0, checksum, identity } of files) {
    const isHere = checksum?.algorithm === 'sha256' && (await store.sizeOf(checksum.value)) !== undefined;
    if (!isHere) bytes += Math.max(0, size - store.partial(identity).size);
  }
  return bytes;
}
