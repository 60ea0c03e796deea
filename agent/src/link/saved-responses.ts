import type { Log } from '../../../src/lib/log.ts';
import type { RetainUnlisted } from '../../../src/wire/agent.ts';
import type { Digests, SavedName } from '../../../src/wire/sections.ts';
import { NOTHING_SENT, readResponses, responsesAtEnd, type SavedResponse, type Sent } from '../domain/desired.ts';
import type { Entry } from '../domain/entry.ts';
import { desiredEntries, type SentMicroservices, unnamed, type ViewRules } from '../domain/sent-microservices.ts';
import { isMachinesOwn } from '../domain/wanted.ts';
import { errorText } from '../machine/log.ts';
import type { Database } from '../state/database.ts';
import { ControllerError } from './client.ts';
import { orDatabaseError } from './sync-loop.ts';

export interface SavedResponsesDependencies {
  database: Database;
  log: Log;
  metrics: { add(name: 'storeErrors'): void };
}

/** The last responses of the controller, as text and as values. Everything that this class returns is saved durably. */
export class SavedResponses {
  readonly #deps: SavedResponsesDependencies;
  #stored: ReadonlyMap<SavedName, SavedResponse>;
  #notOlderThan: string | undefined;
  /** what the stored ones say; each is read once, and its value is the same object until another response arrives */
  #sent: Sent;
  #changed: (registries: ReadonlySet<number>) => void = () => {};

  constructor(deps: SavedResponsesDependencies) {
    this.#deps = deps;
    this.#stored = deps.database.responses();
    this.#notOlderThan = deps.database.value('notOlderThan');
    this.#sent = { ...NOTHING_SENT, ...readResponses(this.#stored).sent };
  }

  /** Has a function act on changed responses; `registries` are those that differ. */
  onChange(act: (registries: ReadonlySet<number>) => void): void {
    this.#changed = act;
  }

  get sent(): Sent {
    return this.#sent;
  }

  get digests(): Digests {
    return Object.assign({}, ...[...this.#stored.values()].map(({ digests }) => digests));
  }

  /** The desired entries of the node; undefined when the response is not readable. */
  desired(rules: ViewRules): Entry[] | undefined {
    return desiredEntries(this.#sent.microservices, rules, this.#here());
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
        log.debug({ error: errorText(error) }, 'The epoch position could not be saved');
      }
    },
  };

  /** Replaces responses, all or none. Throws DatabaseError, or ControllerError for a response that is not readable. */
  save(changed: ReadonlyMap<SavedName, SavedResponse>): void {
    const { sent, unreadable } = readResponses(changed);
    if (unreadable.length > 0)
      throw new ControllerError(
        'INTERNAL_ERROR',
        `the controller gave ${unreadable[0]} that cannot be read; the last ones stay`,
      );
    orDatabaseError(() => this.#write(changed));
    const next = { ...this.#sent, ...sent };
    const { microservices } = next;
    if (microservices?.retainUnlisted) this.#noteRetained(microservices, microservices.retainUnlisted);
    this.#become(new Map([...this.#stored, ...changed]), next);
  }

  #noteRetained(sent: SentMicroservices, { position }: RetainUnlisted): void {
    const microservices = unnamed(sent, this.#here()).length;
    // With nothing to retain, the position of this datastore can be accepted.
    if (position && microservices === 0) this.epochPosition.set(position);
    this.#deps.log.warn({ microservices }, 'The controller lacks what it had sent; what runs here is retained');
  }

  #write(changed: ReadonlyMap<SavedName, SavedResponse>): void {
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

  /** Whether the microservices were left by a membership that ended with the scope `local` under an earlier version. */
  get areLeftOver(): boolean {
    const { microservices } = this.#sent;
    return (microservices?.items.length ?? 0) > 0 && this.digests.microserviceList === undefined;
  }

  /** Replaces the responses by those that are left when the membership ends. */
  endMembership(scope: 'all' | 'local'): void {
    const left = responsesAtEnd(scope === 'all' || this.#sent.microservices !== undefined);
    // At once: the end is saved with the identity, and the next start replaces again what is not saved.
    this.#load(left);
    this.forget();
    this.#deps.database.saveResponses(left);
  }

  /** Reads the saved responses again. */
  reload(): void {
    this.#load(this.#deps.database.responses());
  }

  #load(stored: ReadonlyMap<SavedName, SavedResponse>): void {
    this.#become(stored, { ...NOTHING_SENT, ...readResponses(stored).sent });
  }

  #become(stored: ReadonlyMap<SavedName, SavedResponse>, sent: Sent): void {
    const before = this.#sent.registries;
    this.#stored = stored;
    this.#sent = sent;
    this.#changed(changedKeys(before, sent.registries));
  }

  /** Microservices on this machine that a controller placed. */
  #here(): string[] {
    const records = [...this.#deps.database.records().values()];
    return records.filter((record) => !record.gone && !isMachinesOwn(record)).map(({ uuid }) => uuid);
  }
}

/** The keys whose values differ, or that only one of the maps has. */
function changedKeys<K, V>(before: ReadonlyMap<K, V>, after: ReadonlyMap<K, V>): Set<K> {
  const keys = new Set([...before.keys(), ...after.keys()]);
  return new Set([...keys].filter((key) => JSON.stringify(before.get(key)) !== JSON.stringify(after.get(key))));
}
