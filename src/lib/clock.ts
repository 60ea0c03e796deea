/** Time as a dependency, so that tests need not wait. */

export interface Clock {
  /** Monotonic milliseconds, of which only differences have a meaning. A change of the system time does not affect it. */
  now(): number;
  /** Wall-clock milliseconds since 1970, for timestamps in objects and messages. */
  wall(): number;
  /** Calls `callback` once after `ms`; returns a function that cancels it. */
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

/** Resolves after `ms`, or when `signal` aborts. It never rejects: the caller checks the signal. */
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
