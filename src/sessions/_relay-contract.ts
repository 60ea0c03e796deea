import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { FRAME_TYPES as T } from '../wire/frames.ts';
import type { Client } from './_client.ts';
import { startStack } from './_stack.ts';
import type { Broker } from './broker.ts';

export type Stack = Awaited<ReturnType<typeof startStack>>;

export const exec = (stack: Stack) => `/microservices/exec/${stack.web}`;
export const execOfAgent = (stack: Stack, id: string) => `/exec/microservice/${stack.web}/${id}`;
const idOf = (frame: { sessionId?: string }) => frame.sessionId ?? '';
export const admin = { authorization: 'Bearer admin' };

/** What one replica tells the agent of its terminals. */
export const listAt = async (stack: Stack, at: number) =>
  (await stack.asAgent('/exec/sessions', at)).body.execSessions as { sessionId: string; agentConnected: boolean }[];

/** A node may send 20 requests a second. */
export const waits = { timeout: 30_000, interval: 100 };

/** For 32 MiB over a broker on a machine that has other things to do. */
const MANY_BYTES = { timeout: 240_000 };

/** Until nothing more leaves a socket. */
async function stalled({ ws }: Client) {
  for (let last = -1; ws.bufferedAmount !== last; await new Promise((resolve) => setTimeout(resolve, 300)))
    last = ws.bufferedAmount;
}

export async function leave(...clients: Client[]) {
  for (const { ws } of clients) ws.close();
  await Promise.all(clients.map(({ closed }) => closed));
}

/** A terminal with its ends at these replicas; the first one leads. */
export async function terminal(stack: Stack, at: { user: number; agent: number }) {
  const user = await stack.user(exec(stack), 'admin', at.user);
  const id = idOf(await user.until('ACTIVATION'));
  await expect.poll(() => listAt(stack, at.agent), waits).toHaveLength(1);
  const agent = await stack.agent(execOfAgent(stack, id), at.agent);
  await agent.until('ACTIVATION');
  await user.until('STDERR Connected.');
  return { user, agent, id };
}

/** A router or a bus that can be switched off and on. */
export interface Brokers {
  makeBroker(): Broker;
  stop(): Promise<void>;
  /** Does nothing when it is on. */
  start(): Promise<void>;
}

/**
 * What users see of sessions is the same wherever their ends are, and whatever is between the replicas. `brief` leaves out
 * what takes seconds: many bytes, and a broker that goes away.
 */
