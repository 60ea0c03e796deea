import type { AgentConfig, MicroserviceView, RegistryView } from '../../../src/wire/agent.ts';
import type { Digests } from '../../../src/wire/sections.ts';
import type { ResponseName, SavedResponse } from '../domain/desired.ts';
import {
  desiredEntries,
  isReadable,
  registries,
  retainUnlistedOf,
  unnamed,
  views,
  wantedSettings,
} from '../domain/desired.ts';
import type { Entry } from '../domain/entry.ts';
import type { Database } from '../state/database.ts';
import { errorText, type Log } from '../system/log.ts';
import { ControllerError } from './client.ts';
import { orDatabaseError } from './sync-loop.ts';

export interface SavedResponsesDependencies {
  database: Database;
  log: Log;
  metrics: { add(name: 'storeErrors'): void };
  /** Acts on responses that are others now; the registries that differ are named. */
  changed(registries: ReadonlySet<number>): void;
}

/** The last responses of the controller, as they are saved and as they read. What this class answers is saved durably. */
export class SavedResponses {
  readonly #deps: SavedResponsesDependencies;
  #stored: ReadonlyMap<ResponseName, SavedResponse>;
  #notOlderThan: string | undefined;
  #read: { views: Map<string, MicroserviceView>; wanted: AgentConfig; registries: Map<number, RegistryView> };

  constructor(deps: SavedResponsesDependencies) {
    this.#deps = deps;
    this.#stored = deps.database.responses();
    this.#notOlderThan = deps.database.value('notOlderThan');
    this.#read = read(this.#stored);
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

  get digests(): Digests {
    return Object.assign({}, ...[...this.#stored.values()].map(({ digests }) => digests));
  }

  /** What the node is to run; undefined where that is not readable. */
  desired(refusal: (view: MicroserviceView) => string | undefined): Entry[] | undefined {
    return desiredEntries(this.#stored, refusal, this.#here());
  }

  /** Bound of the last response; saved with the responses that came with it. */
  readonly notOlderThan = {
    get: () => this.#notOlderThan,
    take: (bound: string): void => {
      this.#notOlderThan = bound;
    },
  };

  /** Sealed position of the datastore behind the controller that sent what runs here. */
  readonly epochPosition = {
    get: () => this.#deps.database.value('epochPosition'),
    set: (position: string): void => {
      const { database, log } = this.#deps;
      if (position === database.value('epochPosition')) return;
      try {
        database.saveValue('epochPosition', position);
      } catch (error) {
        // An older position only makes the controller more careful.
        log.debug('The epoch position could not be saved', { error: errorText(error) });
      }
    },
  };

  /** Replaces some, all or none. Throws StoreError, or ControllerError for what cannot be read. */
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
      // With nothing to retain, this datastore is as good as the one before.
      if (retainUnlisted.position && microservices === 0) this.epochPosition.set(retainUnlisted.position);
      log.warn('The controller lacks what it had sent; what runs here is retained', { microservices });
    }
    this.#apply();
  }

  #write(changed: ReadonlyMap<ResponseName, SavedResponse>): void {
    const { database, metrics } = this.#deps;
    try {
      // First the bound: one that is ahead of the responses asks for newer ones, one that is behind would accept older ones.
      if (database.value('notOlderThan') !== this.#notOlderThan) database.saveValue('notOlderThan', this.#notOlderThan);
      database.saveResponses(changed);
    } catch (error) {
      metrics.add('storeErrors');
      throw error;
    }
  }

  /** Nothing of what a controller said counts any more, nor how far it had come: another one counts from elsewhere. */
  forget(): void {
    const { database } = this.#deps;
    database.forgetController();
    database.saveValue('notOlderThan', undefined);
    this.#notOlderThan = undefined;
  }

  /** No controller wants anything: said as clearly as a controller would say it, since silence means nothing. */
  wantNothing(): void {
    this.forget();
    const nothing: [ResponseName, SavedResponse] = ['microservices', { digests: {}, body: '{"microservices":[]}' }];
    this.#deps.database.saveResponses(new Map([nothing]));
  }

  /** What the last controller wanted becomes the machine's own: it runs on as it is. The settings were for its fleet. */
  keepAsOwn(): void {
    const own = (['microservices', 'registries'] as const).flatMap((name): [ResponseName, SavedResponse][] => {
      const document = this.#stored.get(name);
      return document ? [[name, { digests: {}, body: document.body }]] : [];
    });
    this.forget();
    this.#deps.database.saveResponses(new Map(own));
  }

  /** Takes in what is stored now. */
  reload(): void {
    this.#stored = this.#deps.database.responses();
    this.#apply();
  }

  #apply(): void {
    const before = this.#read.registries;
    this.#read = read(this.#stored);
    this.#deps.changed(changedKeys(before, this.#read.registries));
  }

  /** Microservices that are here, whoever wanted them. */
  #here(): string[] {
    return [...this.#deps.database.records().values()].filter(({ gone }) => !gone).map(({ uuid }) => uuid);
  }
}

function read(stored: ReadonlyMap<ResponseName, SavedResponse>) {
  return { views: views(stored), wanted: wantedSettings(stored), registries: registries(stored) };
}

/** The keys whose values differ, or that only one of the maps has. */
function changedKeys<K, V>(before: ReadonlyMap<K, V>, after: ReadonlyMap<K, V>): Set<K> {
  const keys = new Set([...before.keys(), ...after.keys()]);
  return new Set([...keys].filter((key) => JSON.stringify(before.get(key)) !== JSON.stringify(after.get(key))));
}
