import { expect, test } from 'vitest';
import { whenAborted } from '../../../src/lib/aborted.ts';
import type { LogLine, LogOptions } from '../engine-port/logs.ts';
import { VirtualClock } from '../machine/_virtual-clock.ts';
import { followedUntil } from './followed-until.ts';

const LINE: LogLine = { ts: '', stream: 'stdout', line: 'x' };

/** A log with one line, which stays open without another one. */
function start(change: Partial<LogOptions>) {
  const clock = new VirtualClock();
  const asked: LogOptions[] = [];
  const options = { tail: 1, follow: true, ...change };
  async function* read(given: LogOptions, signal: AbortSignal): AsyncGenerator<LogLine> {
    asked.push(given);
    yield LINE;
    if (given.follow) await whenAborted(signal);
  }
  const stop = new AbortController();
  return { clock, asked, stop, lines: followedUntil(options, { clock, signal: stop.signal }, read) };
}

const NOW = new VirtualClock().wall();

test('following until a time that has passed is no following', async () => {
  const { lines, asked } = start({ until: NOW - 1 });
  const all: LogLine[] = [];
  for await (const line of lines) all.push(line);
  expect(all).toEqual([LINE]);
  expect(asked).toEqual([{ tail: 1, follow: false, until: NOW - 1 }]);
});

test('following ends a second after its time, without a further line', async () => {
  const { clock, lines } = start({ until: NOW + 5_000 });
  expect((await lines.next()).value).toEqual(LINE);
  const last = lines.next();
  let isOver = false;
  void last.then(() => {
    isOver = true;
  });
  await clock.advance(5_999);
  expect(isOver).toBe(false);
  await clock.advance(1);
  expect((await last).done).toBe(true);
});

test('following without a time ends with its reader', async () => {
  const { lines, stop } = start({});
  await lines.next();
  const last = lines.next();
  stop.abort();
  expect((await last).done).toBe(true);
});
