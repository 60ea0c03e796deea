import { HttpError, retryAfter } from '../http/http-error.ts';

/** Work that takes a processor for a thirtieth of a second and 19 MiB: few at once, and few that wait. */
export interface HashQueue {
  run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

export interface HashQueueOptions {
  /** at once */
  parallel: number;
  /** that wait; more get 429 */
  waiting: number;
  /** called with how many wait now, and with how long one has waited, in seconds */
  depth?(count: number): void;
  waited?(seconds: number): void;
}

export function createHashQueue({ parallel, waiting, depth, waited }: HashQueueOptions): HashQueue {
  let running = 0;
  const queue: (() => void)[] = [];

  function done() {
    running--;
    queue.shift()?.();
    depth?.(queue.length);
  }

  async function turn(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (running < parallel) {
      running++;
      return;
    }
    if (queue.length >= waiting)
      throw new HttpError(429, 'TOO_MANY_REQUESTS', 'too many people log in at this moment, try again', {
        headers: retryAfter(1),
      });
    await new Promise<void>((resolve, reject) => {
      const start = () => {
        signal.removeEventListener('abort', give);
        running++;
        resolve();
      };
      const give = () => {
        queue.splice(queue.indexOf(start), 1);
        depth?.(queue.length);
        reject(signal.reason);
      };
      queue.push(start);
      depth?.(queue.length);
      signal.addEventListener('abort', give, { once: true });
    });
  }

  return {
    async run(work, signal) {
      const began = performance.now();
      await turn(signal);
      waited?.((performance.now() - began) / 1000);
      try {
        return await work();
      } finally {
        done();
      }
    },
  };
}
