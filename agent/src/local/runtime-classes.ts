import { z } from 'zod';
import type { Clock } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import { type RuntimeClassView, runtimeClassViewSchema } from '../../../src/wire/agent.ts';
import { AgentError, saving } from '../domain/agent-error.ts';
import type { Part } from '../domain/part.ts';
import type { EngineFacts } from '../engine-port/facts.ts';
import type { Rows } from '../state/rows.ts';

/** A runtime class of the machine itself: a name by which its microservices ask for a runtime of the engine. */
export const localRuntimeClassSchema = runtimeClassViewSchema.extend({
  /** Unix s */
  createdAt: z.int(),
  updatedAt: z.int(),
});
export type LocalRuntimeClass = z.infer<typeof localRuntimeClassSchema>;

/** A runtime class of any source. */
export interface RuntimeClassItem extends RuntimeClassView {
  source: 'local' | 'managed';
  createdAt?: number;
  updatedAt?: number;
}

/** Names that mean a runtime of the engine everywhere. */
const RESERVED: readonly string[] = ['crun'];

export interface LocalRuntimeClassesDependencies {
  rows: Rows<LocalRuntimeClass>;
  clock: Clock;
  log: Log;
  /** undefined while the engine is not connected */
  facts(): Pick<EngineFacts, 'kind' | 'runtimes'> | undefined;
  /** those that the controller sent */
  managed(): readonly RuntimeClassView[];
  /** the microservices of this machine that name it */
  usersOf(name: string): { uuid: string; name: string }[];
  /** Applies the desired state again. */
  changed(): void;
}

/** The runtime classes of the machine itself. Under one name, the class of the controller counts. */
export class LocalRuntimeClasses implements Part {
  readonly #deps: LocalRuntimeClassesDependencies;

  constructor(deps: LocalRuntimeClassesDependencies) {
    this.#deps = deps;
  }

  /** Those of all sources that count, by name. */
  get all(): RuntimeClassItem[] {
    const managed = this.#deps.managed();
    const own = [...this.#deps.rows.all.values()].filter(({ name }) => !managed.some((each) => each.name === name));
    const items = [
      ...managed.map(({ name, handler }) => ({ name, handler, source: 'managed' as const })),
      ...own.map((row) => ({ ...row, source: 'local' as const })),
    ];
    return items.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  get ownProblems(): string[] {
    return [...this.#deps.rows.unreadable].map(
      ([name, why]) =>
        `local runtime class ${name}: of its file ${why}. Deploy it again, or remove it: skerry-agent runtimeclass rm ${name}`,
    );
  }

  /** The runtime of the engine that a microservice of this machine means by this name; undefined: the class of this name cannot be read. */
  runtimeOf(name: string): string | undefined {
    const found = this.all.find((each) => each.name === name);
    if (found) return found.handler;
    return this.#deps.rows.unreadable.has(name) ? undefined : name;
  }

  /** Throws NOT_FOUND. */
  get(name: string): RuntimeClassItem {
    const found = this.all.find((each) => each.name === name);
    if (found) return found;
    const unreadable = this.#deps.rows.unreadable.get(name);
    if (unreadable)
      throw new AgentError('UNAVAILABLE', `the runtime class ${name} cannot be read: of its file ${unreadable}`);
    throw new AgentError('NOT_FOUND', `this machine has no runtime class ${name}`);
  }

  /** Throws an AgentError that says why this machine takes no such class. */
  judge({ name, handler }: RuntimeClassView): void {
    this.#requireOwnName(name);
    const facts = this.#deps.facts();
    if (!facts)
      throw new AgentError('UNAVAILABLE', 'the engine is not connected, and its runtimes are not known; try again');
    if (!facts.runtimes.includes(handler))
      throw new AgentError(
        'INVALID_ARGUMENT',
        `handler: ${facts.kind} has no runtime ${handler}; it has ${facts.runtimes.join(', ') || 'none to choose'}`,
        { details: { runtimeNames: facts.runtimes } },
      );
  }

  /** Adds a class, or changes its runtime. It is durable when this returns. */
  apply(runtimeClass: RuntimeClassView): RuntimeClassItem {
    this.judge(runtimeClass);
    const { name, handler } = runtimeClass;
    const time = Math.floor(this.#deps.clock.wall() / 1000);
    const before = this.#deps.rows.all.get(name);
    const row: LocalRuntimeClass = { name, handler, createdAt: before?.createdAt ?? time, updatedAt: time };
    saving('no runtime class was changed', () => this.#deps.rows.save(name, row));
    this.#deps.log.info({ runtimeClass: name, handler }, 'Defined a runtime class on this machine');
    this.#deps.changed();
    return { ...row, source: 'local' };
  }

  /** Throws an AgentError that says why this class is not removed now. */
  judgeRemoval(name: string): void {
    this.#requireOwnName(name);
    const { rows, usersOf } = this.#deps;
    if (!rows.unreadable.has(name)) this.get(name);
    const users = usersOf(name);
    if (users.length > 0)
      throw new AgentError(
        'INVALID_ARGUMENT',
        `the runtime class ${name} is in use by ${users
          .slice(0, 8)
          .map((user) => user.name)
          .join(', ')}`,
        {
          details: { runtimeClassName: name, blockingMicroserviceUuids: users.map(({ uuid }) => uuid) },
        },
      );
  }

  remove(name: string): void {
    this.judgeRemoval(name);
    saving('no runtime class was removed', () => this.#deps.rows.remove(name));
    this.#deps.log.info({ runtimeClass: name }, 'Removed a runtime class of this machine');
    this.#deps.changed();
  }

  #requireOwnName(name: string): void {
    if (RESERVED.includes(name))
      throw new AgentError('INVALID_ARGUMENT', `${name} is reserved for the runtime of that name`);
    if (this.#deps.managed().some((each) => each.name === name))
      throw new AgentError('CONFLICT', `the runtime class ${name} is the controller's on this node`);
  }
}
