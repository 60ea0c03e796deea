import { expect, test } from 'vitest';
import { atEnd } from '../../../../testing/at-end.ts';
import { createLog, type LogEntry } from '../../machine/log.ts';
import { LocalAgent } from '../_local-agent.ts';
import { localApi } from '../routes.ts';
import { onAllListeners } from './_listeners.ts';
import { type AnsweredRequest, createAccessLog } from './access-log.ts';

/** Lines of the log about requests. */

let now = 0;
const clock = { now: () => now, wall: () => now, after: () => () => {} };

function newLog() {
  const entries: LogEntry[] = [];
  const log = createLog({ level: 'DEBUG', write: (entry) => void entries.push(entry) });
  const at = (level: string) => entries.filter((entry) => entry.level === level);
  return { log, at };
}

const REQUEST: AnsweredRequest = {
  ...{ method: 'GET', status: 200, milliseconds: 1.4, listener: 'loopback', identified: { kind: 'nobody' } },
  route: { path: '/v1/ms/{id}', operation: 'getMicroservice' },
};

test('a read is logged for debugging alone, a change as usual, and a refusal as a warning', () => {
  const { log, at } = newLog();
  const note = createAccessLog({ log, clock });
  note(REQUEST);
  note({ ...REQUEST, method: 'POST', status: 503 });
  for (const status of [401, 403]) note({ ...REQUEST, status });
  const fields = { route: '/v1/ms/{id}', listener: 'loopback', caller: 'nobody', durationMs: 1 };
  expect(at('DEBUG')).toMatchObject([{ event: 'api.access', method: 'GET', status: 200, ...fields }]);
  expect(at('INFO')).toMatchObject([{ event: 'api.access', method: 'POST', status: 503, ...fields }]);
  expect(at('WARN')).toMatchObject([
    { event: 'api.reject', status: 401 },
    { event: 'api.reject', status: 403 },
  ]);
});

test('a caller that sends thousands of requests gets 30 lines, then six a minute, of its listener alone', () => {
  const { log, at } = newLog();
  const note = createAccessLog({ log, clock });
  for (let n = 0; n < 5000; n++) note({ ...REQUEST, status: 401 });
  expect(at('WARN')).toHaveLength(30);
  note({ ...REQUEST, status: 401, listener: 'socket' });
  expect(at('WARN')).toHaveLength(31);
  now += 60_000;
  for (let n = 0; n < 5000; n++) note({ ...REQUEST, status: 401 });
  expect(at('WARN')).toHaveLength(37);
  expect(at('WARN')[31]).toMatchObject({ unlogged: 4970 });
});

test('a request is logged by the pattern of its route, without its path, its query, its body and its token', async () => {
  const local = await LocalAgent.start();
  atEnd(() => local[Symbol.asyncDispose]());
  const { log, at } = newLog();
  const ask = await onAllListeners(local, localApi({ agent: local.agent } as never), log);
  const { token } = local;
  await ask('socket', 'POST', '/v1/ms/canary/kill?x=canary', { token, body: '{"signal":"canary"}' });
  await ask('socket', 'GET', '/v1/canary?x=canary', { token });
  await ask('socket', 'GET', '/v1/ms?source=all', { token: 'canary' });
  await expect.poll(() => at('WARN')).toMatchObject([{ event: 'api.reject', route: '/v1/ms', status: 401 }]);
  const { jti = '' } = local.agent.tokens.verify(local.token) ?? {};
  const [changed] = at('INFO');
  expect(changed).toMatchObject({ method: 'POST', route: '/v1/ms/{id}/kill', status: 400, caller: 'admin' });
  expect(changed?.jti).toMatch(/^[0-9a-f]{64}$/);
  expect(at('DEBUG')).toMatchObject([{ method: 'GET', route: 'none', status: 404 }]);
  const all = JSON.stringify([...at('DEBUG'), ...at('INFO'), ...at('WARN')]);
  for (const secret of ['canary', jti, local.token]) expect(all).not.toContain(secret);
});

test('requests are counted by operation and status', async () => {
  const local = await LocalAgent.start();
  atEnd(() => local[Symbol.asyncDispose]());
  await local.ask('GET', '/v1/system/version');
  await local.ask('GET', '/v1/system/version', undefined, 'no token');
  await local.ask('GET', '/v1/nonsense');
  const counted = (operation: string, status: number) =>
    `edge_agent_local_api_requests_total{operation="${operation}",status="${status}"} 1\n`;
  for (const line of [counted('getVersion', 200), counted('getVersion', 401), counted('none', 404)])
    await expect.poll(async () => (await local.ask('GET', '/metrics')).body.text).toContain(line);
});