export function relayContract(over?: Brokers, { brief = false } = {}) {
  const PLACES = [
    { name: 'one replica', replicas: 1, user: 0, agent: 0 },
    { name: 'two replicas, the user at the leader', replicas: 2, user: 0, agent: 1 },
    { name: 'two replicas, the agent at the leader', replicas: 2, user: 1, agent: 0 },
  ];
  const long = test.skipIf(brief);
  // Of one replica, no session is passed on.
  describe.each(over ? PLACES.slice(1) : PLACES)('$name', ({ replicas, user: u, agent: a }) => {
    let stack: Stack;
    beforeAll(async () => {
      stack = await startStack({ replicas, makeBroker: over?.makeBroker });
    });
    afterAll(() => stack[Symbol.asyncDispose]());

    test('a held poll ends with the session, and bytes, exit code and end reach the other side', async () => {
      const { due } = (await stack.asAgent('/changes', a)).body;
      const poll = stack.asAgent(`/changes?wait=60&have=${due}`, a);
      const user = await stack.user(`${exec(stack)}?command=cat&tty=false`, 'admin', u);
      const id = idOf(await user.until('ACTIVATION'));
      expect((await poll).body).toMatchObject({ execSessions: true });
      const list = await stack.asAgent('/exec/sessions', a);
      expect(list.body.execSessions).toEqual([
        {
          ...{ sessionId: id, microserviceUuid: stack.web, status: 'PENDING', agentConnected: false },
          ...{ command: ['cat'], tty: false },
        },
      ]);
      expect(String(list.headers.etag)).toMatch(/^"execSessions:[0-9a-f]{16}"$/);

      const agent = await stack.agent(execOfAgent(stack, id), a);
      const activation = String(Buffer.from((await agent.until('ACTIVATION')).data));
      expect(JSON.parse(activation)).toMatchObject({ sessionId: id, execId: id });
      await user.until('STDERR Connected.');
      for (let at = 0; at < replicas; at++)
        await expect
          .poll(() => listAt(stack, at), waits)
          .toMatchObject([{ sessionId: id, status: 'ACTIVE', agentConnected: true }]);
      const all = Uint8Array.from({ length: 256 }, (_, i) => i);
      user.send(T.STDIN, all);
      expect(Buffer.from((await agent.until('STDIN')).data)).toEqual(Buffer.from(all));
      agent.send(T.STDOUT, all);
      expect(Buffer.from((await user.until('STDOUT')).data)).toEqual(Buffer.from(all));
      agent.send(T.CONTROL, '{"exitCode":3}');
      agent.send(T.CLOSE, 'exited with 3');
      expect(await user.closed).toEqual({ code: 1000, reason: 'the agent ended the session' });
      expect(user.seen.slice(-2)).toEqual(['CONTROL {"exitCode":3}', 'CLOSE exited with 3']);
      expect((await agent.closed).code).toBe(1000);
      for (let at = 0; at < replicas; at++) await expect.poll(() => listAt(stack, at), waits).toEqual([]);
      expect((await stack.asAgent('/changes', a)).body.due).toBe(due);
    });

    test('a log passes, and ends when the user leaves', async () => {
      const user = await stack.user(`/node/${stack.nodeUuid}/logs?tail=5`, 'admin', u);
      const id = idOf(await user.until('LOG_START'));
      await expect.poll(async () => (await stack.asAgent('/logs/sessions', a)).body.logSessions, waits).toHaveLength(1);
      const agent = await stack.agent(`/logs/node/${stack.nodeUuid}/${id}`, a);
      await agent.until('LOG_START');
      agent.send(T.LOG_LINE, 'one');
      await user.until('LOG_LINE one');
      user.ws.close();
      expect((await agent.closed).code).toBe(1000);
      expect(agent.seen.at(-1)).toBe('LOG_STOP the user left');
    });

    test('a log of a former run passes, from an agent that knows former runs', async () => {
      const user = await stack.user(`/microservices/${stack.web}/logs?previous=true`, 'admin', u);
      const id = idOf(await user.until('LOG_START'));
      await expect.poll(async () => (await stack.asAgent('/logs/sessions', a)).body.logSessions, waits).toHaveLength(1);
      const agent = await stack.agent(`/logs/microservice/${stack.web}/${id}?previous=true`, a);
      await agent.until('LOG_START');
      await leave(user);
    });

    test('of ten users who race for five places, at all replicas, five get one', async () => {
      const users = await Promise.all(
        Array.from({ length: 10 }, (_, i) => stack.user(`/node/${stack.nodeUuid}/logs`, 'admin', i % replicas)),
      );
      const first = await Promise.all(users.map((user) => Promise.race([user.until('LOG_START'), user.closed])));
      const refused = first.filter((one) => 'code' in one);
      expect(refused).toHaveLength(5);
      expect(refused[0]).toEqual({ code: 1008, reason: 'this node has 5 log sessions, which is the limit' });
      await leave(...users);
      await expect.poll(async () => (await stack.asAgent('/logs/sessions', a)).body.logSessions, waits).toEqual([]);
    });

    test('an agent that is lost connects again, and the terminal continues', async () => {
      const user = await stack.user(exec(stack), 'admin', u);
      const id = idOf(await user.until('ACTIVATION'));
      await expect.poll(() => listAt(stack, a), waits).toHaveLength(1);
      const first = await stack.agent(execOfAgent(stack, id), a);
      await user.until('STDERR Connected.');
      first.ws.terminate();
      await user.until('STDERR \r\nThe connection to the node is lost.');
      user.send(T.STDIN, 'typed meanwhile');
      await expect.poll(() => listAt(stack, a), waits).toMatchObject([{ agentConnected: false }]);
      const second = await stack.agent(execOfAgent(stack, id), a);
      expect(String(Buffer.from((await second.until('ACTIVATION')).data))).toContain('"resumed":true');
      await second.until('STDIN typed meanwhile');
      user.ws.terminate();
      await second.until('CLOSE the user left');
      expect((await second.closed).code).toBe(1000);
      for (let at = 0; at < replicas; at++) await expect.poll(() => listAt(stack, at), waits).toEqual([]);
    });

    long('a user that reads nothing stops the agent, not the memory of a replica', MANY_BYTES, async () => {
      const user = await stack.user(exec(stack), 'admin', u);
      const id = idOf(await user.until('ACTIVATION'));
      await expect.poll(() => listAt(stack, a), waits).toHaveLength(1);
      const agent = await stack.agent(execOfAgent(stack, id), a);
      await user.until('STDERR Connected.');
      user.ws.pause();
      const chunk = Buffer.alloc(32 * 1024, 'x');
      // More than what the sockets of the system hold on the way.
      for (let i = 0; i < 1_024; i++) agent.send(T.STDOUT, chunk);
      await stalled(agent);
      expect(agent.ws.bufferedAmount).toBeGreaterThan(8 * 2 ** 20);
      user.ws.resume();
      agent.send(T.CLOSE, 'done');
      await user.closed;
      const bytes = user.frames.filter(({ type }) => type === T.STDOUT).reduce((sum, { data }) => sum + data.length, 0);
      expect(bytes).toBe(32 * 2 ** 20);
    });

    long('an agent that reads nothing stops the user, not the memory of a replica', MANY_BYTES, async () => {
      const user = await stack.user(exec(stack), 'admin', u);
      const id = idOf(await user.until('ACTIVATION'));
      await expect.poll(() => listAt(stack, a), waits).toHaveLength(1);
      const agent = await stack.agent(execOfAgent(stack, id), a);
      await user.until('STDERR Connected.');
      agent.ws.pause();
      const chunk = Buffer.alloc(32 * 1024, 'x');
      for (let i = 0; i < 1_024; i++) user.send(T.STDIN, chunk);
      await stalled(user);
      expect(user.ws.bufferedAmount).toBeGreaterThan(8 * 2 ** 20);
      agent.ws.resume();
      user.send(T.CONTROL, 'close');
      await agent.until('CONTROL close', MANY_BYTES.timeout);
      const bytes = agent.frames.filter(({ type }) => type === T.STDIN).reduce((sum, { data }) => sum + data.length, 0);
      expect(bytes).toBe(32 * 2 ** 20);
      await leave(user);
    });
  });
  if (over && !brief) brokerContract(over);
}

