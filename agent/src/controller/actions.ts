import type { Digests } from '../../../src/wire/sections.ts';
import type { Database } from '../state/database.ts';
import type { Log } from '../system/log.ts';
import { type ActionSection, orDatabaseError } from './sync-loop.ts';

export interface ActionsDependencies {
  database: Pick<Database, 'value' | 'saveValue'>;
  log: Log;
  /** those that this version carries out */
  executors: Partial<Record<ActionSection, () => void>>;
}

/** The controller's orders: each is carried out once, however often it is told. */
export class Actions {
  readonly #deps: ActionsDependencies;
  #noted: Readonly<Record<string, { digest: string; count?: number }>>;

  constructor(deps: ActionsDependencies) {
    this.#deps = deps;
    this.#noted = JSON.parse(deps.database.value('orders') ?? '{}');
  }

  /**
   * Answers whether this was a new order. It is noted before it is carried out: one that ends the process is not carried
   * out for ever.
   */
  carryOut(section: ActionSection, digest: string, count: number | undefined): boolean {
    const { database, log, executors } = this.#deps;
    if (this.#noted[section]?.digest === digest) return false;
    const noted = { ...this.#noted, [section]: { digest, count } };
    orDatabaseError(() => database.saveValue('orders', JSON.stringify(noted)));
    this.#noted = noted;
    const execute = executors[section];
    if (execute) execute();
    else log.warn('This version of the agent does not carry out such orders', { order: section });
    return true;
  }

  get digests(): Digests {
    return Object.fromEntries(Object.entries(this.#noted).map(([section, { digest }]) => [section, digest]));
  }

  /** Only what was really done is echoed: the controller believes it. */
  get echo(): Record<string, number> | undefined {
    const counts = Object.entries(this.#noted).flatMap(([section, { count }]) =>
      Object.hasOwn(this.#deps.executors, section) && count !== undefined ? [[section, count] as const] : [],
    );
    return counts.length > 0 ? Object.fromEntries(counts) : undefined;
  }

  /** Another controller counts from elsewhere. */
  forget(): void {
    this.#noted = {};
    this.#deps.database.saveValue('orders', undefined);
  }
}
