import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { HEADERS } from '../api/names.ts';
import { createVirtualClock } from '../kube/_util.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { FRAME_LIMITS, type FrameType, FRAME_TYPES as T } from '../wire/frames.ts';
import { SESSION_TIMES } from '../wire/sessions.ts';
import { type Client, socketOf } from './_client.ts';
import { startStack } from './_stack.ts';

let stack: Awaited<ReturnType<typeof startStack>>;
beforeAll(async () => {
  stack = await startStack();
  return () => stack[Symbol.asyncDispose]();
});

const exec = () => `/microservices/exec/${stack.web}`;
const execOfAgent = (id: string) => `/exec/microservice/${stack.web}/${id}`;
const asUser = (i: number) => ({ authorization: `Bearer admin-${i}` });
const idOf = (frame: { sessionId?: string }) => frame.sessionId ?? '';

/** A socket whose client reads nothing, once it is open. */
async function openSilent(url: string, path: string, headers: Record<string, string>): Promise<Socket> {
  const { hostname, port, pathname } = new URL(url);
  const socket = connect(Number(port), hostname).on('error', () => {});
  onTestFinished(() => void socket.destroy());
  const lines = [
    `GET ${pathname}${path} HTTP/1.1`,
    ...[`Host: ${hostname}`, 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
    ...['Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', ...Object.entries(headers).map((one) => one.join(': '))],
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  const [answer] = await once(socket, 'data');
  expect(String(answer)).toMatch(/^HTTP\/1\.1 101 /);
  socket.pause();
  return socket;
}

const connections = ({ rest }: typeof stack) =>
  new Promise<number>((resolve) => rest.http.getConnections((_, count) => resolve(count)));

test('audit log and events have who opened what, and how it ended, and nothing that was typed', async () => {
  stack.events.length = 0;
  stack.recorded.length = 0;
  const user = await stack.user(exec(), 'developer');
  await user.until('ACTIVATION');
  user.send(T.STDIN, 'very-private');
  user.send(T.CLOSE);
  await user.closed;
  expect(stack.events).toMatchObject([
    {
      eventType: 'WS_CONNECT',
      actorId: 'developer',
      resourceType: 'microservices/exec',
      resourceId: stack.web,
      statusCode: 101,
    },
    {
      eventType: 'WS_DISCONNECT',
      actorId: 'developer',
      endpointPath: exec(),
      statusCode: 1000,
      statusMessage: expect.stringMatching(
        /^the agent had not connected, and the user ended the session, after \d+ s$/,
      ),
    },
  ]);
  expect(stack.recorded).toEqual([
    'Application/shop SessionBegan developer opened a terminal in microservice web on node edge-1',
    expect.stringMatching(
      /^Application\/shop SessionEnded developer had a terminal in microservice web on node edge-1, which ended after \d+ s: the agent had not connected, and the user ended the session$/,
    ),
  ]);
  expect(JSON.stringify([stack.events, stack.recorded, stack.logged])).not.toContain('very-private');
});

test('the socket of an agent closes when the key of its node is replaced, and the session waits for the agent with the new key', async () => {
  await using other = await startStack();
  const user = await other.user(`/microservices/exec/${other.web}`, 'developer');
  const id = idOf(await user.until('ACTIVATION'));
  const thief = await other.agent(`/exec/microservice/${other.web}/${id}`);
  const { secrets } = other.replicas[0]?.replica.stores ?? {};
  const secret = secrets?.list()[0];
  if (!secret) throw new Error('the node has no key');
  secrets?.remove(secret);
  expect(await thief.closed).toEqual({ code: 1008, reason: 'the key of the node was deleted or replaced' });
  await expect.poll(() => other.replicas[0]?.sessions.hasAgent(id)).toBe(false);
  user.ws.close();
});

test('the log of a node is an event of the node', async () => {
  stack.recorded.length = 0;
  const user = await stack.user(`/node/${stack.nodeUuid}/logs`);
  await user.until('LOG_START');
  user.ws.close();
  await user.closed;
  await expect.poll(() => stack.recorded).toHaveLength(2);
  expect(stack.recorded[0]).toBe('EdgeNode/edge-1 SessionBegan admin opened the log of node edge-1');
});

test('the audit log has the 403 of a user who is known, and no caller without an identity', async () => {
  stack.events.length = 0;
  expect(await stack.connect(exec(), { authorization: 'Bearer viewer' })).toMatchObject({ status: 403 });
  expect(await stack.connect(exec(), { authorization: 'Bearer a-stranger' })).toMatchObject({ status: 401 });
  expect(stack.events).toMatchObject([
    { eventType: 'WS_CONNECT', actorId: 'viewer', status: 'FAILED', statusCode: 403, statusMessage: 'FORBIDDEN' },
  ]);
});

test('metrics have what began, ended, was refused and passed', async () => {
  stack.measured.length = 0;
  const user = await stack.user(exec());
  await user.until('ACTIVATION');
  user.send(T.CLOSE, 'four');
  await user.closed;
  await stack.connect(exec(), { authorization: 'Bearer viewer' });
  const stranger = await stack.agent(`/exec/microservice/${stack.web}/none`);
  await stranger.closed;
  expect(stack.measured).toEqual([
    'sessionBegan exec',
    expect.stringMatching(/^sessionMessage exec user \d+$/),
    'sessionEnded exec 1000',
    'socketRefused user 403',
    'socketRefused agent 1008',
  ]);
});

test('the token may be in the query, and then no log and no event has it', async () => {
  const user = socketOf(await stack.connect(`${exec()}?token=sre`, {}));
  await user.until('ACTIVATION');
  user.ws.close();
  await user.closed;
  const refused = await stack.connect(`${exec()}?token=a-secret-token`, {});
  expect(refused).toMatchObject({ status: 401 });
  expect(JSON.stringify(stack.events) + stack.logged.join()).not.toMatch(/token=|a-secret-token/);
});

describe('before the upgrade, the permission decides', () => {
  const allowed: Record<string, string[]> = {
    '/microservices/exec/{web}': ['admin', 'sre', 'developer'],
    '/microservices/system/exec/{router}': ['admin', 'sre'],
    '/microservices/{web}/logs': ['admin', 'sre', 'developer'],
    '/microservices/system/{router}/logs': ['admin', 'sre', 'developer'],
    '/node/{node}/logs': ['admin', 'sre', 'developer'],
    '/iofog/{node}/logs': ['admin', 'sre', 'developer'],
  };
  test.each(Object.entries(allowed))('%s is for %j', async (pattern, roles) => {
    const path = pattern
      .replace('{web}', stack.web)
      .replace('{router}', stack.router)
      .replace('{node}', stack.nodeUuid);
    for (const role of ['admin', 'sre', 'developer', 'viewer']) {
      const opened = await stack.connect(path, { authorization: `Bearer ${role}`, 'x-address': pattern });
      if (!roles.includes(role)) expect(opened).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } });
      else {
        const client = socketOf(opened);
        await client.until(path.includes('exec') ? 'ACTIVATION' : 'LOG_START');
        client.ws.close();
        await client.closed;
      }
    }
    expect(await stack.connect(path, { 'x-address': pattern })).toMatchObject({ status: 401 });
  });
});

