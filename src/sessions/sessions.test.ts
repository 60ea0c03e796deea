import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { createVirtualClock } from '../kube/_util.ts';
import { silentLog } from '../lib/log.ts';
import { FRAME_TYPES as T } from '../wire/frames.ts';
import { createFakeSocket } from './_fake-socket.ts';
import { createPlaces } from './places.ts';
import type { SessionTarget } from './rules/session.ts';
import { createSessions, type SessionOutcome } from './sessions.ts';

const EXEC: SessionTarget = { kind: 'exec', node: 'n', microservice: 'm' };

function start() {
  const clock = createVirtualClock();
  const places = createPlaces();
  const leftOut = { lines: 0 };
  const metrics = { lineLeftOut: () => void leftOut.lines++ };
  const sessions = createSessions({ places, metrics, clock, log: silentLog });
  const changes: string[] = [];
  places.subscribe((node) => void changes.push(node));
  const open = (target: SessionTarget = EXEC) => {
    const user = createFakeSocket();
    const outcomes: SessionOutcome[] = [];
    const id = randomUUID();
    sessions.open(id, target, user, (outcome) => void outcomes.push(outcome));
    const join = () => {
      const agent = createFakeSocket();
      const { node, kind, microservice } = target;
      return { agent, refused: sessions.join({ node, id, kind, microservice }, agent)?.refused };
    };
    return { user, outcomes, id, join };
  };
  return { clock, sessions, places, changes, open, leftOut };
}

test('bytes pass between a user and the agent that joined, and the end of either ends both', () => {
  const { sessions, open } = start();
  const { user, join, outcomes } = open();
  const { agent } = join();
  user.frame(T.STDIN, 'ls\n');
  agent.frame(T.STDOUT, 'file');
  expect(agent.seen.at(-1)).toBe('STDIN ls');
  expect(user.seen.at(-1)).toBe('STDOUT file');
  agent.frame(T.CLOSE, 'exited');
  expect(user.seen.slice(-2)).toEqual(['CLOSE exited', 'close 1000']);
  expect(agent.seen.at(-1)).toBe('close 1000');
  expect(outcomes).toEqual([{ code: 1000, reason: 'the agent ended the session', ms: 0 }]);
  expect(sessions.count).toBe(0);
});

test('a text message of a user is a line of input, one of an agent nothing', () => {
  const { open } = start();
  const { user, join } = open();
  const { agent } = join();
  user.listener.message(Buffer.from('ls'), false);
  const before = user.seen.length;
  agent.listener.message(Buffer.from('x'), false);
  expect(agent.seen.at(-1)).toBe('STDIN ls');
  expect(user.seen).toHaveLength(before);
});

test('the node is notified when a session begins, loses its agent and ends, not when the agent joins', () => {
  const { changes, open, places } = start();
  const { user, join } = open();
  expect(changes).toEqual(['n']);
  const { agent } = join();
  expect(changes).toHaveLength(1);
  agent.listener.closed();
  expect(changes).toHaveLength(2);
  user.listener.closed();
  expect(changes).toHaveLength(3);
  expect(places.lists('n')).toEqual({ exec: [], logs: [], digests: {} });
});

test('the place of a session that ends is given back', async () => {
  const { sessions, places } = start();
  const user = createFakeSocket();
  for (let i = 0; i < 5; i++) {
    const place = await places.take(EXEC);
    if ('id' in place) sessions.open(place.id, EXEC, user, () => {});
  }
  expect(await places.take(EXEC)).toHaveProperty('refused');
  user.listener.closed();
  expect(await places.take(EXEC)).toHaveProperty('id');
});

test('an agent joins only a session of its node, of this kind, about this microservice', () => {
  const { sessions, open } = start();
  const { id } = open();
  const right = { node: 'n', id, kind: 'exec', microservice: 'm' } as const;
  const wrongs = [
    { ...right, node: 'other' },
    { ...right, id: 'other' },
    { ...right, kind: 'log' as const },
    { ...right, microservice: 'other' },
    { ...right, microservice: undefined },
  ];
  for (const wrong of wrongs)
    expect(sessions.join(wrong, createFakeSocket())).toEqual({ refused: 'this node has no such session' });
  expect(sessions.join(right, createFakeSocket())).toBeUndefined();
});

