import type { Digests } from '../../../src/wire/sections.ts';
import type { Database } from '../state/database.ts';
import type { Log } from '../system/log.ts';
import { type ActionSection, orDatabaseError } from './sync-loop.ts';

export interface ActionsDependencies {
  database: Pick<Database, 'value' | 'saveValue'>;
  log: Log;
  /** the actions that this version supports */
  executors: Partial<Record<ActionSection, () => void>>;
}

/** Actions that the controller requests: each is carried out once, however often it is sent. */
export class Actions {
  readonly #deps: ActionsDependencies;
  #noted: Readonly<Record<string, { digest: string; count?: number }>>;

  constructor(deps: ActionsDependencies) {
    this.#deps = deps;
    this.#noted = JSON.parse(deps.database.value('actions') ?? '{}');
  }

  /**
   * Returns whether this was a new action. It is saved before it is carried out, so that an action that ends the process
   * is not repeated.
   */
  carryOut(section: ActionSection, digest: string, count: number | undefined): boolean {
    const { database, log, executors } = this.#deps;
    if (this.#noted[section]?.digest === digest) return false;
    const noted = { ...this.#noted, [section]: { digest, count } };
    orDatabaseError(() => database.saveValue('actions', JSON.stringify(noted)));
    this.#noted = noted;
    const execute = executors[section];
    if (execute) execute();
    else log.warn('This version of the agent does not carry out such actions', { action: section });
    return true;
  }

  get digests(): Digests {
    return Object.fromEntries(Object.entries(this.#noted).map(([section, { digest }]) => [section, digest]));
  }

  /** Counts of the actions that were carried out. The controller relies on them, so no others are echoed. */
  get echo(): Record<string, number> | undefined {
    const counts = Object.entries(this.#noted).flatMap(([section, { count }]) =>
      Object.hasOwn(this.#deps.executors, section) && count !== undefined ? [[section, count] as const] : [],
    );
    return counts.length > 0 ? Object.fromEntries(counts) : undefined;
  }

  /** Forgets all counts, since another controller has its own. */
  forget(): void {
    this.#noted = {};
    this.#deps.database.saveValue('actions', undefined);
  }
}
