import { AgentError } from '../domain/agent-error.ts';
import { type MicroserviceRecord, withoutFailure } from '../domain/record.ts';
import type { Desired } from '../domain/wanted.ts';
import { type Container, runKey } from '../engine-port/container.ts';
import type { EndPort } from '../engine-port/containers.ts';
import { EngineError } from '../engine-port/error.ts';
import { errorText } from '../machine/log.ts';
import { STOP_GRACE_SECONDS } from './executors/executors.ts';
import type { StepScheduler } from './executors/step-scheduler.ts';
import { unneededContainers } from './plan/unneeded.ts';
import type { RecordKeeper } from './record-keeper.ts';

/** A local removal waits so long, ms, for the step of its microservice that is being carried out. */
const BUSY_PATIENCE = 60_000;

export interface LocalActionsDependencies {
  engine: EndPort;
  records: Pick<RecordKeeper, 'all' | 'get' | 'isStopSaved' | 'problem'>;
  scheduler: Pick<StepScheduler, 'find' | 'exclusively'>;
  containers(): readonly Container[];
  desired(): Desired;
  /** Notes a stop, or its end, where it is more than a record; returns why that would not survive the end of this process. */
  noteStop(uuid: string, isStopped: boolean): string | undefined;
  /** Changes a record, saves it and looks again. */
  change(uuid: string, change: (record: MicroserviceRecord) => MicroserviceRecord): void;
  /** Resolves when the condition holds, or false when it does not in time. */
  until(condition: () => boolean, milliseconds: number): Promise<boolean>;
}

/**
 * What a person on the machine can do with one microservice. `start`, `stop` and `restart` do it at once, also on a disk
 * that takes no writes, and answer why it would not survive the end of this process.
 */
export class LocalActions {
  readonly #deps: LocalActionsDependencies;

  constructor(deps: LocalActionsDependencies) {
    this.#deps = deps;
  }

  /** Stops a microservice until it is started on the machine, rebuilt, or gets another revision. */
  stop(uuid: string): string | undefined {
    const entry = this.#deps.desired().entries.find((each) => each.uuid === uuid);
    const view = entry?.kind === 'run' ? entry.view : this.#deps.records.get(uuid)?.lastGood;
    const { revision = '', rebuildCount = 0 } = view ?? {};
    const problem = this.#deps.noteStop(uuid, true);
    this.#deps.change(uuid, (record) => ({
      ...record,
      stoppedLocally: { revision, rebuildCount },
      live: { ...record.live, restart: undefined },
    }));
    return problem ?? this.#unsaved(uuid);
  }

  /** Ends a local stop, and tries at once what waits. */
  start(uuid: string): string | undefined {
    const problem = this.#deps.noteStop(uuid, false);
    this.#deps.change(uuid, (record) => ({
      ...withoutFailure(record),
      stoppedLocally: undefined,
      crash: undefined,
      live: { ...record.live, startedLocally: true },
    }));
    return problem ?? this.#unsaved(uuid);
  }

  /** Ends the present run and starts the container again; what does not run is started. */
  restart(uuid: string): string | undefined {
    const running = this.#running(uuid);
    if (!running) return this.start(uuid);
    const problem = this.#deps.noteStop(uuid, false);
    this.#deps.change(uuid, (record) => ({
      ...record,
      stoppedLocally: undefined,
      live: { ...record.live, restart: { key: runKey(running) } },
    }));
    return problem ?? this.#unsaved(uuid);
  }

  #unsaved(uuid: string): string | undefined {
    const { records } = this.#deps;
    return records.isStopSaved(uuid) ? undefined : records.problem;
  }

  /** Removes a microservice's containers. What is still wanted is made again. */
  async remove(uuid: string): Promise<void> {
    const { engine, scheduler, containers, change, until } = this.#deps;
    const isBusy = () => scheduler.find(uuid) !== undefined;
    await until(() => !isBusy(), BUSY_PATIENCE);
    if (isBusy()) throw new EngineError('Conflict', 'the microservice is busy');
    await scheduler.exclusively(uuid, async (signal) => {
      for (const { id } of containers().filter((container) => container.uuid === uuid)) {
        change(uuid, (record) => ({ ...record, live: { ...record.live, stopping: id } }));
        await engine.stop(id, STOP_GRACE_SECONDS, signal);
        await engine.remove(id, signal);
      }
    });
  }

  /**
   * Removes the stopped containers that nothing needs (`unneededContainers`); answers their names, and why others stay. A
   * microservice that is being worked on is left alone: supervision removes what it leaves.
   */
  async prune(): Promise<{ removed: string[]; kept: Record<string, string> }> {
    const { engine, scheduler, containers, desired, records } = this.#deps;
    const removed: string[] = [];
    const kept: Record<string, string> = {};
    for (const { id, name, uuid } of unneededContainers(containers(), desired(), records.all)) {
      if (scheduler.find(uuid)) continue;
      try {
        // The engine refuses to remove a container that was started meanwhile.
        await scheduler.exclusively(uuid, (signal) => engine.remove(id, signal));
        removed.push(name);
      } catch (error) {
        kept[name] = errorText(error);
      }
    }
    return { removed, kept };
  }

  /** Sends a signal to the container that runs. Throws AgentError where none does. */
  async kill(uuid: string, posixSignal: string): Promise<void> {
    const running = this.#running(uuid);
    try {
      if (running) return await this.#deps.engine.kill(running.id, posixSignal);
    } catch (error) {
      // It has ended meanwhile.
      if (!(error instanceof EngineError && (error.code === 'Conflict' || error.code === 'NotFound'))) throw error;
    }
    throw new AgentError('CONFLICT', 'the microservice does not run');
  }

  #running(uuid: string): Container | undefined {
    return this.#deps.containers().find((container) => container.uuid === uuid && container.state === 'running');
  }
}
