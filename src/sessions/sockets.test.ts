import { connect } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { FRAME_LIMITS, FRAME_TYPES as T } from '../wire/frames.ts';
import { socketOf } from './_client.ts';
import { startStack } from './_stack.ts';

let stack: Awaited<ReturnType<typeof startStack>>;
beforeAll(async () => {
  stack = await startStack();
  return () => stack[Symbol.asyncDispose]();
});

const exec = () => `/microservices/exec/${stack.web}`;
const execOfAgent = (id: string) => `/exec/microservice/${stack.web}/${id}`;
const idOf = (frame: { sessionId?: string }) => frame.sessionId ?? '';

test('a user and an agent get one terminal: poll, list, connection, bytes, exit code, end', async () => {
  const have = async () => (await stack.asAgent('/changes')).body.due as string;
  const before = await have();
  const poll = stack.asAgent(`/changes?wait=60&have=${before}`);
  const user = await stack.user(`${exec()}?command=sh&command=-c&command=cat&tty=false`);
  const id = idOf(await user.until('ACTIVATION'));
  // The long poll ends with the session, not with its time.
  expect((await poll).body).toMatchObject({ execSessions: true });
  const list = await stack.asAgent('/exec/sessions');
  expect(list.body.execSessions).toEqual([
    {
      sessionId: id,
      microserviceUuid: stack.web,
      status: 'PENDING',
      agentConnected: false,
      command: ['sh', '-c', 'cat'],
      tty: false,
    },
  ]);
  expect(String(list.headers.etag)).toMatch(/^"execSessions:[0-9a-f]{16}"$/);

  const agent = await stack.agent(execOfAgent(id));
  expect(JSON.parse(String(Buffer.from((await agent.until('ACTIVATION')).data)))).toMatchObject({
    sessionId: id,
    execId: id,
  });
  await user.until('STDERR Connected.');
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
  expect((await stack.asAgent('/exec/sessions')).body).toEqual({ execSessions: [] });
  expect(await have()).toBe(before);
});

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
      statusMessage: expect.stringMatching(/^the user ended the session, after \d+ s$/),
    },
  ]);
  expect(stack.recorded).toEqual([
    'Application/shop SessionBegan developer opened a terminal in microservice web on node edge-1',
    expect.stringMatching(
      /^Application\/shop SessionEnded developer had a terminal in microservice web on node edge-1, which ended after \d+ s: the user ended the session$/,
    ),
  ]);
  expect(JSON.stringify([stack.events, stack.recorded, stack.logged])).not.toContain('very-private');
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
    const { nodes } = stack.replica.stores;
    const status = structuredClone(stack.node.status);
    const show = (change: object) => {
      const resourceVersion = String(1_000_000 + stack.events.length);
      nodes.set({
        ...stack.node,
        metadata: { ...stack.node.metadata, resourceVersion },
        status: { ...status, ...change },
      } as typeof stack.node);
    };
    show({ microservices: [{ uuid: stack.web, state: 'PULLING', application: 'shop', name: 'web' }] });
    expect((await (await stack.user(exec())).closed).reason).toBe(
      'microservice web does not run on node edge-1: its state is PULLING',
    );
    show({ daemonStatus: 'UNKNOWN' });
    expect((await (await stack.user(exec())).closed).reason).toBe(
      'node edge-1 is not connected: its status is UNKNOWN',
    );
    show({});
  });
});

test('a session ends with 1008 when its application is deleted', async () => {
  await using other = await startStack();
  const user = await other.user(`/microservices/exec/${other.web}`);
  const agent = await other.agent(`/exec/microservice/${other.web}/${idOf(await user.until('ACTIVATION'))}`);
  await user.until('STDERR Connected.');
  other.replica.stores.applications.swap([], '1000000000');
  expect(await user.closed).toEqual({
    code: 1008,
    reason: `there is no microservice with the uuid ${other.web}`,
  });
  expect((await agent.closed).code).toBe(1000);
});

