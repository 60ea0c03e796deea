import type { Log } from '../../../src/lib/log.ts';
import type { MicroserviceRecord, Records } from '../domain/record.ts';
import { errorText } from '../machine/log.ts';
import { type Database, recordText } from '../state/database.ts';

export interface RecordKeeperDependencies {
  database: Database;
  log: Log;
  metrics: { add(name: 'storeErrors'): void };
}

/**
 * The records of all microservices, in memory and in the database. When the database cannot be written, supervision goes
 * on from memory.
 */
export class RecordKeeper {
  readonly #deps: RecordKeeperDependencies;
  #records: Records;
  #saved: Records;
  #error = '';

  constructor(deps: RecordKeeperDependencies) {
    this.#deps = deps;
    this.#records = deps.database.records();
    this.#saved = new Map(this.#records);
  }

  get all(): Records {
    return this.#records;
  }

  get(uuid: string): MicroserviceRecord | undefined {
    return this.#records.get(uuid);
  }

  /** Why records cannot be saved, for people. */
  get problem(): string {
    return this.#deps.database.problem() ?? this.#error;
  }

  /** Whether the stop of a microservice by a person on the machine is saved as it is, or that there is none. */
  isStopSaved(uuid: string): boolean {
    const [now, saved] = [this.#records, this.#saved].map((records) => records.get(uuid)?.stoppedLocally);
    return JSON.stringify(now) === JSON.stringify(saved);
  }

  replace(records: Records): void {
    this.#records = records;
  }

  /** Changes the record of a microservice that has one. */
  update(uuid: string, change: (record: MicroserviceRecord) => MicroserviceRecord): void {
    const record = this.#records.get(uuid);
    if (record) this.#records = new Map(this.#records).set(uuid, change(record));
  }

  remove(uuids: ReadonlySet<string>): void {
    this.#records = new Map([...this.#records].filter(([uuid]) => !uuids.has(uuid)));
  }

  /** Saves what differs from what was saved last. */
  save(): void {
    const changed = [...this.#records.values()].filter((record) => {
      const saved = this.#saved.get(record.uuid);
      return saved !== record && (saved === undefined || recordText(saved) !== recordText(record));
    });
    const removed = [...this.#saved.keys()].filter((uuid) => !this.#records.has(uuid));
    if (changed.length + removed.length === 0) return;
    this.attempt(() => {
      this.#deps.database.saveRecords(changed, removed);
      this.#saved = new Map(this.#records);
    });
  }

  /** Writes to the database; supervision continues when that fails. */
  attempt(save: () => void): void {
    const { log, metrics } = this.#deps;
    try {
      save();
      this.#error = '';
    } catch (error) {
      metrics.add('storeErrors');
      const text = errorText(error);
      if (text !== this.#error) log.error({ error: text }, 'Cannot save the records of microservices');
      this.#error = text;
    }
  }
}
