import { createHash } from 'node:crypto';
import type { VolumeMapping } from '../../../src/api/container/index.ts';
import { SERVICE_ACCOUNT_MOUNT } from '../../../src/api/names.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { VolumeMountView } from '../../../src/wire/volume-mounts.ts';

/**
 * Names of the directories and files that the agent writes of volume mounts, and which of them a mapping binds. All paths
 * are relative to the directory of volumes:
 *
 *     secrets/<uuid>, configMaps/<uuid>      a whole volume mount: a directory that changes in place
 *     <the same>@<hash of a prefix>          the keys below a prefix: a directory that changes in place
 *     <the same>@<hash of key and value>     one key: a file that never changes
 *     system/<set>                           a set of the system's files: a directory that changes in place
 *     system/<set>@<hash of path and value>  one file of it: a file that never changes
 *     serviceaccounts/<microservice uuid>    the token of a microservice: a directory that changes in place
 *
 * A link in a mounted directory cannot lead out of it, so a prefix needs a directory of its own. A container that binds
 * one file keeps that file, so another value is another path, which replaces the container.
 */

/** A mapping with the path that it binds. Only the agent sets it, and the container digest contains it. */
export interface ResolvedMapping extends VolumeMapping {
  path?: string;
}

/** A volume mount that cannot be read, by what is readable of it. */
interface UnreadVolumeMount {
  uuid: string;
  name: string;
  problem: string;
}

export type SentVolumeMount = VolumeMountView | UnreadVolumeMount;

/** A volume mount of this machine, as the local API shows it: nothing of what is in it. */
export interface VolumeMountItem {
  uuid: string;
  name: string;
  /** absent where that cannot be read */
  type?: VolumeMountView['type'];
  state: 'Ready' | 'Pending' | 'Failed';
  /** how many are here */
  keys: number;
  /** bytes */
  size: number;
  /** when its content here changed last, Unix ms */
  changedAt?: number;
  lastError: string;
}

/** A view with what its container binds, or why the microservice has to wait. */
export type Resolution = { view: MicroserviceView } | { reason: string; message: string };

const WAITING_FOR_VOLUME_MOUNT = 'WaitingForVolumeMount';

/** The path that a mapping binds, or why there is none. */
export type FoundPath = { path: string } | { message: string };

/** The view with the paths that `find` has for its volume mounts; undefined leaves a mapping as it is. */
export function resolveMappings(
  view: MicroserviceView,
  find: (mapping: ResolvedMapping) => FoundPath | undefined,
): Resolution {
  if (!view.volumeMappings.some(({ type }) => type === 'volumeMount')) return { view };
  const volumeMappings: ResolvedMapping[] = [];
  for (const mapping of view.volumeMappings) {
    const found = find(mapping);
    if (found && 'message' in found) return { reason: WAITING_FOR_VOLUME_MOUNT, message: found.message };
    volumeMappings.push({ ...mapping, ...found });
  }
  return { view: { ...view, volumeMappings } };
}

const FOLDERS = { secret: 'secrets', configMap: 'configMaps' } as const satisfies Record<
  VolumeMountView['type'],
  string
>;
export const MOUNT_FOLDERS: readonly string[] = Object.values(FOLDERS);
export const TOKEN_FOLDER = 'serviceaccounts';

/** The directory of a whole volume mount. */
export function rootPath({ type, uuid }: Pick<VolumeMountView, 'type' | 'uuid'>): string {
  return `${FOLDERS[type]}/${uuid}`;
}

/** The directory of the keys below a prefix. */
export function prefixPath(root: string, prefix: string): string {
  return `${root}@${hash(prefix)}`;
}

/** The file of one key with one value. */
export function keyPath(root: string, key: string, value: Uint8Array): string {
  return `${root}@${hash(key, value)}`;
}

/** The whole volume mount that a path belongs to. */
export function rootOf(path: string): string {
  return path.split('@', 1)[0] as string;
}

function hash(name: string, value?: Uint8Array): string {
  const sum = createHash('sha256').update(name);
  if (value) sum.update('\0').update(value);
  return sum.digest('hex').slice(0, 32);
}

/** What a mapping of the type volumeMount names: a volume mount, and a key or a prefix of keys; empty is the whole. */
export function namedBy({ hostDestination }: Pick<VolumeMapping, 'hostDestination'>): { mount: string; key: string } {
  const slash = hostDestination.indexOf('/');
  if (slash < 0) return { mount: hostDestination, key: '' };
  return { mount: hostDestination.slice(0, slash), key: hostDestination.slice(slash + 1).replace(/(?<!\/)\/+$/, '') };
}

/** All prefixes of keys that are directories. */
export function prefixesOf(keys: Iterable<string>): Set<string> {
  const prefixes = new Set<string>();
  for (const key of keys)
    for (let slash = key.indexOf('/'); slash > 0; slash = key.indexOf('/', slash + 1))
      prefixes.add(key.slice(0, slash));
  return prefixes;
}

/** The keys below a prefix, without it. */
export function treeBelow<T>(tree: ReadonlyMap<string, T>, prefix: string): Map<string, T> {
  const inside = `${prefix}/`;
  return new Map(
    [...tree].flatMap(([key, value]) => (key.startsWith(inside) ? [[key.slice(inside.length), value]] : [])),
  );
}

/** The paths of volume mounts that a view binds. */
export function boundPaths({ volumeMappings }: Pick<MicroserviceView, 'volumeMappings'>): string[] {
  return volumeMappings.flatMap((mapping: ResolvedMapping) => (mapping.path === undefined ? [] : [mapping.path]));
}

/** Where the token of a microservice is mounted; undefined where it has none, or where another mapping covers the place. */
export function tokenTarget(view: MicroserviceView): string | undefined {
  if (!view.serviceAccount || tokenCover(view)) return undefined;
  return SERVICE_ACCOUNT_MOUNT;
}

/** The mapping that leaves no room for the token: a directory can be made below a file system of its own only. */
export function tokenCover({ volumeMappings }: Pick<MicroserviceView, 'volumeMappings'>): string | undefined {
  const places = [SERVICE_ACCOUNT_MOUNT, SERVICE_ACCOUNT_MOUNT.replace(/^\/var\/run\//, '/run/')];
  return volumeMappings
    .map(({ containerDestination }) => containerDestination.replace(/(?<!\/)\/+$/, ''))
    .find((target) => places.some((place) => place === target || place.startsWith(`${target}/`)));
}

/** The directory of a microservice's token. */
export function tokenPath(uuid: string): string {
  return `${TOKEN_FOLDER}/${uuid}`;
}
