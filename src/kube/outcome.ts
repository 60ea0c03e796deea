/**
 * The result of a reconcile. A failure is not one of them: a reconcile that throws is retried with backoff.
 *
 * - `done`: the actual state is the desired one; the next run follows a change
 * - `requeue`: no error; the next run follows a change, or `afterMs` at the latest
 */
export type Outcome = { readonly type: 'done' } | { readonly type: 'requeue'; readonly afterMs: number };

const DONE: Outcome = Object.freeze({ type: 'done' });

export const done = (): Outcome => DONE;
export const requeueAfter = (afterMs: number): Outcome => ({ type: 'requeue', afterMs });

/** The delay of the next run, or `undefined` when only a change leads to one. */
export const delayOf = (outcome: Outcome): number | undefined =>
  outcome.type === 'requeue' ? outcome.afterMs : undefined;