test('a path without a socket gets 404, and a malformed handshake 400', async () => {
  for (const path of ['/microservices', '/microservices/exec', '/agent/exec/microservice/x', `${exec()}/more`, '/x'])
    expect(await stack.connect(path, { authorization: 'Bearer admin' })).toMatchObject({
      status: 404,
      body: { code: 'ROUTE_NOT_FOUND' },
    });
  const lines = [
    `GET /api/v3${exec()} HTTP/1.1`,
    'Host: x',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Authorization: Bearer admin',
  ];
  const { port } = new URL(stack.url);
  const response = await new Promise<string>((resolve) => {
    const socket = connect(Number(port), '127.0.0.1', () => socket.write(`${lines.join('\r\n')}\r\n\r\n`));
    let text = '';
    socket.on('data', (chunk) => (text += chunk));
    socket.on('close', () => resolve(text));
  });
  expect(response).toMatch(/^HTTP\/1\.1 400 /);
});

describe('after the upgrade, a close code says what is wrong', () => {
  const unknown = '99999999-9999-4999-8999-999999999999';
  test.each<[string, () => string, RegExp]>([
    ['an unknown microservice', () => `/microservices/exec/${unknown}`, /^there is no microservice with the uuid 9999/],
    ['an unknown node', () => `/node/${unknown}/logs`, /^there is no node with the uuid 9999/],
    [
      'a system microservice on the path of users',
      () => `/microservices/exec/${stack.router}`,
      /^there is no microservice/,
    ],
    [
      'a microservice of users on the path of the system',
      () => `/microservices/system/${stack.web}/logs`,
      /^there is no microservice/,
    ],
    ['a wrong tail', () => `/microservices/${stack.web}/logs?tail=0`, /^tail: "0"; must be a number from 1 to 5000/],
    ['a wrong tty', () => `${exec()}?tty=x`, /^tty: "x"/],
  ])('%s', async (_, path, reason) => {
    const user = await stack.user(path());
    const closed = await user.closed;
    expect(closed.code).toBe(1008);
    expect(closed.reason).toMatch(reason);
    expect(user.seen).toEqual([expect.stringMatching(/^(CLOSE|LOG_ERROR) /)]);
  });

  test('a microservice that does not run, with its state, and a node that is away', async () => {
    await using other = await startStack();
    const { node, web } = other;
    const show = (change: object) =>
      other.replica.stores.nodes.set({
        ...node,
        metadata: { ...node.metadata, resourceVersion: String(1_000_000 + other.events.length) },
        status: { ...node.status, ...change },
      } as typeof node);
    const refusal = async () => (await (await other.user(`/microservices/exec/${web}`)).closed).reason;
    show({ microservices: [{ uuid: web, state: 'PULLING', application: 'shop', name: 'web' }] });
    expect(await refusal()).toBe('microservice web does not run on node edge-1: its state is PULLING');
    show({ daemonStatus: 'UNKNOWN', lastSeenTime: '2026-01-01T00:00:00.000Z' });
    expect(await refusal()).toBe('node edge-1 is not connected: its status is UNKNOWN');
  });
});

