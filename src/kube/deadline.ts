import { TransportError } from './api-error.ts';
import { type Clock, systemClock } from './clock.ts';

/** A signal that aborts with its parent or when time is up, and lets go of both when disposed. */
export interface Deadline extends Disposable {
  readonly signal: AbortSignal;
  /** When it ends, on the clock's monotonic scale. */
  readonly at: number;
}

/**
 * `AbortSignal.any` and `AbortSignal.timeout` would do, but hold on to a long-lived parent until they are collected;
 * this one is used thousands of times per second below one parent.
 */
export function startDeadline(ms: number, parent?: AbortSignal, clock: Clock = systemClock): Deadline {
  const controller = new AbortController();
  const follow = () => controller.abort(parent?.reason);
  const cancel = clock.after(ms, () => {
    controller.abort(new TransportError('timeout', `no answer within ${Math.round(ms)} ms`));
  });
  if (parent?.aborted) follow();
  else parent?.addEventListener('abort', follow);
  return {
    signal: controller.signal,
    at: clock.now() + ms,
    [Symbol.dispose]() {
      cancel();
      parent?.removeEventListener('abort', follow);
    },
  };
}