test('of six users who race for five places, one gets 1008', async () => {
  const users = await Promise.all(Array.from({ length: 6 }, () => stack.user(`/node/${stack.nodeUuid}/logs`)));
  const refused = await Promise.any(users.map(async (user) => (await user.closed).code));
  expect(refused).toBe(1008);
  expect(stack.places.lists(stack.nodeUuid).logs).toHaveLength(5);
  for (const user of users) user.ws.close();
  await Promise.all(users.map(({ closed }) => closed));
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

  test('that is lost may return, and the terminal continues', async () => {
    const user = await stack.user(exec());
    const id = idOf(await user.until('ACTIVATION'));
    const first = await stack.agent(execOfAgent(id));
    await user.until('STDERR Connected.');
    const due = (await stack.asAgent('/changes')).body.due;
    first.ws.terminate();
    await user.until('STDERR \r\nThe connection to the node is lost.');
    expect((await stack.asAgent(`/changes?have=${due}`)).body).toMatchObject({ execSessions: true });
    user.send(T.STDIN, 'typed meanwhile');
    const second = await stack.agent(execOfAgent(id));
    expect(String(Buffer.from((await second.until('ACTIVATION')).data))).toContain('"resumed":true');
    await second.until('STDIN typed meanwhile');
    second.send(T.STDOUT, 'still here');
    await user.until('STDOUT still here');
    user.ws.terminate();
    await second.until('CLOSE the user left');
    expect((await second.closed).code).toBe(1000);
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

test('100 upgrades of one address at once: 60 are looked at, the others get 429 and when to come back', async () => {
  const all = await Promise.all(
    Array.from({ length: 100 }, () => stack.connect('/microservices/exec/x', { 'x-address': '192.0.2.1' })),
  );
  const statuses = all.map((one) => ('status' in one ? one.status : 0));
  const count = (status: number) => statuses.filter((one) => one === status).length;
  // A second of the test adds one more.
  expect(count(401)).toBeGreaterThanOrEqual(60);
  expect(count(429)).toBeGreaterThan(20);
  expect(count(401) + count(429)).toBe(100);
  const other = await stack.connect(exec(), { authorization: 'Bearer admin', 'x-address': '192.0.2.2' });
  socketOf(other).ws.close();
});

test('500 users who read nothing take the places of sockets and nothing else, and give them back', async () => {
  await using full = await startStack({ microservices: 100 });
  const { hostname, port } = new URL(full.url);
  const sockets = Array.from({ length: 500 }, (_, i) => {
    const socket = connect(Number(port), hostname);
    const lines = [
      `GET /api/v3/microservices/exec/${full.uuidOf(i % 100)} HTTP/1.1`,
      ...[`Host: ${hostname}`, 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
      ...['Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', 'Authorization: Bearer admin', `X-Address: ${i % 10}`],
    ];
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

test('a user that reads nothing stops the agent, not the memory of the controller', async () => {
  const user = await stack.user(exec());
  const id = idOf(await user.until('ACTIVATION'));
  const agent = await stack.agent(execOfAgent(id));
  await user.until('STDERR Connected.');
  user.ws.pause();
  const chunk = Buffer.alloc(32 * 1024, 'x');
  // 32 MiB, far more than what the sockets of the system hold.
  for (let i = 0; i < 1_024; i++) agent.send(T.STDOUT, chunk);
  const waiting = () => agent.ws.bufferedAmount;
  let last = -1;
  while (waiting() !== last) {
    last = waiting();
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  expect(waiting()).toBeGreaterThan(16 * 2 ** 20);
  user.ws.resume();
  agent.send(T.CLOSE, 'done');
  await user.closed;
  const bytes = user.frames.filter(({ type }) => type === T.STDOUT).reduce((sum, { data }) => sum + data.length, 0);
  expect(bytes).toBe(32 * 2 ** 20);
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
