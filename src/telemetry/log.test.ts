import { expect, test, vi } from 'vitest';
import { TransportError } from '../kube/api-error.ts';
import { LeaderError } from '../replicas/leader-error.ts';
import { createLog } from './log.ts';

function makeLog(level = 'debug') {
  const lines: Record<string, unknown>[] = [];
  return { lines, log: createLog({ level, name: 'test' }, { write: (line) => void lines.push(JSON.parse(line)) }) };
}
const timeout = () => new TransportError('timeout', 'get nodes: no answer in 5 s', new Error('inside'));

test('an error of the API server is one short line without a stack', () => {
  const { lines, log } = makeLog();
  log.warn({ err: timeout(), path: '/node' }, 'Request not carried out');
  expect(lines).toMatchObject([
    { err: { type: 'TransportError', message: 'get nodes: no answer in 5 s' }, path: '/node' },
  ]);
  expect(JSON.stringify(lines)).not.toMatch(/stack|inside|log\.test/);
});

test('an error of the leader is logged without a stack', () => {
  const { lines, log } = makeLog();
  log.warn({ err: new LeaderError('UNREACHABLE', 'the leader does not answer', new Error('timed out')) }, 'No news');
  expect(lines[0]?.err).toEqual({ type: 'LeaderError', message: 'the leader does not answer: timed out' });
});

test('equal lines are logged once in ten seconds, with the number of suppressed ones', () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(0);
  const { lines, log } = makeLog();
  for (let i = 0; i < 1000; i++) log.child({ controller: 'c' }).warn({ err: timeout() }, 'Request not carried out');
  log.warn({ err: timeout() }, 'Renewing the lease failed');
  expect(lines).toHaveLength(2);
  now.mockReturnValue(10_001);
  log.warn({ err: timeout() }, 'Request not carried out');
  expect(lines[2]).toMatchObject({ alike: 999 });
  now.mockRestore();
});

test('an error of the controller itself is logged each time, with its stack', () => {
  const { lines, log } = makeLog();
  for (let i = 0; i < 3; i++) log.error({ err: new TypeError('x is undefined') }, 'Request failed');
  expect(lines).toHaveLength(3);
  for (const { err } of lines)
    expect(err).toMatchObject({ type: 'TypeError', stack: expect.stringContaining('log.test') });
});

test('lines without an error or without fields are logged, with masked credentials', () => {
  const { lines, log } = makeLog('info');
  log.info('Plain');
  log.info({ token: 'x' }, 'Fields');
  log.debug({ err: timeout() }, 'Below the level');
  expect(lines).toMatchObject([{ msg: 'Plain' }, { msg: 'Fields', token: '***' }]);
});
