import type { AgentConfig, MicroserviceView, RegistryView, RuntimeClassView } from '../../../src/wire/agent.ts';
import type { Digests } from '../../../src/wire/sections.ts';
import { ARTIFACT_KINDS, type DesiredArtifacts } from '../domain/artifact.ts';
import type { ResponseName, SavedResponse } from '../domain/desired.ts';
import {
  desiredArtifacts,
  desiredEntries,
  isReadable,
  registries,
  retainUnlistedOf,
  runtimeClasses,
  unnamed,
  type ViewRules,
  views,
  volumeMounts,
  wantedSettings,
} from '../domain/desired.ts';
import type { Entry } from '../domain/entry.ts';
import type { SentVolumeMount } from '../domain/volume-mounts.ts';
import type { Database } from '../state/database.ts';
import { errorText, type Log } from '../system/log.ts';
import { ControllerError } from './client.ts';
import { orDatabaseError } from './sync-loop.ts';

export interface SavedResponsesDependencies {
  database: Database;
  log: Log;
  metrics: { add(name: 'storeErrors'): void };
  /** Acts on changed responses; `registries` are those that differ. */
  changed(registries: ReadonlySet<number>): void;
}

/** The last responses of the controller, as text and parsed. Everything that this class returns is saved durably. */
export class SavedResponses {
  readonly #deps: SavedResponsesDependencies;
  #stored: ReadonlyMap<ResponseName, SavedResponse>;
  #notOlderThan: string | undefined;
  #volumeMounts: { from: SavedResponse | undefined; list: readonly SentVolumeMount[] | undefined };
  #read: {
    views: Map<string, MicroserviceView>;
    wanted: AgentConfig;
    registries: Map<number, RegistryView>;
    runtimeClasses: readonly RuntimeClassView[];
    artifacts: DesiredArtifacts;
    retains: boolean;
  };

  constructor(deps: SavedResponsesDependencies) {
    this.#deps = deps;
    this.#stored = deps.database.responses();
    this.#notOlderThan = deps.database.value('notOlderThan');
    this.#read = read(this.#stored);
    this.#volumeMounts = { from: undefined, list: undefined };
  }

  /** by microservice, as they were sent */
  get views(): ReadonlyMap<string, MicroserviceView> {
    return this.#read.views;
  }

  /** the settings that the controller wants */
  get wanted(): AgentConfig {
    return this.#read.wanted;
  }

  get registries(): ReadonlyMap<number, RegistryView> {
    return this.#read.registries;
  }

  get runtimeClasses(): readonly RuntimeClassView[] {
    return this.#read.runtimeClasses;
  }

  /** The volume mounts of the node; the same list until another one arrives, and undefined while none is known. */
  get volumeMounts(): readonly SentVolumeMount[] | undefined {
    const from = this.#stored.get('volumeMounts');
    // They may be large, so that they are not parsed with every change of something else.
    if (from !== this.#volumeMounts.from) this.#volumeMounts = { from, list: volumeMounts(this.#stored) };
    return this.#volumeMounts.list;
  }

  /** the models and knowledge that the node is to have */
  get artifacts(): DesiredArtifacts {
    return this.#read.artifacts;
  }

  /** whether the controller lacks what it had sent, so that nothing is removed for being absent */
  get retains(): boolean {
    return this.#read.retains;
  }

  get digests(): Digests {
    return Object.assign({}, ...[...this.#stored.values()].map(({ digests }) => digests));
  }

  /** The desired entries of the node; undefined when the response is not readable. */
  desired(rules: ViewRules): Entry[] | undefined {
    return desiredEntries(this.#stored, rules, this.#here());
  }

  /** Bound of the last response; saved with the responses that came with it. */
  readonly notOlderThan = {
    get: () => this.#notOlderThan,
    take: (bound: string): void => {
      this.#notOlderThan = bound;
    },
  };

  /** Sealed position of the datastore of the controller that sent the desired state. */
  readonly epochPosition = {
    get: () => this.#deps.database.value('epochPosition'),
    set: (position: string): void => {
      const { database, log } = this.#deps;
      if (position === database.value('epochPosition')) return;
      try {
        database.saveValue('epochPosition', position);
      } catch (error) {
        // With an older position the controller only retains more.
        log.debug('The epoch position could not be saved', { error: errorText(error) });
      }
    },
  };

  /** Replaces responses, all or none. Throws DatabaseError, or ControllerError for a response that is not readable. */
  save(changed: ReadonlyMap<ResponseName, SavedResponse>): void {
    const { log } = this.#deps;
    for (const [name, { body }] of changed)
      if (!isReadable(name, body))
        throw new ControllerError(
          'INTERNAL_ERROR',
          `the controller gave ${name} that cannot be read; the last ones stay`,
        );
    orDatabaseError(() => this.#write(changed));
    this.#stored = new Map([...this.#stored, ...changed]);
    const retainUnlisted = retainUnlistedOf(this.#stored);
    if (retainUnlisted) {
      const microservices = unnamed(this.#stored, this.#here()).length;
      // With nothing to retain, the position of this datastore can be accepted.
      if (retainUnlisted.position && microservices === 0) this.epochPosition.set(retainUnlisted.position);
      log.warn('The controller lacks what it had sent; what runs here is retained', { microservices });
    }
    this.#apply();
  }

  #write(changed: ReadonlyMap<ResponseName, SavedResponse>): void {
    const { database, metrics } = this.#deps;
    try {
      // The bound comes first: one ahead of the responses requests newer ones, one behind them would accept older ones.
      if (database.value('notOlderThan') !== this.#notOlderThan) database.saveValue('notOlderThan', this.#notOlderThan);
      database.saveResponses(changed);
    } catch (error) {
      metrics.add('storeErrors');
      throw error;
    }
  }

  /** Removes all responses and their bound, which is meaningless to another controller. */
  forget(): void {
    const { database } = this.#deps;
    database.forgetController();
    database.saveValue('notOlderThan', undefined);
    this.#notOlderThan = undefined;
  }

  /** Replaces the responses by empty lists, so that everything is removed: no list would mean that the desired state is unknown. */
  wantNothing(): void {
    const empty = (['microservices', 'volumeMounts', ...ARTIFACT_KINDS] as const).map(
      (name): [ResponseName, SavedResponse] => [name, { digests: {}, body: JSON.stringify({ [name]: [] }) }],
    );
    this.#replace(new Map(empty));
  }

  /** Keeps the microservices of the last controller as the machine's own, and drops its settings. */
  keepAsOwn(): void {
    const own = (['microservices', 'registries', 'volumeMounts', ...ARTIFACT_KINDS] as const).flatMap(
      (name): [ResponseName, SavedResponse][] => {
        const document = this.#stored.get(name);
        return document ? [[name, { digests: {}, body: document.body }]] : [];
      },
    );
    this.#replace(new Map(own));
  }

  /** Acts at once: the end of a membership is saved with the identity, and the next start replaces again what is not saved. */
  #replace(responses: ReadonlyMap<ResponseName, SavedResponse>): void {
    this.#stored = responses;
    this.#apply();
    this.forget();
    this.#deps.database.saveResponses(responses);
  }

  /** Parses the saved responses again. */
  reload(): void {
    this.#stored = this.#deps.database.responses();
    this.#apply();
  }

  #apply(): void {
    const before = this.#read.registries;
    this.#read = read(this.#stored);
    this.#deps.changed(changedKeys(before, this.#read.registries));
  }

  /** Microservices on this machine, of any source. */
  #here(): string[] {
    return [...this.#deps.database.records().values()].filter(({ gone }) => !gone).map(({ uuid }) => uuid);
  }
}

function read(stored: ReadonlyMap<ResponseName, SavedResponse>) {
  return {
    views: views(stored),
    wanted: wantedSettings(stored),
    registries: registries(stored),
    runtimeClasses: runtimeClasses(stored),
    artifacts: desiredArtifacts(stored),
    retains: retainUnlistedOf(stored) !== undefined,
  };
}

/** The keys whose values differ, or that only one of the maps has. */
function changedKeys<K, V>(before: ReadonlyMap<K, V>, after: ReadonlyMap<K, V>): Set<K> {
  const keys = new Set([...before.keys(), ...after.keys()]);
  return new Set([...keys].filter((key) => JSON.stringify(before.get(key)) !== JSON.stringify(after.get(key))));
}