test('an agent that connects again before its dead connection was noticed replaces it', () => {
  const { open } = start();
  const { user, join } = open();
  const first = join().agent;
  const second = join().agent;
  expect(first.seen.at(-1)).toBe('close 1000');
  first.frame(T.STDOUT, 'old');
  first.listener.closed();
  second.frame(T.STDOUT, 'new');
  expect(user.seen.filter((one) => one.startsWith('STDOUT'))).toEqual(['STDOUT new']);
});

test('a lost agent that does not return within its time ends the session', async () => {
  const { clock, open } = start();
  const { user, join, outcomes } = open();
  join().agent.listener.closed();
  await clock.advance(59_000);
  expect(outcomes).toEqual([]);
  await clock.advance(1_000);
  expect(outcomes).toEqual([{ code: 1008, reason: 'the connection to the node did not return', ms: 60_000 }]);
  expect(user.seen.at(-1)).toBe('close 1008');
});

test('frames move the end of a session that is not used', async () => {
  const { clock, open } = start();
  const { user, join, outcomes } = open();
  join();
  await clock.advance(7 * 3_600_000);
  user.frame(T.STDIN, 'x');
  await clock.advance(7 * 3_600_000);
  expect(outcomes).toEqual([]);
  await clock.advance(3_600_000);
  expect(outcomes).toMatchObject([{ code: 1008, reason: 'nothing was sent for too long' }]);
});

test('a message that is no frame ends the session, and blames the right side', () => {
  const { open } = start();
  const one = open();
  const { agent } = one.join();
  one.user.listener.message(Buffer.from([0xc1]), true);
  expect(one.user.seen.at(-1)).toBe('close 1002');
  expect(agent.seen.at(-1)).toBe('close 1000');
  const other = open();
  const { agent: broken } = other.join();
  broken.listener.message(Buffer.from([0xc1]), true);
  expect(other.user.seen.slice(-2)).toEqual([
    expect.stringContaining('CLOSE the agent sent a message that is no frame'),
    'close 1008',
  ]);
});

test('a user that reads nothing stops the reading from the agent of a terminal', () => {
  const { open } = start();
  const { user, join } = open();
  const { agent } = join();
  user.listener.full();
  expect(agent.seen.at(-1)).toBe('pause');
  user.listener.drained();
  expect(agent.seen.at(-1)).toBe('resume');
});

test('lines that a user does not read are left out, and counted', () => {
  const { open, leftOut } = start();
  const { user, join } = open({ kind: 'log', node: 'n', tail: { lines: 1, follow: true } });
  const { agent } = join();
  agent.frame(T.LOG_LINE, 'one');
  user.listener.full();
  for (const line of ['two', 'three']) agent.frame(T.LOG_LINE, line);
  user.listener.drained();
  agent.frame(T.LOG_LINE, 'four');
  expect(leftOut.lines).toBe(2);
  expect(user.seen.filter((one) => one.startsWith('LOG_LINE')).slice(-2)).toEqual(['LOG_LINE one', 'LOG_LINE four']);
});

test('a session whose ground is gone ends with 1008 and the reason, the others go on', () => {
  const { sessions, open } = start();
  const [one, other] = [open(), open()];
  const { agent } = one.join();
  sessions.end(one.id, 'the microservice has moved');
  expect(one.user.seen.slice(-2)).toEqual(['CLOSE the microservice has moved', 'close 1008']);
  expect(agent.seen.at(-1)).toBe('close 1000');
  sessions.end(one.id, 'again');
  expect(other.outcomes).toEqual([]);
});

test('a replica that shuts down ends all sessions with 1001 and keeps none', () => {
  const { sessions, open } = start();
  const { user, join } = open();
  const { agent } = join();
  const pending = open();
  sessions.drain();
  expect([user, agent, pending.user].map(({ seen }) => seen.at(-1))).toEqual([
    'close 1001',
    'close 1001',
    'close 1001',
  ]);
  expect(sessions.count).toBe(0);
});
