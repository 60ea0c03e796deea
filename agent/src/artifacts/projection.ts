import { randomBytes } from 'node:crypto';
import { dirname, join } from 'node:path';
import {
  ARTIFACT_KINDS,
  type ArtifactKind,
  isArtifactName,
  type ProjectionPlace,
  projectionPath,
} from '../domain/artifact.ts';
import {
  cloneFile,
  type FileOwner,
  giveTo,
  linkFile,
  linkText,
  makeDirectories,
  moveAway,
  namesIn,
  removeEmptyDirectory,
  removeLink,
  removeTree,
  removeWritableTree,
  switchLink,
  withDirectory,
  withSubdirectory,
} from '../system/tree.ts';
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

/** Names the content of an artifact in a projection. */
export function versionOf(name: string, { digest }: Pick<ArtifactRecord, 'digest'>): string {
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

  /** Removes what an earlier process was assembling, and reads what is there. */
  async open(): Promise<ProjectionState[]> {
    const found: ProjectionState[] = [];
    for (const kind of ARTIFACT_KINDS) {
      await removeTree(join(this.#volumes, kind, STAGING));
      for (const uuid of await namesIn(join(this.#volumes, kind))) {
        if (uuid.startsWith('.')) continue;
        for (const mode of await namesIn(join(this.#volumes, kind, uuid)))
          if (mode === 'ro' || mode === 'rw') found.push(await this.read({ kind, uuid, mode }));
      }
    }
    return found;
  }

  async read({ kind, uuid, mode }: ProjectionPlace): Promise<ProjectionState> {
    const path = this.pathOf({ kind, uuid, mode });
    const links = new Map<string, string>();
    const versions = (await namesIn(join(path, CONTENT))).filter(isVersion);
    for (const name of await namesIn(path)) {
      const text = await linkText(join(path, name));
      const version = text?.startsWith(`${CONTENT}/`) ? text.slice(CONTENT.length + 1) : '';
      if (nameOfVersion(version) === name && versions.includes(version)) links.set(name, version);
    }
    return { kind, uuid, mode, links, versions };
  }

  /** Puts a content at its name, in one step for whoever reads it; contents to `discard` are moved out. */
  async put(
    place: ProjectionPlace,
    name: string,
    record: ArtifactRecord,
    options: { blob: (sha256: string) => string; owner?: FileOwner; discard: readonly string[] },
  ): Promise<void> {
    const version = versionOf(name, record);
    const path = this.pathOf(place);
    await makeDirectories(path);
    await this.discard(place, options.discard);
    const { versions } = await this.read(place);
    const staged = versions.includes(version) ? undefined : await this.#assemble(place, record, options);
    await withDirectory(path, async (root) => {
      if (staged) await withSubdirectory(root, CONTENT, (contents) => moveAway(staged, join(contents, version)));
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
        for (const version of versions) await moveAway(join(contents, version), await this.#newTrash(place.kind));
      }),
    );
  }

  /** Moves a whole projection out; no container mounts it any more. */
  async remove(place: ProjectionPlace): Promise<void> {
    const path = this.pathOf(place);
    await moveAway(path, await this.#newTrash(place.kind));
    await removeEmptyDirectory(dirname(path));
  }

  async #newTrash(kind: ArtifactKind): Promise<string> {
    const folder = join(this.#volumes, kind, TRASH);
    await makeDirectories(folder, 0o700);
    return join(folder, randomBytes(8).toString('hex'));
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
