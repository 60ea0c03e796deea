import { randomUUID } from 'node:crypto';
import type { Clock } from '../../../../src/lib/clock.ts';
import { errorText } from '../../machine/log.ts';
import { type ApiErrorCode, LocalApiError, toApiError } from './errors.ts';

/** The latest finished operations are known for so long, ms. */
const KEPT = 24 * 3600 * 1000;
/** Operations that are known at once; of more, those that ended first are forgotten. */
const MOST_KNOWN = 1000;
/** Operations under way at once; more are refused. */
const MOST_RUNNING = 64;
/** Of these, of one microservice, and of all: the admin always has a place, and no microservice takes all places. */
const MOST_OF_MICROSERVICE = 2;
const MOST_OF_MICROSERVICES = 32;

/** The admin of the machine, in place of the uuid of a microservice. */
const ADMIN = '';

interface OperationError {
  code: ApiErrorCode;
  message: string;
  details?: Record<string, unknown> | undefined;
}

/** What every operation says of itself, besides the members of its kind; times are RFC 3339. */
interface OperationHead {
  operationId: string;
  status: 'running' | 'succeeded' | 'failed';
  startedAt: string;
  endedAt?: string;
  error?: OperationError;
}

export type LocalOperation<M> = OperationHead & M;

/** The work of an operation: `update` changes members while it runs, and what it returns changes them at its end. */
export type OperationWork<M> = (update: (members: Partial<M>) => void, signal: AbortSignal) => Promise<Partial<M>>;

interface Known<M> {
  operation: LocalOperation<M>;
  /** uuid of the microservice that began it; empty for the admin */
  by: string;
  /** steady time */
  endedAt?: number;
  /** resolves when it has ended, never rejects */
  done: Promise<void>;
}

export interface OperationsDependencies {
  clock: Clock;
  /** ends the work of what is under way when the agent ends */
  signal: AbortSignal;
}

/**
 * Work of one kind that goes on after the reply to the request that began it (docs/spec/agent-local-api.md#operations). They
 * are known in memory alone: what has to survive a start of the agent is saved by the work itself.
 */
export class Operations<M extends object> {
  readonly #deps: OperationsDependencies;
  /** those under way, oldest first */
  readonly #running = new Map<string, Known<M>>();
  /** by the time of their end, the earliest first */
  readonly #ended = new Map<string, Known<M>>();

  constructor(deps: OperationsDependencies) {
    this.#deps = deps;
  }

  /**
   * Begins one, and returns it as it is now; `by` is the uuid of the microservice that asks for it. Throws UNAVAILABLE while too many
   * are under way.
   */
  begin(members: M, work: OperationWork<M>, by = ADMIN): LocalOperation<M> {
    this.#requirePlace(by);
    this.#forget(MOST_KNOWN - 1 - this.#running.size);
    const { clock } = this.#deps;
    const operationId = randomUUID();
    const head: OperationHead = { operationId, status: 'running', startedAt: new Date(clock.wall()).toISOString() };
    const known: Known<M> = { operation: { ...head, ...members }, by, done: Promise.resolve() };
    this.#running.set(operationId, known);
    known.done = this.#carryOut(known, work);
    return known.operation;
  }

  /**
   * An operation that this microservice began, or for the admin any. Throws NOT_FOUND for an id that is not known: of another kind,
   * of an earlier start of the agent, or too old.
   */
  get(operationId: string, by = ADMIN): LocalOperation<M> {
    this.#forget(MOST_KNOWN - this.#running.size);
    const known = this.#find(operationId);
    if (!known || (by !== ADMIN && by !== known.by))
      throw new LocalApiError(
        'NOT_FOUND',
        `no operation "${operationId.slice(0, 64)}"; the agent knows them until it starts again, for 24 hours at most`,
      );
    return known.operation;
  }

  /** Operations of the admin that are under way, oldest first. */
  get running(): LocalOperation<M>[] {
    return [...this.#running.values()].filter(({ by }) => by === ADMIN).map(({ operation }) => operation);
  }

  /** The operation at its end, or as it is when the time is over or the signal fires; ms. */
  async ended(operationId: string, milliseconds: number, signal?: AbortSignal): Promise<LocalOperation<M>> {
    const known = this.#find(operationId);
    if (known) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const cancel = this.#deps.clock.after(milliseconds, resolve);
      signal?.addEventListener('abort', () => resolve(), { once: true });
      await Promise.race([known.done, promise]);
      cancel();
    }
    return this.get(operationId);
  }

  async #carryOut(known: Known<M>, work: OperationWork<M>): Promise<void> {
    const { clock, signal } = this.#deps;
    const update = (members: Partial<M>) => {
      if (known.endedAt === undefined) known.operation = { ...known.operation, ...members };
    };
    // The reply is made before the work begins.
    await Promise.resolve();
    let end: Partial<OperationHead>;
    try {
      update(await work(update, signal));
      end = { status: 'succeeded' };
    } catch (error) {
      end = { status: 'failed', error: operationError(error) };
    }
    known.operation = { ...known.operation, ...end, endedAt: new Date(clock.wall()).toISOString() };
    known.endedAt = clock.now();
    const { operationId } = known.operation;
    this.#running.delete(operationId);
    this.#ended.set(operationId, known);
  }

  #find(operationId: string): Known<M> | undefined {
    return this.#running.get(operationId) ?? this.#ended.get(operationId);
  }

  #requirePlace(by: string): void {
    const refuse = (what: string): never => {
      throw new LocalApiError('UNAVAILABLE', `${what} under way; try again later`);
    };
    const running = [...this.#running.values()];
    if (running.length >= MOST_RUNNING) refuse(`${running.length} operations of this kind are`);
    if (by === ADMIN) return;
    const own = running.filter((each) => each.by === by).length;
    if (own >= MOST_OF_MICROSERVICE) refuse(`${own} operations of this microservice are`);
    if (running.filter((each) => each.by !== ADMIN).length >= MOST_OF_MICROSERVICES)
      refuse(`${MOST_OF_MICROSERVICES} operations of microservices are`);
  }

  /** Forgets what ended long ago, and what ended first of more than `most` that have ended. */
  #forget(most: number): void {
    const oldest = this.#deps.clock.now() - KEPT;
    for (const [id, { endedAt = 0 }] of this.#ended) {
      if (this.#ended.size <= most && endedAt >= oldest) return;
      this.#ended.delete(id);
    }
  }
}

function operationError(error: unknown): OperationError {
  const { code, message, details } = toApiError(error) ?? new LocalApiError('INTERNAL', errorText(error));
  return { code, message, ...(details && { details }) };
}
