/** Time as a parameter, so that tests need not wait. */

export interface Clock {
  /** Monotonic milliseconds: only differences mean anything. Never jumps when somebody sets the machine's time. */
  now(): number;
  /** Wall-clock milliseconds since 1970, for timestamps that others read. */
  wall(): number;
  /** Calls back once after `ms`; returns the cancellation. */
  after(ms: number, callback: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(ms, 0), 2 ** 31 - 1));
    return () => clearTimeout(timer);
  },
};

/** Resolves after `ms`, or at once when `signal` aborts: the caller looks at the signal, nobody handles an exception. */
export function sleep(ms: number, signal: AbortSignal, clock: Clock = systemClock): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const finish = () => {
      cancel();
      signal.removeEventListener('abort', finish);
      resolve();
    };
    const cancel = clock.after(ms, finish);
    signal.addEventListener('abort', finish);
  });
}
