import { randomBytes } from 'node:crypto';
import { dirname, join } from 'node:path';
import { ARTIFACT_KINDS, isArtifactName, type ProjectionPlace, projectionPath } from '../domain/artifact.ts';
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
 * moved in and out as a whole, by paths that links of the container cannot redirect (`withDirectory`), and what came out
 * of it is removed while no process of the container runs.
 */
export interface ProjectionState extends ProjectionPlace {
  /** version by name of the artifact */
  links: ReadonlyMap<string, string>;
  /** all that are there, linked or not */
  versions: readonly string[];
}

/** Something on its way out. */
export interface Trash {
  path: string;
  /** the microservice that it belonged to */
  uuid: string;
  mode: ProjectionPlace['mode'];
}

const CONTENT = '.content';
const STAGING = '.staging';
const TRASH = '.trash';

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
        for (const version of versions) await moveAway(join(contents, version), await this.#trashFor(place));
      }),
    );
  }

  /** Moves a whole projection out; no container mounts it any more. */
  async remove(place: ProjectionPlace): Promise<void> {
    const path = this.pathOf(place);
    await moveAway(path, await this.#trashFor(place));
    await removeEmptyDirectory(dirname(path));
  }

  async #trashFor({ kind, uuid, mode }: ProjectionPlace): Promise<string> {
    const folder = join(this.#volumes, kind, TRASH);
    await makeDirectories(folder, 0o700);
    return join(folder, `${uuid}.${mode}.${randomBytes(8).toString('hex')}`);
  }

  async trash(): Promise<Trash[]> {
    const found: Trash[] = [];
    for (const kind of ARTIFACT_KINDS)
      for (const name of await namesIn(join(this.#volumes, kind, TRASH))) {
        const [, uuid = '', mode = ''] = /^(.+)\.(ro|rw)\.[0-9a-f]+$/.exec(name) ?? [];
        found.push({ path: join(this.#volumes, kind, TRASH, name), uuid, mode: mode === 'ro' ? 'ro' : 'rw' });
      }
    return found;
  }

  async empty({ path }: Trash): Promise<void> {
    await removeTree(path);
  }
}
