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
}

export function createHashQueue({ parallel, waiting }: HashQueueOptions): HashQueue {
  let running = 0;
  const queue: (() => void)[] = [];

  function done() {
    running--;
    queue.shift()?.();
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
        reject(signal.reason);
      };
      queue.push(start);
      signal.addEventListener('abort', give, { once: true });
    });
  }

  return {
    async run(work, signal) {
      await turn(signal);
      try {
        return await work();
      } finally {
        done();
      }
    },
  };
}