test('an agent that does not know former runs is not asked for one, and the user gets its version', async () => {
  const id = async () => {
    const user = await stack.user(`/microservices/${stack.web}/logs?previous=true`);
    return { user, id: idOf(await user.until('LOG_START')) };
  };
  const connect = async (path: string) => {
    const headers = { authorization: `Bearer ${stack.token()}`, [HEADERS.agent]: '0.1.0' };
    return socketOf(await stack.connect(`/agent${path}`, headers));
  };
  const old = await id();
  const agent = await connect(`/logs/microservice/${stack.web}/${old.id}`);
  const reason =
    'previous: the agent of the node does not know former runs: its version is 0.1.0; update it, or leave previous out';
  expect((await agent.closed).code).toBe(1008);
  expect(agent.seen).toEqual([]);
  expect((await old.user.closed).code).toBe(1008);
  expect(old.user.seen.at(-1)).toBe(`LOG_ERROR ${reason}`);
  const present = await id();
  const knowing = await connect(`/logs/microservice/${stack.web}/${present.id}?previous=true`);
  const start = { sessionId: present.id, tailConfig: { lines: 100, follow: false, previous: true } };
  await knowing.until(`LOG_START ${JSON.stringify(start)}`);
  knowing.ws.close();
  present.user.ws.close();
});

test('a session ends with 1008 when its application is deleted', async () => {
  await using other = await startStack();
  const user = await other.user(`/microservices/exec/${other.web}`);
  const agent = await other.agent(`/exec/microservice/${other.web}/${idOf(await user.until('ACTIVATION'))}`);
  await user.until('STDERR Connected.');
  other.replica.stores.applications.swap([], '1000000000');
  expect(await user.closed).toEqual({
    code: 1008,
    reason: 'shop/web was deleted',
  });
  expect((await agent.closed).code).toBe(1000);
});

