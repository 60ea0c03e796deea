import { z } from 'zod';
import type { Clock } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import { type ArtifactView, artifactFingerprint, artifactViewSchema } from '../../../src/wire/artifacts.ts';
import { AgentError, saving } from '../domain/agent-error.ts';
import {
  ARTIFACT_KINDS,
  ARTIFACT_NOUNS,
  type ArtifactItem,
  type ArtifactKind,
  type ArtifactRequest,
  type OwnArtifacts,
} from '../domain/artifact.ts';
import { newLocalUuid } from '../domain/local-uuid.ts';
import type { Part } from '../domain/part.ts';
import { localRegistryNumber } from '../domain/registry-number.ts';
import type { Rows } from '../state/rows.ts';
import type { LocalRegistries } from './registries.ts';

/** A model or an item of knowledge of the machine itself. Its row is the only copy of what is wanted. */
export const localArtifactSchema = z.object({
  /** its registry has the number of views */
  view: artifactViewSchema,
  labels: z.record(z.string(), z.string()).optional(),
  /** raised with each other content that is asked for */
  generation: z.int(),
  /** RFC 3339 */
  createdAt: z.string(),
  updatedAt: z.string(),
});
export type LocalArtifact = z.infer<typeof localArtifactSchema>;

/** An artifact as a manifest or a request describes it; `registry` is the id that people know. */
export interface ArtifactManifest extends Omit<ArtifactView, 'uuid' | 'registryId'> {
  registry: number;
  labels?: Record<string, string> | undefined;
}

export interface LocalArtifactsDependencies {
  rows: Readonly<Record<ArtifactKind, Rows<LocalArtifact>>>;
  clock: Clock;
  log: Log;
  registries: Pick<LocalRegistries, 'get' | 'isAllowed'>;
  contents: {
    items(kind: ArtifactKind): ArtifactItem[];
    pull(kind: ArtifactKind, uuid: string, request: ArtifactRequest): Promise<void>;
    removeContent(kind: ArtifactKind, uuid: string): void;
  };
  /** microservices of this machine whose catalogs name it, running or not, for people */
  boundBy(kind: ArtifactKind, name: string): string[];
  /** whether the machine's own setting has the watchdog on */
  isWatchdogOn(): boolean;
  /** Applies the desired state again. */
  changed(): void;
}

/** The models and knowledge of the machine itself. */
export class LocalArtifacts implements Part {
  readonly #deps: LocalArtifactsDependencies;
  #own: OwnArtifacts | undefined;

  constructor(deps: LocalArtifactsDependencies) {
    this.#deps = deps;
  }

