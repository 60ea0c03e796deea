import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FRAME_TYPES as T } from '../wire/frames.ts';
import { type Client, type Opened, socketOf } from './_client.ts';
import { startStack } from './_stack.ts';

type Stack = Awaited<ReturnType<typeof startStack>>;

const exec = (stack: Stack) => `/microservices/exec/${stack.web}`;
const execOfAgent = (stack: Stack, id: string) => `/exec/microservice/${stack.web}/${id}`;
const idOf = (frame: { sessionId?: string }) => frame.sessionId ?? '';
const admin = { authorization: 'Bearer admin' };

/** What one replica tells the agent of its terminals. */
const listAt = async (stack: Stack, at: number) =>
  (await stack.asAgent('/exec/sessions', at)).body.execSessions as { sessionId: string; agentConnected: boolean }[];

/** A node may send 20 requests a second. */
const waits = { timeout: 30_000, interval: 100 };

/** Until nothing more leaves a socket. */
async function stalled({ ws }: Client) {
  for (let last = -1; ws.bufferedAmount !== last; await new Promise((resolve) => setTimeout(resolve, 300)))
    last = ws.bufferedAmount;
}

async function leave(...clients: Client[]) {
  for (const { ws } of clients) ws.close();
  await Promise.all(clients.map(({ closed }) => closed));
}

/** The sessions are the same wherever their ends are. */
describe.each([
  { name: 'one replica', replicas: 1, user: 0, agent: 0 },
  { name: 'two replicas, the user at the leader', replicas: 2, user: 0, agent: 1 },
  { name: 'two replicas, the agent at the leader', replicas: 2, user: 1, agent: 0 },
])('$name', ({ replicas, user: u, agent: a }) => {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack({ replicas });
  });
  afterAll(() => stack[Symbol.asyncDispose]());

  test('a held poll ends with the session, and bytes, exit code and end reach the other side', async () => {
    const { due } = (await stack.asAgent('/changes', a)).body;
    const poll = stack.asAgent(`/changes?wait=60&have=${due}`, a);
    const user = await stack.user(`${exec(stack)}?command=cat&tty=false`, 'admin', u);
    const id = idOf(await user.until('ACTIVATION'));
    expect((await poll).body).toMatchObject({ execSessions: true });
    expect(await listAt(stack, a)).toMatchObject([{ sessionId: id, status: 'PENDING', agentConnected: false }]);

    const agent = await stack.agent(execOfAgent(stack, id), a);
    await agent.until('ACTIVATION');
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
    await leave(user, second);
  });

  test('a user that reads nothing stops the agent, not the memory of a replica', async () => {
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

  test('an agent that reads nothing stops the user, not the memory of a replica', async () => {
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
    await agent.until('CONTROL close');
    const bytes = agent.frames.filter(({ type }) => type === T.STDIN).reduce((sum, { data }) => sum + data.length, 0);
    expect(bytes).toBe(32 * 2 ** 20);
    await leave(user);
  });
});