describe('an agent', () => {
  test('without a token of a node gets 401 before the upgrade', async () => {
    expect(await stack.connect(`/agent${execOfAgent('x')}`, { authorization: 'Bearer admin' })).toMatchObject({
      status: 401,
    });
    const used = { authorization: `Bearer ${stack.token()}` };
    socketOf(await stack.connect(`/agent${execOfAgent('x')}`, used)).ws.close();
    expect(await stack.connect(`/agent${execOfAgent('x')}`, used)).toMatchObject({
      status: 401,
      body: { code: 'AGENT_JWT_ALREADY_USED' },
    });
  });

  test('without such a session, or of another node, gets 1008', async () => {
    expect(await (await stack.agent(execOfAgent('x'))).closed).toEqual({
      code: 1008,
      reason: 'this node has no such session',
    });
    const other = await stack.agent('/logs/node/99999999-9999-4999-8999-999999999999/x');
    expect(await other.closed).toEqual({ code: 1008, reason: 'the path names another node than the token' });
  });

  test.each<[string, () => string, (id: string) => string]>([
    ['a node', () => `/node/${stack.nodeUuid}/logs`, (id) => `/logs/node/${stack.nodeUuid}/${id}`],
    ['a node, at its older path', () => `/iofog/${stack.nodeUuid}/logs`, (id) => `/logs/iofog/${stack.nodeUuid}/${id}`],
    ['a microservice', () => `/microservices/${stack.web}/logs`, (id) => `/logs/microservice/${stack.web}/${id}`],
  ])('that sends logs of %s gets LOG_START first', async (_, ofUser, ofAgent) => {
    const user = await stack.user(`${ofUser()}?tail=5&follow=false`);
    const id = idOf(await user.until('LOG_START'));
    const agent = await stack.agent(ofAgent(id));
    expect(String(Buffer.from((await agent.until('LOG_START')).data))).toBe(
      `{"sessionId":"${id}","tailConfig":{"lines":5,"follow":false}}`,
    );
    agent.send(T.LOG_LINE, 'one');
    agent.send(T.LOG_STOP);
    expect((await user.closed).code).toBe(1000);
    expect(user.seen.slice(-2)).toEqual(['LOG_LINE one', 'LOG_STOP']);
  });
});

test('a message of 1 MiB and one byte ends the session with 1009, also one in endless pieces', async () => {
  const [whole, pieces] = await Promise.all([stack.user(exec()), stack.user(exec())]);
  await Promise.all([whole, pieces].map((user) => user.until('ACTIVATION')));
  whole.ws.send(Buffer.alloc(FRAME_LIMITS.bytes + 1));
  for (let i = 0; i < 17; i++) pieces.ws.send(Buffer.alloc(64 * 1024), { fin: false });
  const left = () => stack.places.lists(stack.nodeUuid).exec.length;
  while (left() > 0) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(await Promise.all([whole.closed, pieces.closed])).toMatchObject([{ code: 1009 }, { code: 1009 }]);
});

test('a message that is no frame ends the session with 1002', async () => {
  const user = await stack.user(exec());
  await user.until('ACTIVATION');
  user.ws.send(Buffer.from([0x91, 1]));
  const closed = await user.closed;
  expect(closed.code).toBe(1002);
  expect(closed.reason).toMatch(/^the user sent a message that is no frame/);
});

