import type { Log } from '../../../src/lib/log.ts';
import type { Digests, SectionThat } from '../../../src/wire/sections.ts';
import type { Database } from '../state/database.ts';
import { orDatabaseError } from './sync-loop.ts';

type ActionSection = SectionThat<'act'>;

/** How this version of the agent carries out one action. */
interface ActionExecutor {
  /** Begins the action that the digest distinguishes. */
  start(digest: string): void;
  /**
   * Whether the action is done, so that its count is echoed; absent: as soon as it was begun. `isEarlier`: it was begun by
   * an earlier process.
   */
  isDone?(digest: string, isEarlier: boolean): boolean;
  /** Continues the action that an earlier process began, and works until the signal fires. */
  resume?(digest: string | undefined, signal: AbortSignal): void;
  /** Ends what is under way, and forgets what was: the digests of another controller are its own. */
  forget?(): void;
}

export interface ActionsDependencies {
  database: Pick<Database, 'value' | 'saveValue'>;
  log: Log;
  /** the actions that this version supports */
  executors: Partial<Record<ActionSection, ActionExecutor>>;
}

type Noted = Readonly<Record<string, { digest: string; count?: number }>>;

/** Actions that the controller requests: each is carried out once, however often it is sent. */
export class Actions {
  readonly #deps: ActionsDependencies;
  readonly #earlier: Noted;
  #noted: Noted;

  constructor(deps: ActionsDependencies) {
    this.#deps = deps;
    this.#noted = JSON.parse(deps.database.value('actions') ?? '{}');
    this.#earlier = this.#noted;
  }

  /**
   * Returns whether this was a new action. It is saved before it is carried out, so that an action that ends the process
   * is not repeated. An empty digest says that the controller knows the action as done, and is no action.
   */
  carryOut(section: ActionSection, digest: string, count: number | undefined): boolean {
    const { database, log, executors } = this.#deps;
    const before = this.#noted[section];
    if ((before?.digest ?? '') === digest) return false;
    const noted = { ...this.#noted, [section]: { digest, count: count ?? before?.count } };
    orDatabaseError(() => database.saveValue('actions', JSON.stringify(noted)));
    this.#noted = noted;
    if (digest === '') return false;
    const executor = executors[section];
    if (executor) executor.start(digest);
    else log.warn({ action: section }, 'This version of the agent does not carry out such actions');
    return true;
  }

  /** Continues what an earlier process began. */
  resume(signal: AbortSignal): void {
    for (const [section, executor] of Object.entries(this.#deps.executors))
      executor.resume?.(this.#noted[section]?.digest || undefined, signal);
  }

  get digests(): Digests {
    return Object.fromEntries(Object.entries(this.#noted).map(([section, { digest }]) => [section, digest]));
  }

  /** Counts of the actions that were carried out. The controller relies on them, so no others are echoed. */
  get echo(): Record<string, number> | undefined {
    const { executors } = this.#deps;
    const counts = Object.entries(this.#noted).flatMap(([section, { digest, count }]) => {
      const executor = executors[section as ActionSection];
      const isEarlier = this.#earlier[section]?.digest === digest;
      const isDone = digest === '' || (executor?.isDone?.(digest, isEarlier) ?? true);
      return executor && isDone && count !== undefined ? [[section, count] as const] : [];
    });
    return counts.length > 0 ? Object.fromEntries(counts) : undefined;
  }

  /** Forgets all counts, since another controller has its own. */
  forget(): void {
    this.#noted = {};
    this.#deps.database.saveValue('actions', undefined);
    for (const executor of Object.values(this.#deps.executors)) executor.forget?.();
  }
}
