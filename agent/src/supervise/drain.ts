import type { Clock } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { MicroserviceRecord } from '../domain/record.ts';
import { type Container, isRunning } from '../engine-port/container.ts';
import type { EndPort } from '../engine-port/containers.ts';
import { errorText } from '../machine/log.ts';
import { STOP_GRACE_SECONDS } from './executors/executors.ts';
import type { StepScheduler } from './executors/step-scheduler.ts';
import { startRank } from './plan/start-order.ts';
import type { RecordKeeper } from './record-keeper.ts';

/** Containers that are asked to end at the same time. */
const AT_ONCE = 8;
const SECOND = 1000;

export interface DrainDependencies {
  engine: EndPort;
  clock: Clock;
  log: Log;
  records: Pick<RecordKeeper, 'get' | 'update'>;
  scheduler: Pick<StepScheduler, 'abort' | 'keys'>;
  containers(): readonly Container[];
  /** Resolves when the condition holds, or false when it does not in time. */
  until(condition: () => boolean, milliseconds: number): Promise<boolean>;
}

/** Microservices by what became of their containers. */
export interface Drained {
  stopped: string[];
  remaining: string[];
}

/**
 * Stops all containers, those that started last first, and within a bound of time. No step begins from then on: what was stopped stays
 * so until the agent starts again. What does not end in time runs on, and is named.
 */
export class Drain {
  readonly #deps: DrainDependencies;
  #running: Promise<Drained> | undefined;

  constructor(deps: DrainDependencies) {
    this.#deps = deps;
  }

  /** Whether containers are stopped, or were. */
  get hasBegun(): boolean {
    return this.#running !== undefined;
  }

  /** A second call waits for the first, and stops what was left. */
  async run(milliseconds: number): Promise<Drained> {
    const former = this.#running;
    const begun = (former ?? Promise.resolve()).then(() => this.#stopAll(milliseconds));
    this.#running = begun;
    return begun;
  }

  async #stopAll(milliseconds: number): Promise<Drained> {
    const { clock, log, scheduler, containers, until } = this.#deps;
    const end = clock.now() + milliseconds;
    scheduler.abort(() => true);
    await until(() => scheduler.keys.length === 0, Math.min(milliseconds, STOP_GRACE_SECONDS * SECOND * 2));
    const deadline = new AbortController();
    const isLate = Promise.withResolvers<never>();
    isLate.promise.catch(() => {});
    const cancel = clock.after(Math.max(0, end - clock.now()), () => {
      deadline.abort();
      isLate.reject(new Error('it did not end in time'));
    });
    const stopped: string[] = [];
    try {
      for (const group of this.#groups(containers()))
        for (let at = 0; at < group.length && !deadline.signal.aborted; at += AT_ONCE)
          await Promise.all(
            group.slice(at, at + AT_ONCE).map(async (container) => {
              if (await this.#stop(container, end, deadline.signal, isLate.promise)) stopped.push(container.uuid);
            }),
          );
    } finally {
      cancel();
    }
    const isStopped = new Set(stopped);
    const remaining = runningIn(containers()).filter(({ uuid }) => !isStopped.has(uuid));
    log.info({ stopped: stopped.length, remaining: remaining.length }, 'Stopped the containers of this machine');
    return { stopped: [...isStopped], remaining: [...new Set(remaining.map(({ uuid }) => uuid))] };
  }

  /** The containers that run, in the reverse order of their starts. */
  #groups(containers: readonly Container[]): Container[][] {
    const { records } = this.#deps;
    const groups = Map.groupBy(runningIn(containers), ({ uuid }) => startRank(records.get(uuid) ?? UNKNOWN));
    return [...groups].sort(([a], [b]) => b - a).map(([, group]) => group);
  }

  async #stop({ id, uuid }: Container, end: number, signal: AbortSignal, late: Promise<never>): Promise<boolean> {
    const { engine, clock, log, records } = this.#deps;
    const left = Math.floor((end - clock.now()) / SECOND);
    // Its end is no crash.
    records.update(uuid, (record) => ({ ...record, live: { ...record.live, stopping: id } }));
    try {
      const grace = Math.max(1, Math.min(STOP_GRACE_SECONDS, left - 1));
      await Promise.race([engine.stop(id, grace, signal), late]);
      return true;
    } catch (error) {
      log.warn({ microservice: uuid, error: errorText(error) }, 'A container could not be stopped');
      return false;
    }
  }
}

/** Of a container that the agent does not know: it ends first. */
const UNKNOWN: Pick<MicroserviceRecord, 'isSystem' | 'schedule'> = { isSystem: false, schedule: 100 };

const runningIn = (containers: readonly Container[]) =>
  containers.filter((container) => isRunning(container) || container.paused);
