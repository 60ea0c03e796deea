/**
 * The result of a reconcile. A failure is not one of them: a reconcile that throws is retried with backoff.
 *
 * - `done`: the actual state is the desired one; the next run follows a change
 * - `requeue`: no error; the next run follows a change, or `afterMs` at the latest
 * - `wait`: a dependency does not exist yet, which is no error; the next run follows a change, or `afterMs` at the latest
 * - `stall`: only a change by a user or another controller (a new spec, a new object) can help; no run is scheduled
 */
export type Outcome =
  | { readonly type: 'done' }
  | { readonly type: 'requeue'; readonly afterMs: number }
  | { readonly type: 'wait'; readonly reason: string; readonly afterMs: number }
  | { readonly type: 'stall'; readonly reason: string };

const DONE: Outcome = Object.freeze({ type: 'done' });

export const done = (): Outcome => DONE;
export const requeueAfter = (afterMs: number): Outcome => ({ type: 'requeue', afterMs });
export const wait = (reason: string, afterMs: number): Outcome => ({ type: 'wait', reason, afterMs });
export const stall = (reason: string): Outcome => ({ type: 'stall', reason });

/** The delay of the next run, or `undefined` when only a change leads to one. */
export function delayOf(outcome: Outcome): number | undefined {
  switch (outcome.type) {
    case 'done':
    case 'stall':
      return undefined;
    case 'requeue':
    case 'wait':
      return outcome.afterMs;
    default:
      return outcome satisfies never;
  }
}
