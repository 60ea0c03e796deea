import { expect, test } from 'vitest';
import {
  decide,
  KEPT_SESSIONS,
  type Listed,
  limitRefusal,
  listedExec,
  listedLog,
  type Present,
  SESSION_LIMIT,
} from './decide.ts';

const OPEN = {
  askedAt: 1_000,
  policy: { exec: true, logs: true },
  others: 0,
  isSystem: (uuid: string) => uuid === 'system',
  isOwn: (uuid: string) => uuid === 'own',
};

const exec = (id: string, agentConnected = false, microserviceUuid = 'm'): Listed =>
  listedExec({ sessionId: id, microserviceUuid, status: 'PENDING', agentConnected });
const tailConfig = { lines: 10, follow: true };
const logs = (id: string): Listed =>
  listedLog({
    sessionId: id,
    microserviceUuid: null,
    iofogUuid: 'n',
    status: 'PENDING',
    agentConnected: false,
    tailConfig,
  });
const present = (id: string, change: Partial<Present> = {}): Present => ({
  ...{ id, kind: 'exec', connectedAt: undefined, isOver: false },
  ...change,
});

test('a listed session begins once, and ends when the list no longer names it', () => {
  expect(decide([exec('a')], [], OPEN).begin).toEqual([{ session: exec('a'), refusal: undefined }]);
  expect(decide([exec('a')], [present('a')], OPEN)).toEqual({ begin: [], reconnect: [], end: [] });
  expect(decide([], [present('a')], OPEN).end).toEqual([{ id: 'a', refusal: undefined }]);
});

test('a session that has ended here does not begin once more while the list still names it', () => {
  expect(decide([exec('a')], [present('a', { isOver: true })], OPEN)).toEqual({ begin: [], reconnect: [], end: [] });
});

test('a session that is connected elsewhere is left alone', () => {
  expect(decide([exec('a', true)], [], OPEN).begin).toEqual([]);
});

test('a socket that the controller does not have is opened again, unless it is newer than the list', () => {
  expect(decide([exec('a')], [present('a', { connectedAt: 999 })], OPEN).reconnect).toEqual(['a']);
  expect(decide([exec('a')], [present('a', { connectedAt: 1_001 })], OPEN).reconnect).toEqual([]);
  expect(decide([exec('a', true)], [present('a', { connectedAt: 999 })], OPEN).reconnect).toEqual([]);
});

test('the policy refuses sessions of one kind, and ends those that it no longer allows', () => {
  const noExec = { ...OPEN, policy: { exec: false, logs: true } };
  expect(decide([exec('a'), logs('b')], [], noExec).begin.map(({ refusal }) => refusal)).toEqual([
    'the policy of the machine allows no exec sessions',
    undefined,
  ]);
  expect(decide([exec('a')], [present('a')], noExec).end).toEqual([
    { id: 'a', refusal: 'the policy of the machine allows no exec sessions' },
  ]);
  const noLogs = { ...OPEN, policy: { exec: true, logs: false } };
  expect(decide([logs('b')], [], noLogs).begin[0]?.refusal).toBe('the policy of the machine allows no log sessions');
});

test('a controller gets no session of a microservice of the machine itself, and loses the session of a microservice that becomes one', () => {
  const refusal = 'this microservice belongs to its machine, and not to a controller';
  const session = exec('a', false, 'own');
  expect(decide([session], [], OPEN).begin).toEqual([{ session, refusal }]);
  expect(decide([session], [present('a')], OPEN).end).toEqual([{ id: 'a', refusal }]);
});

test('sessions beyond the limit are refused', () => {
  const many = Array.from({ length: SESSION_LIMIT + 1 }, (_, i) => exec(`s${i}`, false, 'system'));
  const refused = decide(many, [], OPEN).begin.filter(({ refusal }) => refusal);
  expect(refused).toEqual([
    { session: many.at(-1), refusal: `the node has ${SESSION_LIMIT} sessions, which is the limit` },
  ]);
  const besides = decide(many.slice(0, 2), [], { ...OPEN, others: SESSION_LIMIT - 1 }).begin;
  expect(besides.map(({ refusal }) => refusal !== undefined)).toEqual([false, true]);
});

test('the last five sessions are for microservices of the system and users on the machine', () => {
  const beside = { ...OPEN, others: SESSION_LIMIT - KEPT_SESSIONS };
  const asked = [exec('a'), logs('b'), exec('c', false, 'system')];
  const refusal = 'the node has 45 sessions, and keeps the last 5 for the system and the machine: end others first';
  expect(decide(asked, [], beside).begin.map((one) => one.refusal)).toEqual([refusal, refusal, undefined]);
  expect(limitRefusal(SESSION_LIMIT - 1, true)).toBeUndefined();
});

test('the paths of sockets name the microservice or the node', () => {
  expect(exec('a').path).toBe('/agent/exec/microservice/m/a');
  expect(logs('b').path).toBe('/agent/logs/node/n/b');
  const view = {
    sessionId: 'c',
    microserviceUuid: 'm',
    iofogUuid: null,
    agentConnected: false,
    status: 'PENDING',
  } as const;
  const former = listedLog({ ...view, tailConfig: { lines: 1, follow: false, previous: true } });
  expect(former.path).toBe('/agent/logs/microservice/m/c?previous=true');
});
