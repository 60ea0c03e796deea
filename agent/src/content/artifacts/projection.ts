import { randomBytes } from 'node:crypto';
import { dirname, join } from 'node:path';
import {
  ARTIFACT_KINDS,
  type ArtifactKind,
  isArtifactName,
  type ProjectionPlace,
  projectionPath,
} from '../../domain/artifact.ts';
import {
  cloneFile,
  type FileOwner,
  giveTo,
  isDirectory,
  linkFile,
  linkText,
  makeDirectories,
  moveAway,
  moveDirectory,
  NEXT_LINK,
  namesIn,
  removeEmptyDirectory,
  removeLink,
  removeTree,
  removeWritableTree,
  someNamesIn,
  statOf,
  switchLink,
  withDirectory,
  withDirectoryIfAny,
  withSubdirectory,
} from '../../machine/tree.ts';
import type { ArtifactRecord } from './record.ts';

/**
 * The directories that containers mount.
 *
 *     <kind>/<microservice>/<ro|rw>/          mounted at bindPath
 *         <name> -> .content/<version>        switched in one step when the content changes
 *         .content/<version>/...              the files of one content
 *     <kind>/.staging/...                     a content that is being assembled
 *     <kind>/.trash/...                       what is on its way out
 *
 * A container can write to a mounted directory with the mode rw. So nothing is assembled or removed in one: contents are
 * moved in and out as a whole, by paths that links of the container cannot redirect (`withDirectory`). What came out of it
 * is removed in the same way, since processes of the container may still be in it; files that they have open stay open.
 * Nothing that a container wrote is ever read, and of the names that it made only some are looked at.
 */
export interface ProjectionState extends ProjectionPlace {
  /** version by name of the artifact */
  links: ReadonlyMap<string, string>;
  /** all that are there, linked or not */
  versions: readonly string[];
}

const CONTENT = '.content';
const STAGING = '.staging';
const TRASH = '.trash';
/** Files and directories, so that a container with millions of them does not hold up the others. */
const REMOVED_AT_ONCE = 10_000;
/** Names of one directory. What the agent made there is found by its own names, however many others there are. */
const LISTED = 1000;

/** Names the content of an artifact in a projection. */
export function projectedName(name: string, { digest }: Pick<ArtifactRecord, 'digest'>): string {
  return `${name}-${digest.replace('sha256:', '').slice(0, 16)}`;
}

/** The artifact that a version belongs to. */
export function nameOfVersion(version: string): string {
  return version.slice(0, -17);
}

/** Not so what a container made in its writable copy under a name of its own. */
function isVersion(name: string): boolean {
  return /-[0-9a-f]{16}$/.test(name) && isArtifactName(nameOfVersion(name));
}

/** The projections of this machine, as its directories show them. */
export class Projections {
  readonly #volumes: string;

  constructor(volumesDirectory: string) {
    this.#volumes = volumesDirectory;
  }

