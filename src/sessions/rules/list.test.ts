import { expect, test } from 'vitest';
import { sessionLists } from './list.ts';
import { beginSession, type SessionEvent, type SessionTarget, step } from './session.ts';

const EXEC: SessionTarget = { kind: 'exec', node: 'n', microservice: 'm', command: ['id'], tty: false };
const NOW = { ms: 0, unixMs: 0 };
const tail = { lines: 100, follow: true };
const after = (id: string, target: SessionTarget, ...events: SessionEvent[]) =>
  events.reduce((session, event) => step(session, event, NOW).session, beginSession(id, target, NOW).session);
const LEFT: SessionEvent = { type: 'left', end: 'agent' };

test('an agent gets what it needs to connect to each session', () => {
  const lists = sessionLists([
    after('a', EXEC),
    after('b', { kind: 'exec', node: 'n', microservice: 'm' }, { type: 'joined' }),
    after('c', { kind: 'log', node: 'n', microservice: 'm', tail }, { type: 'joined' }, LEFT),
    after('d', { kind: 'log', node: 'n', tail }),
    after('e', EXEC, { type: 'left', end: 'user' }),
  ]);
  expect(lists.exec).toEqual([
    { sessionId: 'a', status: 'PENDING', agentConnected: false, microserviceUuid: 'm', command: ['id'], tty: false },
    { sessionId: 'b', status: 'ACTIVE', agentConnected: true, microserviceUuid: 'm' },
  ]);
  expect(lists.logs).toEqual([
    {
      sessionId: 'c',
      status: 'ACTIVE',
      agentConnected: false,
      microserviceUuid: 'm',
      iofogUuid: null,
      tailConfig: tail,
    },
    {
      sessionId: 'd',
      status: 'PENDING',
      agentConnected: false,
      microserviceUuid: null,
      iofogUuid: 'n',
      tailConfig: tail,
    },
  ]);
  expect(Object.keys(lists.digests).sort()).toEqual(['execSessions', 'fogLogs', 'microserviceLogs']);
});

test('a section changes when the agent is to connect, and not because it did', () => {
  const digest = (...events: SessionEvent[]) => sessionLists([after('a', EXEC, ...events)]).digests.execSessions;
  expect(digest({ type: 'joined' })).toBe(digest());
  expect(digest({ type: 'joined' }, LEFT)).not.toBe(digest());
  expect(digest({ type: 'left', end: 'user' })).toBeUndefined();
});

test('the order of sessions does not change a section', () => {
  const [a, b] = [after('a', EXEC), after('b', EXEC)];
  expect(sessionLists([a, b]).digests).toEqual(sessionLists([b, a]).digests);
});
