import { join } from 'node:path';
import { ARTIFACT_KINDS, type ArtifactKind } from '../../../src/api/artifact-kinds.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { ArtifactStatus, ArtifactView } from '../../../src/wire/artifacts.ts';
import type { Entry, HoldEntry, RunEntry } from './entry.ts';

export { ARTIFACT_KINDS, type ArtifactKind };

/** What one artifact of a kind is called in texts. */
export const ARTIFACT_NOUNS: Readonly<Record<ArtifactKind, string>> = { models: 'model', knowledge: 'knowledge' };

/** The artifacts that the node is to have, by kind; an absent list is not known. */
export type DesiredArtifacts = Readonly<Partial<Record<ArtifactKind, readonly ArtifactView[]>>>;

/** The artifacts of the machine itself, which no controller sent. */
export interface OwnArtifacts {
  readonly views: Readonly<Record<ArtifactKind, readonly ArtifactView[]>>;
  /** uuids of those whose rows cannot be read: their contents stay */
  readonly unreadable: ReadonlySet<string>;
}

/** A name becomes one segment of paths on this machine and in containers. */
const ARTIFACT_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

export function isArtifactName(name: string): boolean {
  return ARTIFACT_NAME.test(name);
}

/** A directory that a container mounts: the artifacts of one catalog of a microservice. */
export interface ProjectionPlace {
  kind: ArtifactKind;
  /** of the microservice */
  uuid: string;
  /** what is read-only shares its content with the store; a writable one has copies */
  mode: 'ro' | 'rw';
}

/** Where a projection lies on this machine. */
export function projectionPath({ kind, uuid, mode }: ProjectionPlace, volumesDirectory: string): string {
  return join(volumesDirectory, kind, uuid, mode);
}

/** A catalog of a microservice: what is to be projected, and for whom. */
export interface ArtifactCatalog extends ProjectionPlace {
  bindPath: string;
  items: readonly string[];
  /** the user that its container runs as, where the view says so in numbers */
  owner?: { uid: number; gid: number };
}

/** The catalogs of a view that have items. */
export function catalogsOf(view: MicroserviceView): ArtifactCatalog[] {
  return ARTIFACT_KINDS.flatMap((kind) => {
    const { items = [], bindPath, permissions: mode = 'ro' } = view[kind] ?? {};
    if (items.length === 0 || !bindPath) return [];
    const names = [...new Set(items.map(({ name }) => name))];
    return [{ kind, uuid: view.uuid, mode, bindPath, items: names, owner: ownerOf(view) }];
  });
}

function ownerOf({ runAsUser = '', runAsGroup }: MicroserviceView): ArtifactCatalog['owner'] {
  const [, uid, gid] = /^(\d+)(?::(\d+))?$/.exec(runAsUser) ?? [];
  return uid === undefined ? undefined : { uid: Number(uid), gid: Number(gid ?? (runAsGroup || uid)) };
}

/**
 * The catalogs of all microservices that are to run. What a controller left to the machine keeps the contents that it has: the lists
 * of a later controller mean other artifacts by the same names.
 */
export function allCatalogs(entries: readonly Entry[] = []): ArtifactCatalog[] {
  return entries.flatMap((entry) => (isFrozen(entry) ? [] : catalogsOf(entry.view)));
}

/** Whether the projections of a microservice stay as they are. */
export function isFrozen(entry: Entry): entry is HoldEntry | (RunEntry & { isKept: true }) {
  return entry.kind === 'hold' || entry.isKept === true;
}

/** Why a microservice may not be started now: artifacts that it binds are not projected. */
export interface ArtifactWait {
  /** one of them cannot be had as things are */
  failed: boolean;
  /** for people: which one, and how far it is */
  message: string;
}

/** What was removed from the store: contents that are complete, downloads that are not, and the bytes of both. */
export interface SweptContents {
  blobs: number;
  downloads: number;
  bytes: number;
}

export const NOTHING_SWEPT: SweptContents = { blobs: 0, downloads: 0, bytes: 0 };

/** What a prune removed: the names of artifacts, and what this freed. */
export interface PrunedArtifacts extends SweptContents {
  names: string[];
}

/** How far a pull is, in bytes. */
export interface ArtifactProgress {
  received: number;
  /** of the files whose sizes are known */
  total: number;
}

/** Somebody waits for the pull of an artifact. */
export interface ArtifactRequest {
  onProgress(progress: ArtifactProgress): void;
  /** a content that is here already is pulled again only where no other pull waits for its turn, and what failed at its next attempt: a microservice asked for it */
  isPatient: boolean;
}

/** An artifact of this machine, as the local API shows it. */
export interface ArtifactItem extends ArtifactStatus {
  repo: string;
  revision: string;
  registryId: number;
  files: readonly string[];
  format?: string;
  /** microservices whose catalogs name it */
  bindRefCount: number;
  /** when the content that is here was complete, Unix ms */
  pulledAt?: number;
  /** of the machine's own: the controller has linked another artifact of this name, which counts as long as it is linked */
  shadowed?: true;
}