test('frames of unknown types pass by, and no MessagePack fills the memory: it ends its session alone', async () => {
  const [user, ...hostile] = await Promise.all(
    [exec(), exec(), exec(), exec(), exec()].map((path) => stack.user(path)),
  );
  const agents = await Promise.all(
    [user, ...hostile].map(async (one) => stack.agent(execOfAgent(idOf(await (one as Client).until('ACTIVATION'))))),
  );
  await Promise.all([user, ...hostile].map((one) => one?.until('STDERR Connected.')));
  for (const one of [user as Client, agents[0] as Client]) one.send(99 as FrameType, 'x');
  const bombs = [
    // maps in the places of names, a map of 2^32 - 1 members, a text and bytes of 4 GiB
    Buffer.concat([Buffer.alloc(2 ** 20 - 1, 0x81), Buffer.from([0xc0])]),
    Buffer.from([0xdf, 0xff, 0xff, 0xff, 0xff]),
    Buffer.from([0x81, 0xdb, 0xff, 0xff, 0xff, 0xff]),
    Buffer.from([0x81, 0xa4, ...Buffer.from('data'), 0xc6, 0xff, 0xff, 0xff, 0xff]),
  ];
  const before = process.memoryUsage().rss;
  for (const [i, bomb] of bombs.entries()) (i % 2 === 0 ? hostile : agents.slice(1))[i]?.ws.send(bomb);
  expect((await Promise.all(hostile.map(({ closed }) => closed))).map(({ code }) => code)).toEqual([
    1002, 1008, 1002, 1008,
  ]);
  expect(process.memoryUsage().rss - before).toBeLessThan(256 * 2 ** 20);
  user?.send(T.STDIN, 'still here');
  await agents[0]?.until('STDIN still here');
  expect(user?.seen.filter((one) => !/^(ACTIVATION|STDERR)/.test(one))).toEqual([]);
  expect(agents[0]?.seen.filter((one) => !/^(ACTIVATION|STDIN)/.test(one))).toEqual([]);
  user?.ws.close();
  await user?.closed;
});

describe('who is gone without a word, and answers no ping, is given up at the second one', () => {
  const connected = async (gone: 'user' | 'agent') => {
    const clock = createVirtualClock();
    const stack = await startStack({ clock });
    onTestFinished(() => stack[Symbol.asyncDispose]());
    const user = await stack.user(`/microservices/exec/${stack.web}`, 'admin', 0, gone !== 'user');
    const path = `/exec/microservice/${stack.web}/${idOf(await user.until('ACTIVATION'))}`;
    const agent = await stack.agent(path, 0, gone !== 'agent');
    await user.until('STDERR Connected.');
    // Pings of either side have arrived before the next one is due.
    const ping = async () => {
      const pings = [user, agent].map(({ ws }) => once(ws, 'ping'));
      await clock.advance(SESSION_TIMES.ping, { timers: 2 });
      await Promise.all(pings);
    };
    await ping();
    return { stack, user, agent, path, clock };
  };

  test('an agent: its terminal waits for it', async () => {
    const { stack, user, path, clock } = await connected('agent');
    await expect.poll(() => stack.sessions.count).toBe(1);
    await clock.advance(SESSION_TIMES.ping, { timers: 2 });
    await user.until('STDERR \r\nThe connection to the node is lost.');
    const agent = await stack.agent(path);
    await agent.until('ACTIVATION');
    await user.until('STDERR Connected again.');
  });

  test('a user: the terminal ends, and its place is free', async () => {
    const { stack, agent, clock } = await connected('user');
    await clock.advance(SESSION_TIMES.ping, { timers: 2 });
    await agent.until('CLOSE the user left');
    expect((await agent.closed).code).toBe(1000);
    await expect.poll(() => stack.places.lists(stack.nodeUuid).exec).toEqual([]);
  });
});

