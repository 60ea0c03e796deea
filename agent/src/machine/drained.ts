import type { EventEmitter } from 'node:events';

/** Resolves when a stream takes more, or takes nothing any more. */
export function drained(stream: EventEmitter): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}