/** Until the end of the test at the latest, also when that fails. */
async function off(over: Brokers) {
  onTestFinished(() => over.start());
  await over.stop();
}

function brokerContract(over: Brokers) {
  describe('the broker goes away', () => {
    test('for a moment: the terminal continues on the same sockets, and what is written then arrives in order', async () => {
      await using stack = await startStack({ replicas: 2, makeBroker: over.makeBroker });
      const { user, agent } = await terminal(stack, { user: 0, agent: 1 });
      await off(over);
      await user.until('STDERR \r\nThe connection to the node is lost.');
      user.send(T.STDIN, 'typed meanwhile');
      await over.start();
      await user.until('STDERR Connected again.');
      await agent.until('STDIN typed meanwhile');
      const again = agent.frames.filter(({ type }) => type === T.ACTIVATION)[1];
      expect(String(Buffer.from(again?.data ?? []))).toContain('"resumed":true');
      agent.send(T.STDOUT, 'one');
      agent.send(T.STDOUT, 'two');
      await user.until('STDOUT two');
      expect(user.seen.filter((one) => one.startsWith('STDOUT'))).toEqual(['STDOUT one', 'STDOUT two']);
    });

    test('for longer: the agent is sent away with 1013, a new terminal ends with 1013, and later both go on', async () => {
      await using stack = await startStack({ replicas: 2, makeBroker: over.makeBroker });
      const { user, agent, id } = await terminal(stack, { user: 0, agent: 1 });
      await off(over);
      expect((await stack.skipUntil(agent.closed)).code).toBe(1013);
      const other = await stack.user(exec(stack), 'admin', 0);
      expect((await stack.skipUntil(other.closed)).code).toBe(1013);
      // An agent that connects to the replica of its user needs nothing between replicas.
      const here = await stack.agent(execOfAgent(stack, id), 0);
      await user.until('STDERR Connected again.');
      agent.ws.terminate();
      here.ws.terminate();
      await over.start();
      await expect
        .poll(async () => {
          const there = await stack.agent(execOfAgent(stack, id), 1);
          return Promise.race([there.until('ACTIVATION').then(() => 0), there.closed.then(({ code }) => code)]);
        }, waits)
        .toBe(0);
      await leave(user);
    });

    test('one replica needs none: a terminal goes on', async () => {
      await off(over);
      await using stack = await startStack({ makeBroker: over.makeBroker });
      const { user, agent } = await terminal(stack, { user: 0, agent: 0 });
      agent.send(T.STDOUT, 'hello');
      await user.until('STDOUT hello');
      await leave(user);
    });

    test('sessions go over the internal channel where that is allowed', async () => {
      await off(over);
      await using stack = await startStack({ replicas: 2, makeBroker: over.makeBroker, isDirectToo: true });
      const user = await stack.user(`/node/${stack.nodeUuid}/logs`, 'admin', 0);
      const id = idOf(await user.until('LOG_START'));
      await expect.poll(async () => (await stack.asAgent('/logs/sessions', 1)).body.logSessions, waits).toHaveLength(1);
      const agent = await stack.agent(`/logs/node/${stack.nodeUuid}/${id}`, 1);
      await stack.skipUntil(agent.until('LOG_START'));
      agent.send(T.LOG_LINE, 'hello');
      await user.until('LOG_LINE hello');
    });
  });

  describe('over a broker', () => {
    test('a message of nearly 1 MiB arrives whole, and so does everything after it', async () => {
      await using stack = await startStack({ replicas: 2, makeBroker: over.makeBroker });
      const { user, agent } = await terminal(stack, { user: 1, agent: 0 });
      const long = Buffer.alloc(2 ** 20 - 4_096, 'y');
      user.send(T.STDIN, long);
      user.send(T.STDIN, 'after');
      await agent.until('STDIN after');
      expect(agent.frames.find(({ type }) => type === T.STDIN)?.data).toHaveLength(long.length);
      await leave(user);
    });

    test('the agent connects at another replica while its former connection is not known to be dead', async () => {
      await using stack = await startStack({ replicas: 3, makeBroker: over.makeBroker });
      const { user, agent, id } = await terminal(stack, { user: 0, agent: 1 });
      const again = await stack.agent(execOfAgent(stack, id), 2);
      expect((await agent.closed).code).toBe(1000);
      await again.until('ACTIVATION');
      for (let i = 0; i < 50; i++) user.send(T.STDIN, String(i));
      await again.until('STDIN 49');
      const typed = again.frames.filter(({ type }) => type === T.STDIN).map(({ data }) => Number(Buffer.from(data)));
      expect(typed).toEqual(Array.from({ length: 50 }, (_, i) => i));
      await leave(user);
    });

    test('the replica of the agent is killed: its session finds out, and the agent connects at another', async () => {
      await using stack = await startStack({ replicas: 3, makeBroker: over.makeBroker });
      const { user, id } = await terminal(stack, { user: 0, agent: 1 });
      stack.replicas[1]?.kill();
      await stack.skipUntil(user.until('STDERR \r\nThe connection to the node is lost.'));
      const agent = await stack.agent(execOfAgent(stack, id), 2);
      agent.send(T.STDOUT, 'still here');
      await user.until('STDOUT still here');
      await leave(user);
    });

    test('the replica of the user is killed: the agent is sent away with 1013', async () => {
      await using stack = await startStack({ replicas: 2, makeBroker: over.makeBroker });
      const { agent } = await terminal(stack, { user: 1, agent: 0 });
      stack.replicas[1]?.kill();
      expect((await stack.skipUntil(agent.closed)).code).toBe(1013);
    });
  });
}