describe('budgets of sockets', () => {
  test('a user opens sockets from an address of which a hundred upgrades have just failed', async () => {
    const address = { 'x-address': '192.0.2.1' };
    const path = '/microservices/exec/x';
    const failed = await Promise.all(
      Array.from({ length: 120 }, (_, i) =>
        i < 100 ? stack.connect(path, address) : stack.connect(`/agent${execOfAgent('x')}`, address),
      ),
    );
    expect(new Set(failed.map((one) => ('status' in one ? one.status : 0)))).toEqual(new Set([401]));
    const user = socketOf(await stack.connect(exec(), { authorization: 'Bearer admin', ...address }));
    await user.until('ACTIVATION');
    const agent = { authorization: `Bearer ${stack.token()}`, ...address };
    const path2 = `/agent${execOfAgent(idOf(await user.until('ACTIVATION')))}`;
    await socketOf(await stack.connect(path2, agent)).until('ACTIVATION');
    user.ws.close();
    await user.closed;
  });

  test('a user has 32 sockets at a replica and 64 upgrades in a minute; others open theirs', async () => {
    // The clock stands still, so that no time gives an upgrade back.
    await using other = await startStack({ microservices: 100, clock: createVirtualClock() });
    const wrong = '/microservices/exec/99999999-9999-4999-8999-999999999999';
    const open = await Promise.all(Array.from({ length: 32 }, () => openSilent(other.url, wrong, asUser(0))));
    expect(await other.connect(wrong, asUser(0))).toMatchObject({
      status: 429,
      headers: { 'retry-after': '10' },
      body: {
        code: 'TOO_MANY_REQUESTS',
        message: 'you have 32 open sockets at this replica, which is the limit: close one first',
      },
    });
    for (const one of open) one.destroy();
    await expect.poll(() => connections(other)).toBe(0);
    for (let i = 0; i < 31; i++) socketOf(await other.connect(wrong, asUser(0))).ws.terminate();
    expect(await other.connect(wrong, asUser(0))).toMatchObject({
      status: 429,
      body: { message: 'you open too many sockets: wait before the next one' },
    });
    socketOf(await other.connect(wrong, asUser(1))).ws.close();
    expect(other.measured.filter((one) => one === 'socketRefused user 429')).toHaveLength(2);
  });

  test('a user has ten sessions on a node, and then 1008 says so; others have theirs', async () => {
    await using other = await startStack({ microservices: 20 });
    const logs = (i: number) => `/microservices/${other.uuidOf(i)}/logs`;
    const ten = await Promise.all(Array.from({ length: 10 }, (_, i) => other.user(logs(i), 'developer')));
    await Promise.all(ten.map((one) => one.until('LOG_START')));
    expect(await (await other.user(logs(11), 'developer')).closed).toEqual({
      code: 1008,
      reason: 'you have 10 sessions on this node, which is the limit: end one of them first',
    });
    await (await other.user(logs(11), 'sre')).until('LOG_START');
    ten[0]?.ws.close();
    await ten[0]?.closed;
    await expect.poll(() => other.places.lists(other.nodeUuid).logs).toHaveLength(10);
    await (await other.user(logs(11), 'developer')).until('LOG_START');
  });

  test('the sessions of a user on a node count together at all replicas', async () => {
    await using other = await startStack({ replicas: 2, microservices: 20 });
    const logs = (i: number) => `/microservices/${other.uuidOf(i)}/logs`;
    for (let i = 0; i < 10; i++) await (await other.user(logs(i), 'developer', i % 2)).until('LOG_START');
    for (const at of [0, 1]) expect((await (await other.user(logs(11), 'developer', at)).closed).code).toBe(1008);
  });

  test('the agent of a node has 200 sockets; others of its address open theirs', async () => {
    await using other = await startStack({ clock: createVirtualClock() });
    const path = `/exec/microservice/${other.web}/none`;
    const open: Socket[] = [];
    for (let i = 0; i < 200; i++)
      open.push(await openSilent(other.url, `/agent${path}`, { authorization: `Bearer ${other.token()}` }));
    expect(await other.connect(`/agent${path}`, { authorization: `Bearer ${other.token()}` })).toMatchObject({
      status: 429,
      body: { message: 'this node has 200 open sockets, which is the limit: close those that are over' },
    });
    await (await other.user(`/microservices/exec/${other.web}`)).until('ACTIVATION');
    for (const one of open) one.destroy();
    await expect.poll(() => connections(other)).toBe(1);
    await (await other.agent(path)).closed;
  });
});

