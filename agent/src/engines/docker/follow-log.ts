import { setTimeout as sleep } from 'node:timers/promises';
import type { LogLine, LogOptions } from '../../engine-port/logs.ts';
import { lastOf } from './log-query.ts';

type Read = (options: LogOptions, signal?: AbortSignal) => AsyncIterable<LogLine>;

/** Milliseconds between two reads; a read of a long log is followed by a pause that is some times as long. */
const PAUSE = 250;
const PAUSES = 4;

/**
 * Follows a log on an engine whose own way leaves lines out: what is written between its look at the last lines and its
 * look at the end of the file, and much of what is unread when the container ends. What it sends only says that there is
 * more to read; the lines are those after the last known one in the whole log, which its size limit bounds.
 */
export async function* followLog(read: Read, options: LogOptions): AsyncGenerator<LogLine> {
  const whole = { ...options, tail: Infinity };
  const stop = new AbortController();
  const news = watch(read({ ...whole, follow: true }, stop.signal));
  let known = 0;
  async function* unknown(): AsyncGenerator<LogLine> {
    let lines = 0;
    for await (const line of read({ ...whole, follow: false })) if (++lines > known) yield line;
    const wasEmptied = lines < known;
    known = wasEmptied ? 0 : lines;
    if (wasEmptied) yield* unknown();
  }
  try {
    yield* lastOf(unknown(), options.tail);
    for (let hasEnded = false; !hasEnded; ) {
      hasEnded = await news.next();
      const start = performance.now();
      yield* unknown();
      if (!hasEnded) await sleep(Math.max(PAUSE, PAUSES * (performance.now() - start)), undefined, { ref: false });
    }
  } finally {
    stop.abort();
  }
}

/** Reads lines as they come; `next` resolves when there were some since the last call: true when they were the last. */
function watch(lines: AsyncIterable<LogLine>) {
  let hasNews = false;
  let wake = () => {};
  const ended = (async () => {
    for await (const _line of lines) {
      hasNews = true;
      wake();
    }
  })();
  // An error is that of the call of `next` that waits for it.
  ended.catch(() => {});
  return {
    async next(): Promise<boolean> {
      const more = hasNews
        ? Promise.resolve()
        : new Promise<void>((resolve) => {
            wake = resolve;
          });
      const hasEnded = await Promise.race([ended.then(() => true), more.then(() => false)]);
      hasNews = false;
      return hasEnded;
    },
  };
}
