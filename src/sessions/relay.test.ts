import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { createVirtualClock } from '../kube/_util.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { silentLog } from '../lib/log.ts';
import { encodeFrame, FRAME_TYPES as T } from '../wire/frames.ts';
import { SESSION_TIMES } from '../wire/sessions.ts';

import { type Client, type Opened, socketOf } from './_client.ts';
import { createFakeSocket } from './_fake-socket.ts';
import { createMemoryBrokers } from './_memory-broker.ts';
import { admin, exec, execOfAgent, leave, listAt, relayContract, terminal, waits } from './_relay-contract.ts';
import { startStack } from './_stack.ts';
import { createRelay } from './relay.ts';

relayContract();

describe('over a broker in memory', () => {
  relayContract(createMemoryBrokers());
});

/** An agent that is passed on to another replica over a real WebSocket, whose other end is in the hand of the test. */
async function passOn(clock: Clock = systemClock) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  const none = { ...{ clock, log: silentLog }, token: async () => 'replica', authenticate: async () => {} };
  const relay = createRelay({ ...none, sessions: { join: () => undefined } });
  onTestFinished(() => {
    relay[Symbol.dispose]();
    server.close();
  });
  await once(server, 'listening');
  const agent = createFakeSocket();
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  relay.connect(agent, address, { node: 'n', id: 's', kind: 'exec', microservice: undefined });
  const reached = async () => {
    const [ws] = (await once(server, 'connection')) as [WebSocket];
    await expect.poll(() => agent.seen).toContain('resume');
    return ws;
  };
  return { agent, address, reached };
}

test('an agent that takes nothing before the other replica has answered is sent nothing until it takes more', async () => {
  const { agent, address, reached } = await passOn();
  agent.listener.full();
  const ws = await reached();
  const message = encodeFrame({ type: T.STDIN, data: Buffer.from('x') });
  for (let i = 0; i < 10; i++) ws.send(message);
  // What was sent has arrived there by then.
  const later = new WebSocket(`ws://${address}`);
  await once(later, 'open');
  later.terminate();
  expect(agent.seen).toEqual(['pause', 'resume']);
  agent.listener.drained();
  await expect.poll(() => agent.seen).toHaveLength(12);
});

test('an agent that leaves loses nothing that the other replica has not read yet', async () => {
  const clock = createVirtualClock();
  const { agent, reached } = await passOn(clock);
  const ws = await reached();
  ws.pause();
  const data = Buffer.alloc(2 ** 20 - 4_096);
  agent.listener.message(Buffer.from(encodeFrame({ type: T.STDOUT, data })), true);
  agent.listener.closed(1000, '');
  await clock.advance(SESSION_TIMES.close, { timers: 0 });
  await clock.advance(SESSION_TIMES.close, { timers: 0 });
  // As it does while its user reads nothing.
  await new Promise((resolve) => ws.ping('', true, resolve));
  let bytes = 0;
  ws.on('message', (message: Buffer) => {
    bytes += message.length;
  });
  const closed = once(ws, 'close');
  ws.resume();
  expect((await closed)[0]).toBe(1000);
  expect(bytes).toBeGreaterThan(data.length);
});

describe('of several replicas', () => {
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
