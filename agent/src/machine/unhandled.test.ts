import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { createLog, type LogEntry } from './log.ts';
import { type ProcessEvents, watchUnhandled } from './unhandled.ts';

function watched() {
  const entries: LogEntry[] = [];
  const exits: number[] = [];
  const counted = { rejections: 0, now: 0 };
  const events = Object.assign(new EventEmitter(), { exit: (code: number) => void exits.push(code) });
  const watch = watchUnhandled(events as unknown as ProcessEvents, {
    log: createLog({ level: 'INFO', write: (entry) => void entries.push(entry) }),
    count: () => void counted.rejections++,
    now: () => counted.now,
  });
  return { entries, exits, events, counted, watch };
}

test('a rejection that nothing awaits is logged with its cause and stack, and counted, and the agent goes on', () => {
  const { entries, exits, events, counted } = watched();
  events.emit('unhandledRejection', new Error('no news', { cause: new Error('socket hang up') }));
  expect(entries).toMatchObject([
    { level: 'ERROR', error: 'no news: socket hang up', stack: expect.stringContaining('unhandled.test') },
  ]);
  expect(counted.rejections).toBe(1);
  expect(exits).toEqual([]);
});

test('equal rejections are logged once in ten seconds, and all are counted', () => {
  const { entries, events, counted } = watched();
  const error = new Error('again');
  for (let i = 0; i < 100; i++) events.emit('unhandledRejection', error);
  expect(entries).toHaveLength(1);
  counted.now = 10_000;
  events.emit('unhandledRejection', error);
  expect(entries).toHaveLength(2);
  expect(counted.rejections).toBe(101);
});

test('an exception that nothing catches is logged, and ends the agent with code 1', () => {
  const { entries, exits, events } = watched();
  events.emit('uncaughtException', new TypeError('x is undefined'));
  expect(entries).toMatchObject([{ level: 'ERROR', error: 'x is undefined' }]);
  expect(exits).toEqual([1]);
});

test('an agent that has stopped watches no longer', () => {
  const { events, watch } = watched();
  watch[Symbol.dispose]();
  expect(events.eventNames()).toEqual([]);
});
