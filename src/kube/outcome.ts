/**
 * What a reconcile returns. Failure is not among them: whatever it throws is retried with backoff.
 *
 * - `done`: the world is as desired; come back when something changes
 * - `requeue`: fine so far; come back after `afterMs` at the latest
 * - `wait`: something we depend on is not there yet, and that is no error; come back after `afterMs` or on a change
 * - `stall`: only a change by somebody (a new spec, a new object) can help; nothing is scheduled
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

/** When the queue must see the key again, or `undefined` when only a change brings it back. */
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
