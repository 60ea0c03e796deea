import { EventEmitter } from 'node:events';
import { expect, test, vi } from 'vitest';
import { createLog } from './log.ts';
import { createMetrics } from './metrics.ts';
import { type ProcessEvents, watchUnhandled } from './unhandled.ts';

function watched() {
  const lines: Record<string, unknown>[] = [];
  const log = createLog({ level: 'info', name: 'test' }, { write: (line) => void lines.push(JSON.parse(line)) });
  const metrics = createMetrics();
  const exits: number[] = [];
  const events = Object.assign(new EventEmitter(), { exit: (code: number) => void exits.push(code) });
  watchUnhandled(events as ProcessEvents, { log, metrics });
  return {
    lines,
    exits,
    events,
    count: async () => (await metrics.registry.metrics()).match(/^skerry_unhandled.*$/m)?.[0],
  };
}

test('a rejection that nothing awaits is logged with its cause and stack, and counted, and the process goes on', async () => {
  const { lines, exits, events, count } = watched();
  expect(await count()).toBe('skerry_unhandled_rejections_total 0');
  events.emit('unhandledRejection', new Error('no news', { cause: new Error('connect ECONNREFUSED 10.0.0.1:443') }));
  expect(lines).toMatchObject([
    { level: 'error', failure: { type: 'Error', message: 'no news: connect ECONNREFUSED 10.0.0.1:443' } },
  ]);
  expect(JSON.stringify(lines)).toContain('unhandled.test');
  expect(await count()).toBe('skerry_unhandled_rejections_total 1');
  expect(exits).toEqual([]);
});

test('of a thousand equal rejections one is logged in ten seconds, and all are counted', async () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(0);
  const { lines, events, count } = watched();
  const error = new Error('again');
  for (let i = 0; i < 1000; i++) events.emit('unhandledRejection', error);
  expect(lines).toHaveLength(1);
  expect(await count()).toBe('skerry_unhandled_rejections_total 1000');
  now.mockReturnValue(10_001);
  events.emit('unhandledRejection', error);
  expect(lines[1]).toMatchObject({ alike: 999 });
  now.mockRestore();
});

test('a rejection with what is no error is logged as text', () => {
  const { lines, events } = watched();
  events.emit('unhandledRejection', undefined);
  expect(lines).toMatchObject([{ failure: { message: 'undefined' } }]);
});

test('an exception that nothing catches is logged, and ends the process with code 1', () => {
  const { lines, exits, events } = watched();
  events.emit('uncaughtException', new TypeError('x is undefined'));
  expect(lines).toMatchObject([{ level: 'fatal', failure: { type: 'TypeError', message: 'x is undefined' } }]);
  expect(exits).toEqual([1]);
});