test('500 users who read nothing take the places of sockets and nothing else, and give them back', async () => {
  // However long it takes to open them all, none is out of time.
  await using full = await startStack({ microservices: 100, clock: createVirtualClock() });
  const { hostname, port } = new URL(full.url);
  const sockets = Array.from({ length: 500 }, (_, i) => {
    const socket = connect(Number(port), hostname);
    const lines = [
      `GET /api/v3/microservices/exec/${full.uuidOf(i % 100)} HTTP/1.1`,
      ...[`Host: ${hostname}`, 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
      ...['Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', `Authorization: Bearer admin-${i % 50}`],
    ];
    socket.on('error', () => {});
    socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    return socket;
  });
  await expect.poll(() => full.sessions.count, { timeout: 60_000 }).toBe(500);
  const oneMore = () => full.connect(exec(), { authorization: 'Bearer admin', 'x-address': 'another' });
  expect(await oneMore()).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
  expect((await full.asAgent('/exec/sessions')).body.execSessions).toHaveLength(500);
  for (const socket of sockets) socket.destroy();
  await expect.poll(() => full.sessions.count, { timeout: 60_000 }).toBe(0);
  await socketOf(await oneMore()).until('ACTIVATION');
}, 150_000);

test('a client that keeps its connection open after a refusal is disconnected', async () => {
  const { port } = new URL(stack.url);
  const path = `/api/v3${exec()}`;
  const lines = (address: string) => [
    `GET ${path} HTTP/1.1`,
    ...['Host: x', 'Connection: Upgrade', 'Upgrade: websocket', `X-Address: ${address}`, '', ''],
  ];
  const refused = (address: string) =>
    new Promise<string>((resolve) => {
      const socket = connect({ port: Number(port), host: '127.0.0.1', allowHalfOpen: true }, () =>
        socket.write(lines(address).join('\r\n')),
      );
      let text = '';
      socket.on('data', (chunk) => (text += chunk));
      socket.on('error', () => {});
      // Only a connection that the server no longer has refuses what its client writes.
      const writing = setInterval(() => socket.write('x'), 50);
      socket.on('close', () => {
        clearInterval(writing);
        resolve(text);
      });
    });
  expect(await refused('192.0.2.3')).toMatch(/^HTTP\/1\.1 401 /);
});

test('a replica that shuts down closes every socket with 1001 and refuses new ones with 503', async () => {
  await using other = await startStack();
  const path = `/microservices/exec/${other.web}`;
  const user = await other.user(path);
  await user.until('ACTIVATION');
  other.upgrades.drain();
  expect((await user.closed).code).toBe(1001);
  expect(await other.connect(path, { authorization: 'Bearer admin' })).toMatchObject({ status: 503 });
});

test('a replica that shuts down cuts what waits for users who read nothing after 10 s, not before', async () => {
  const clock = createVirtualClock();
  await using stack = await startStack({ clock });
  const upgraded: Duplex[] = [];
  stack.rest.http.on('upgrade', (_, socket) => upgraded.push(socket));
  const user = await stack.user(`/microservices/exec/${stack.web}`);
  const agent = await stack.agent(`/exec/microservice/${stack.web}/${idOf(await user.until('ACTIVATION'))}`);
  await user.until('STDERR Connected.');
  user.ws.pause();
  const chunk = Buffer.alloc(32 * 1024, 'x');
  for (let i = 0; i < 1_024; i++) agent.send(T.STDOUT, chunk);
  await expect.poll(() => upgraded.some((socket) => socket.writableLength > 64 * 1024)).toBe(true);
  stack.upgrades.drain();
  const done = vi.fn();
  const drained = stack.rest.drain(60_000).then(done);
  await agent.until('CLOSE the controller shuts down');
  await clock.advance(2 * SESSION_TIMES.close - 1, { timers: 0 });
  await expect.poll(() => connections(stack)).toBe(1);
  expect(done).not.toHaveBeenCalled();
  await clock.advance(1, { timers: 1 });
  await drained;
});

test('a replica that has shut down has no timer that keeps its process', async () => {
  const pending = new Set<number>();
  const clock: Clock = {
    ...systemClock,
    after(ms, callback) {
      pending.add(ms);
      const cancel = systemClock.after(ms, () => {
        pending.delete(ms);
        callback();
      });
      return () => {
        pending.delete(ms);
        cancel();
      };
    },
  };
  const stack = await startStack({ clock });
  stack.upgrades.drain();
  expect(pending.size).toBeGreaterThan(0);
  await stack[Symbol.asyncDispose]();
  expect([...pending]).toEqual([]);
});

test('a replica ends although a client never answers', async () => {
  await using stack = await startStack();
  const user = await stack.user(`/microservices/exec/${stack.web}`);
  await user.until('ACTIVATION');
  user.ws.pause();
  stack.upgrades[Symbol.dispose]();
  // Waits until the last connection has ended.
  await stack.rest[Symbol.asyncDispose]();
  await expect.poll(() => stack.sessions.count, { timeout: 10_000 }).toBe(0);
});