describe('of several replicas', () => {
  /** A terminal with its ends at these replicas; the first one leads. */
  async function terminal(stack: Stack, at: { user: number; agent: number }) {
    const user = await stack.user(exec(stack), 'admin', at.user);
    const id = idOf(await user.until('ACTIVATION'));
    await expect.poll(() => listAt(stack, at.agent), waits).toHaveLength(1);
    const agent = await stack.agent(execOfAgent(stack, id), at.agent);
    await user.until('STDERR Connected.');
    return { user, agent, id };
  }

  test('the one of the user is killed: the agent is sent away with 1013, and the session is in no list', async () => {
    await using stack = await startStack({ replicas: 2 });
    const { user, agent, id } = await terminal(stack, { user: 1, agent: 0 });
    stack.replicas[1]?.kill();
    expect((await agent.closed).code).toBe(1013);
    expect((await user.closed).code).toBe(1006);
    const again = await stack.agent(execOfAgent(stack, id), 0);
    expect([1013, 1008]).toContain((await again.closed).code);
    await expect.poll(() => listAt(stack, 0), waits).toEqual([]);
    expect(await (await stack.agent(execOfAgent(stack, id), 0)).closed).toMatchObject({ code: 1008 });
  });

  test('the one of the agent is killed: the agent connects at another, and the terminal continues', async () => {
    await using stack = await startStack({ replicas: 3 });
    const { user, id } = await terminal(stack, { user: 0, agent: 1 });
    stack.replicas[1]?.kill();
    await user.until('STDERR \r\nThe connection to the node is lost.');
    await expect.poll(() => listAt(stack, 2), waits).toMatchObject([{ agentConnected: false }]);
    const agent = await stack.agent(execOfAgent(stack, id), 2);
    expect(String(Buffer.from((await agent.until('ACTIVATION')).data))).toContain('"resumed":true');
    agent.send(T.STDOUT, 'still here');
    await user.until('STDOUT still here');
  });

  test('one that shuts down closes the sockets of its users and agents with 1001, and the other end goes on', async () => {
    await using stack = await startStack({ replicas: 2 });
    const here = await terminal(stack, { user: 0, agent: 1 });
    stack.replicas[1]?.upgrades.drain();
    expect((await here.agent.closed).code).toBe(1001);
    await here.user.until('STDERR \r\nThe connection to the node is lost.');
    const agent = await stack.agent(execOfAgent(stack, here.id), 0);
    await here.user.until('STDERR Connected again.');
    stack.replicas[0]?.upgrades.drain();
    expect((await here.user.closed).code).toBe(1001);
    expect((await agent.closed).code).toBe(1001);
  });

  test('none leads: a session goes on, a further one gets 503 with Retry-After until one leads again', async () => {
    await using stack = await startStack({ replicas: 2 });
    const { user, agent } = await terminal(stack, { user: 1, agent: 0 });
    const others = await Promise.all(Array.from({ length: 4 }, () => stack.user(exec(stack))));
    await Promise.all(others.map((one) => one.until('ACTIVATION')));
    stack.lead(undefined);
    const refused = (await stack.connect(exec(stack), admin, 1)) as Exclude<Opened, Client>;
    expect(refused).toMatchObject({ status: 503, body: { code: 'CONTROLLER_NOT_READY' } });
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    user.send(T.STDIN, 'ls');
    await agent.until('STDIN ls');

    // The next leader counts what began before, at either replica.
    stack.lead(stack.replicas[1]);
    const opened = async () => {
      for (;;) {
        const one = await stack.connect(exec(stack), admin, 0);
        if ('ws' in one) return one;
        expect(one).toMatchObject({ status: 503 });
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    };
    expect(await (await opened()).closed).toMatchObject({ code: 1008 });
    await leave(others[0] as Client);
    // The place is free once the leader has heard of it.
    const free = async () => {
      const one = socketOf(await stack.connect(exec(stack), admin, 0));
      return Promise.race([one.until('ACTIVATION').then(() => 0), one.closed.then(({ code }) => code)]);
    };
    await expect.poll(free, { ...waits, interval: 250 }).toBe(0);
    expect(agent.ws.readyState).toBe(agent.ws.OPEN);
  });

  test('one that has just started, without a leader, gives agents no lists instead of empty ones', async () => {
    await using stack = await startStack({ replicas: 2 });
    expect((await stack.asAgent('/exec/sessions')).body).toEqual({ execSessions: [] });
    await using alone = await startStack({ replicas: 2, isLed: false });
    expect(await alone.asAgent('/exec/sessions')).toMatchObject({ status: 503 });
  });

  test('the leader knows that there is no such session, another replica sends the agent away with 1013', async () => {
    await using stack = await startStack({ replicas: 2 });
    const codeAt = async (at: number) => (await (await stack.agent(execOfAgent(stack, 'x'), at)).closed).code;
    expect([await codeAt(0), await codeAt(1)]).toEqual([1008, 1013]);
  });

  test('only a replica may pass an agent on', async () => {
    await using stack = await startStack({ replicas: 2 });
    const { id } = await terminal(stack, { user: 0, agent: 1 });
    const query = `kind=exec&id=${id}&node=${stack.nodeUuid}&microservice=${stack.web}`;
    const at = (headers: Record<string, string>, path = `/internal/sessions/relay?${query}`) =>
      stack.open(`ws://${stack.address}${path}`, headers);
    expect(await at({})).toMatchObject({ status: 401 });
    expect(await at(admin)).toMatchObject({ status: 401 });
    expect(await at({ authorization: 'Bearer replica' }, '/internal/x')).toMatchObject({ status: 404 });
  });
});