  pathOf(place: ProjectionPlace): string {
    return projectionPath(place, this.#volumes);
  }

  /** Removes what an earlier process was assembling, and reads what is there; `names`: of the artifacts of a kind. */
  async open(names: (kind: ArtifactKind) => readonly string[]): Promise<ProjectionState[]> {
    const found: ProjectionState[] = [];
    for (const kind of ARTIFACT_KINDS) {
      await removeTree(join(this.#volumes, kind, STAGING));
      for (const uuid of await namesIn(join(this.#volumes, kind))) {
        if (uuid.startsWith('.')) continue;
        for (const mode of await namesIn(join(this.#volumes, kind, uuid)))
          if (mode === 'ro' || mode === 'rw') found.push(await this.read({ kind, uuid, mode }, names(kind)));
      }
    }
    return found;
  }

  /** What a projection shows of these artifacts, and what else of the agent's is in it. */
  async read({ kind, uuid, mode }: ProjectionPlace, names: readonly string[]): Promise<ProjectionState> {
    const links = new Map<string, string>();
    const versions = new Set<string>();
    await withDirectoryIfAny(this.pathOf({ kind, uuid, mode }), async (root) => {
      const listed = (await someNamesIn(root, LISTED)).filter(isArtifactName);
      const targets: [name: string, version: string][] = [];
      for (const name of new Set([...names, ...listed])) {
        const text = await linkText(join(root, name));
        const version = text?.startsWith(`${CONTENT}/`) ? text.slice(CONTENT.length + 1) : '';
        if (isVersion(version) && nameOfVersion(version) === name) targets.push([name, version]);
      }
      await withDirectoryIfAny(join(root, CONTENT), async (contents) => {
        for (const name of (await someNamesIn(contents, LISTED)).filter(isVersion)) versions.add(name);
        for (const [name, version] of targets)
          if (await isDirectory(join(contents, version))) {
            links.set(name, version);
            versions.add(version);
          }
      });
    });
    return { kind, uuid, mode, links, versions: [...versions].sort() };
  }

  async #holds(place: ProjectionPlace, version: string): Promise<boolean> {
    const found = await withDirectoryIfAny(this.pathOf(place), (root) =>
      withDirectoryIfAny(join(root, CONTENT), (contents) => isDirectory(join(contents, version))),
    );
    return found ?? false;
  }

  /** Puts a content at its name, in one step for whoever reads it; contents to `discard` are moved out. */
  async put(
    place: ProjectionPlace,
    name: string,
    record: ArtifactRecord,
    options: { blob: (sha256: string) => string; owner?: FileOwner; discard: readonly string[] },
  ): Promise<void> {
    const version = projectedName(name, record);
    const path = this.pathOf(place);
    await makeDirectories(path);
    await this.discard(place, options.discard);
    const staged = (await this.#holds(place, version)) ? undefined : await this.#assemble(place, record, options);
    await withDirectory(path, async (root) => {
      if (staged)
        await withSubdirectory(root, CONTENT, async (contents) => {
          // A container may have made something under the name of a content.
          if (await statOf(join(contents, version))) await this.#moveToTrash(place, join(contents, version));
          await moveDirectory(staged, join(contents, version));
        });
      if (await isDirectory(join(root, NEXT_LINK))) await this.#moveToTrash(place, join(root, NEXT_LINK));
      if (await isDirectory(join(root, name)))
        throw new Error(`the container has made a directory named ${name}, where the artifact is to be`);
      await switchLink(root, name, `${CONTENT}/${version}`);
    });
  }

  async #assemble(
    place: ProjectionPlace,
    { files }: ArtifactRecord,
    { blob, owner }: { blob: (sha256: string) => string; owner?: FileOwner },
  ): Promise<string> {
    const staged = join(this.#volumes, place.kind, STAGING, randomBytes(8).toString('hex'));
    const isCopy = place.mode === 'rw';
    await makeDirectories(staged);
    const directories = new Set([staged]);
    for (const { path, sha256 } of files) {
      const to = join(staged, path);
      for (let up = dirname(to); !directories.has(up); up = dirname(up)) directories.add(up);
      await makeDirectories(dirname(to));
      if (isCopy) await cloneFile(blob(sha256), to, owner);
      else await linkFile(blob(sha256), to);
    }
    for (const directory of directories)
      await giveTo(directory, isCopy && !owner ? 0o777 : 0o755, isCopy ? owner : undefined);
    return staged;
  }

  /** Takes an artifact out of a projection; its content is to be discarded next. */
  async unlink(place: ProjectionPlace, name: string): Promise<void> {
    await withDirectory(this.pathOf(place), (root) => removeLink(join(root, name)));
  }

  /** Moves contents out of a projection. */
  async discard(place: ProjectionPlace, versions: readonly string[]): Promise<void> {
    if (versions.length === 0) return;
    await withDirectory(this.pathOf(place), (root) =>
      withSubdirectory(root, CONTENT, async (contents) => {
        for (const version of versions) await this.#moveToTrash(place, join(contents, version));
      }),
    );
  }

  /** Moves a whole projection out; no container mounts it any more. */
  async remove(place: ProjectionPlace): Promise<void> {
    const path = this.pathOf(place);
    await this.#moveToTrash(place, path);
    await removeEmptyDirectory(dirname(path));
  }

  /** Moves a file or directory out; one that is not there is no error. */
  async #moveToTrash({ kind }: ProjectionPlace, path: string): Promise<void> {
    const folder = join(this.#volumes, kind, TRASH);
    await makeDirectories(folder, 0o700);
    await moveAway(path, join(folder, randomBytes(8).toString('hex')));
  }

  /** Removes what is on its way out, a part of it where that is much; returns whether nothing is left. */
  async emptyTrash(): Promise<boolean> {
    const folders = ARTIFACT_KINDS.map((kind) => join(this.#volumes, kind, TRASH));
    let limit = REMOVED_AT_ONCE;
    for (const folder of folders)
      for (const name of await namesIn(folder)) {
        if (limit <= 0) return false;
        limit -= await removeWritableTree(join(folder, name), limit);
      }
    return (await Promise.all(folders.map(namesIn))).flat().length === 0;
  }
}
