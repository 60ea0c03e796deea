import { type Backoff, backoffDelay } from '../../../../src/lib/backoff.ts';
import { type Clock, sleep } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { Random } from '../../domain/jitter.ts';
import { type Step, type StepOf, serialKey } from '../../domain/step.ts';
import type { StepResult } from '../plan/step-result.ts';
import type { Ended } from './executors.ts';
import { describeStep, STEP_MESSAGES } from './step-log.ts';

/** So many steps besides pulls at the same time; pulls wait for their turn by registry. */
const STEPS_AT_ONCE = 4;
/** An engine may answer a look and not a step. */
const UNANSWERED: Backoff = { baseMs: 1000, factor: 2, maxMs: 5000, spread: 0.1 };

export interface RunningStep {
  step: Step;
  abort: AbortController;
  /** of a pull, 0..100 */
  percentage?: number;
  /** The engine did not answer; the step stays here until it may be tried again. */
  isUnanswered?: boolean;
}

export interface SchedulerDependencies {
  clock: Clock;
  random: Random;
  log: Log;
  metrics: { add(name: 'steps' | 'starts', labels: Record<string, string>): void };
  /** Carries out one step. Never throws. */
  execute(step: Step, onProgress: (percentage: number) => void, signal: AbortSignal): Promise<Ended>;
  /** A step is about to be carried out. */
  begins(step: Step): void;
  /** A step has ended, and how; not called for steps that were given up. */
  ended(step: Step, result: StepResult): void;
  /** The progress of a pull moves. */
  progressed(): void;
  /** Something has ended: it is time to look again. */
  wake(): void;
}

/**
 * Carries steps out, those with one serial key one after another, several keys at the same time. A pull of an image that
 * the plan no longer asks for is called off.
 */
export class StepScheduler {
  readonly #deps: SchedulerDependencies;
  readonly #running = new Map<string, RunningStep>();
  /** how often in a row the engine did not answer, by the serial key of the step */
  readonly #unanswered = new Map<string, number>();
  #ended = 0;

  constructor(deps: SchedulerDependencies) {
    this.#deps = deps;
  }

  /** How many steps have ended. A look at the engine that was taken while this grew may show what is over. */
  get ended(): number {
    return this.#ended;
  }

  get underWay(): Step[] {
    return [...this.#running.values()].map(({ step }) => step);
  }

  get keys(): string[] {
    return [...this.#running.keys()];
  }

  find(key: string): RunningStep | undefined {
    return this.#running.get(key);
  }

  /** Begins those steps of a plan that can begin now; the next plan brings the others again. */
  begin(steps: readonly Step[], signal: AbortSignal): void {
    const planned = new Map(steps.map((step) => [serialKey(step), step]));
    for (const [key, { step, abort }] of this.#running)
      if (step.kind === 'image' && !isSamePull(step, planned.get(key))) abort.abort();
    for (const key of this.#unanswered.keys())
      if (!planned.has(key) && !this.#running.has(key)) this.#unanswered.delete(key);
    let busy = [...this.#running.values()].filter(
      ({ step, isUnanswered }) => step.kind !== 'image' && !isUnanswered,
    ).length;
    for (const [key, step] of planned) {
      const isPull = step.kind === 'image';
      if (this.#running.has(key) || (!isPull && busy >= STEPS_AT_ONCE)) continue;
      if (!isPull) busy++;
      void this.#carryOut(key, step, signal);
    }
  }

  /** Aborts the steps that `which` selects. */
  abort(which: (step: Step) => boolean): void {
    for (const { step, abort } of this.#running.values()) if (which(step)) abort.abort();
  }

  /** Does something with a microservice while no step of it is carried out. The caller sees to it that none is. */
  async exclusively(uuid: string, act: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const abort = new AbortController();
    const step: Step = { kind: 'remove', uuid, target: '', containerId: '', reason: 'Leftover' };
    this.#running.set(uuid, { step, abort });
    try {
      await act(abort.signal);
    } finally {
      this.#end(uuid);
    }
  }

  async #carryOut(key: string, step: Step, signal: AbortSignal): Promise<void> {
    const { clock, execute, begins, ended, progressed } = this.#deps;
    const running: RunningStep = { step, abort: new AbortController() };
    this.#running.set(key, running);
    const log = this.#deps.log.child({ microservice: 'uuid' in step ? step.uuid : undefined, step: step.kind });
    log.info(describeStep(step), STEP_MESSAGES[step.kind]);
    begins(step);
    const began = clock.now();
    const onProgress = (percentage: number) => {
      running.percentage = percentage;
      progressed();
    };
    const ending = AbortSignal.any([running.abort.signal, signal]);
    const result = await execute(step, onProgress, ending);
    this.#ended++;
    this.#count(step, result);
    logResult(step, result, log.child({ durationMs: clock.now() - began }));
    if (result === 'unavailable') await this.#pause(key, running, ending);
    else this.#unanswered.delete(key);
    this.#running.delete(key);
    if (typeof result !== 'string') ended(step, result);
    this.#deps.wake();
  }

  /** The look that begins at once finds out whether the engine is lost, which aborts the pause. */
  async #pause(key: string, running: RunningStep, ending: AbortSignal): Promise<void> {
    const { clock, random, wake } = this.#deps;
    const count = (this.#unanswered.get(key) ?? 0) + 1;
    this.#unanswered.set(key, count);
    running.isUnanswered = true;
    wake();
    await sleep(backoffDelay(UNANSWERED, count, random), ending, clock);
  }

  #end(key: string): void {
    this.#running.delete(key);
    this.#ended++;
    this.#deps.wake();
  }

  #count(step: Step, result: Ended): void {
    const { metrics } = this.#deps;
    const outcome = typeof result === 'string' ? 'given-up' : result.ok ? 'ok' : 'failed';
    metrics.add('steps', { step: step.kind, outcome });
    if (step.kind === 'start' && outcome === 'ok') metrics.add('starts', { reason: step.reason });
  }
}

function logResult(step: Step, result: Ended, log: Log): void {
  if (typeof result === 'string') log.debug({ outcome: result }, 'Gave the step up');
  else if (result.ok) log.debug(describeStep(step), 'Step done');
  else log.warn({ ...describeStep(step), reasonCode: result.reason, error: result.message }, 'Step failed');
}

function isSamePull(running: StepOf<'image'>, planned: Step | undefined): boolean {
  return (
    planned?.kind === 'image' &&
    planned.reference === running.reference &&
    planned.registryId === running.registryId &&
    planned.platform === running.platform
  );
}
