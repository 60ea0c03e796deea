import { type Clock, systemClock } from '../lib/clock.ts';
import { TransportError } from './api-error.ts';

/** A signal that aborts with its parent or when the time is over. Disposing it removes the timer and the listener. */
export interface Deadline extends Disposable {
  readonly signal: AbortSignal;
  /** When it ends, on the monotonic clock. */
  readonly at: number;
}

/**
 * Not `AbortSignal.any` with `AbortSignal.timeout`: a long-lived parent references such signals until they are garbage
 * collected, and thousands of deadlines per second have the same parent.
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