  /** As the part that keeps contents sees them. */
  get own(): OwnArtifacts {
    const { rows } = this.#deps;
    this.#own ??= {
      views: { models: viewsOf(rows.models), knowledge: viewsOf(rows.knowledge) },
      unreadable: new Set(ARTIFACT_KINDS.flatMap((kind) => [...rows[kind].unreadable.keys()])),
    };
    return this.#own;
  }

  get ownProblems(): string[] {
    return ARTIFACT_KINDS.flatMap((kind) =>
      [...this.#deps.rows[kind].unreadable].map(
        ([uuid, why]) =>
          `local ${ARTIFACT_NOUNS[kind]} ${uuid}: of its file ${why}. Its content stays: deploy it again, or remove it: skerry-agent ${ARTIFACT_NOUNS[kind]} rm ${uuid}`,
      ),
    );
  }

  /** What names a registry of this number in views, for people. */
  usersOf(number: number): string[] {
    return ARTIFACT_KINDS.flatMap((kind) =>
      this.own.views[kind]
        .filter(({ registryId }) => registryId === number)
        .map(({ name }) => `${ARTIFACT_NOUNS[kind]} ${name}`),
    );
  }

  /** Throws an AgentError that says why this machine takes no such artifact now. */
  judge(kind: ArtifactKind, { name, registry }: Pick<ArtifactManifest, 'name' | 'registry'>): void {
    this.#requireNoWatchdog(kind);
    const noun = ARTIFACT_NOUNS[kind];
    if (this.#item(kind, name)?.source === 'managed')
      throw new AgentError('CONFLICT', `the ${noun} ${name} is the controller's on this node; choose another name`);
    try {
      this.#deps.registries.get(registry);
    } catch (error) {
      throw new AgentError('INVALID_ARGUMENT', `registry: ${(error as Error).message}`);
    }
    if (localRegistryNumber(registry) > 0)
      throw new AgentError(
        'INVALID_ARGUMENT',
        `registry: ${registry} is the local cache of images; nothing is pulled from it`,
      );
    if (!this.#deps.registries.isAllowed(registry))
      throw new AgentError(
        'INVALID_ARGUMENT',
        `registry: the policy of this machine takes nothing from the host of the registry ${registry}: its "registries" can name it`,
      );
  }

  /** Adds an artifact, or changes what its name means. It is durable when this returns; what is missing is then pulled. */
  apply(kind: ArtifactKind, manifest: ArtifactManifest): LocalArtifact {
    this.judge(kind, manifest);
    const { name, repo, revision, files, format, labels } = manifest;
    const before = this.#row(kind, name);
    const uuid = before?.view.uuid ?? newLocalUuid();
    const registryId = localRegistryNumber(manifest.registry);
    const view: ArtifactView = { uuid, name, repo, revision, registryId, files, ...(format && { format }) };
    const isOther = !before || artifactFingerprint(before.view) !== artifactFingerprint(view);
    if (before && isOther) this.#requireNotPulling(kind, name, 'changed');
    const time = new Date(this.#deps.clock.wall()).toISOString();
    const row: LocalArtifact = {
      view,
      ...(labels && { labels }),
      generation: (before?.generation ?? 0) + (isOther ? 1 : 0),
      ...{ createdAt: before?.createdAt ?? time, updatedAt: time },
    };
    saving(`the ${ARTIFACT_NOUNS[kind]} ${name} is as it was`, () => this.#deps.rows[kind].save(uuid, row));
    this.#deps.log.info({ kind, artifact: name, generation: row.generation }, 'Defined an artifact on this machine');
    this.#changed();
    return row;
  }

  /** The artifact that is pulled again by this name. Throws where there is none, or where it may not be pulled. */
  pullable(kind: ArtifactKind, name: string): LocalArtifact {
    const row = this.#row(kind, name);
    const noun = ARTIFACT_NOUNS[kind];
    const isManaged = this.#item(kind, name)?.source === 'managed';
    if (isManaged)
      throw new AgentError('CONFLICT', `the ${noun} ${name} is the controller's, which has it pulled on this node`);
    if (!row)
      throw new AgentError('NOT_FOUND', `this machine has no ${noun} ${name}; with repo and registryId it is added`);
    this.#requireNoWatchdog(kind);
    return row;
  }

  /** Pulls an artifact at once, also when it is here. Rejects when that fails; later attempts go on by themselves. */
  pull(kind: ArtifactKind, { view }: LocalArtifact, request: ArtifactRequest): Promise<void> {
    return this.#deps.contents.pull(kind, view.uuid, request);
  }

  /** Removes an artifact; its content goes with it. By its name, or by the uuid of one whose row cannot be read. */
  remove(kind: ArtifactKind, name: string): void {
    const rows = this.#deps.rows[kind];
    const row = this.#row(kind, name);
    const noun = ARTIFACT_NOUNS[kind];
    const uuid = row?.view.uuid ?? (rows.unreadable.has(name) ? name : undefined);
    if (uuid === undefined) {
      if (this.#item(kind, name))
        throw new AgentError('CONFLICT', `the ${noun} ${name} is the controller's; unlink it from this node there`);
      throw new AgentError('NOT_FOUND', `this machine has no ${noun} ${name}`);
    }
    if (row) {
      this.#requireNotPulling(kind, name, 'removed');
      const users = this.#deps.boundBy(kind, name);
      if (users.length > 0)
        throw new AgentError(
          'CONFLICT',
          `the ${noun} ${name} is bound by ${users.slice(0, 8).join(', ')}; change these first`,
        );
    }
    saving(`the ${noun} ${name} stays`, () => rows.remove(uuid));
    this.#deps.log.info({ kind, artifact: name }, 'Removed an artifact of this machine');
    this.#changed();
    this.#deps.contents.removeContent(kind, uuid);
  }

  #row(kind: ArtifactKind, name: string): LocalArtifact | undefined {
    return [...this.#deps.rows[kind].all.values()].find(({ view }) => view.name === name);
  }

  /** What a name means here now: of a controller's and the machine's own, the first counts. */
  #item(kind: ArtifactKind, name: string): ArtifactItem | undefined {
    return this.#deps.contents.items(kind).find((item) => item.name === name);
  }

  #requireNoWatchdog(kind: ArtifactKind): void {
    if (!this.#deps.isWatchdogOn()) return;
    throw new AgentError(
      'CONFLICT',
      `the setting watchdogEnabled of this machine is on: it takes no ${kind} of its own; switch it off first`,
    );
  }

  #requireNotPulling(kind: ArtifactKind, name: string, what: string): void {
    const own = this.#deps.contents.items(kind).find((item) => item.name === name && item.source === 'local');
    if (own?.state === 'Pulling')
      throw new AgentError('CONFLICT', `the ${ARTIFACT_NOUNS[kind]} ${name} is being pulled; it is ${what} after that`);
  }

  #changed(): void {
    this.#own = undefined;
    this.#deps.changed();
  }
}

const viewsOf = ({ all }: Rows<LocalArtifact>): ArtifactView[] => [...all.values()].map(({ view }) => view);
