import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import fc from 'fast-check';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { plainView } from '../_web.ts';
import { until } from '../engines/_contract.ts';
import { newKey } from '../state/identity.ts';
import { signingKey, signToken } from '../state/token.ts';
import { LocalAgent } from './_local-agent.ts';

/** The routes for workloads: their own config, and the control channel that reports a change of it. */

let local: LocalAgent;
const uuid = randomUUID();
const other = randomUUID();

beforeEach(async () => {
  local = await LocalAgent.start();
  await local.provision(configured(uuid, { rate: 5 }), configured(other, { rate: 7 }));
  return () => local[Symbol.asyncDispose]();
});

const configured = (id: string, config: unknown) =>
  plainView({ uuid: id, name: id === uuid ? 'web' : 'queue', config: JSON.stringify(config) });

const CLAIMS = {
  sub: 'system:serviceaccount:shop:web',
  iss: 'https://skerry-agent.default.svc.bridge.local',
  aud: ['https://skerry-agent.default.svc.bridge.local'],
  tokenUse: 'serviceaccount',
};

function workloadToken(id = uuid, change: Record<string, unknown> = {}, key = local.agent.identity.localKey): string {
  const own = { 'agent.skerry.dev': { microservice: { application: 'shop', name: 'web', uuid: id } } };
  return signToken(signingKey(key), { ...CLAIMS, ...own, ...change }, Math.floor(Date.now() / 1000), 60);
}

async function get(path: string, bearer: string) {
  const answer = await fetch(`http://127.0.0.1:${local.port}${path}`, {
    headers: { authorization: `Bearer ${bearer}` },
  });
  return {
    status: answer.status,
    body: (await answer.json()) as Record<string, unknown> & { error?: { code: string } },
  };
}

const CONFIG = '/v1/microservices/config';

describe("a workload's own config", () => {
  test('is the config of the microservice in the token, over TCP and over the socket', async () => {
    const wanted = (id: string, rate: number) => ({ success: true, data: { microserviceUuid: id, config: { rate } } });
    expect((await get(CONFIG, workloadToken())).body).toEqual(wanted(uuid, 5));
    expect((await get(CONFIG, workloadToken(other))).body).toEqual(wanted(other, 7));
    expect((await local.ask('GET', CONFIG, undefined, workloadToken())).body).toEqual(wanted(uuid, 5));
  });

  const refusals: Record<string, [() => string, number, string]> = {
    'without a token': [() => '', 401, 'UNAUTHORIZED'],
    'with a token of another agent': [() => workloadToken(uuid, {}, newKey()), 401, 'UNAUTHORIZED'],
    'with a token for the controller': [() => workloadToken(uuid, { tokenUse: 'controller' }), 401, 'UNAUTHORIZED'],
    'with a token for another audience': [() => workloadToken(uuid, { aud: ['elsewhere'] }), 401, 'UNAUTHORIZED'],
    'with a token without a microservice': [() => workloadToken(uuid, { 'agent.skerry.dev': {} }), 401, 'UNAUTHORIZED'],
    'with the token of the admin': [() => local.token, 403, 'FORBIDDEN'],
    'with a token of a microservice that does not exist': [() => workloadToken(randomUUID()), 404, 'NOT_FOUND'],
  };
  for (const [name, [bearer, status, code]] of Object.entries(refusals))
    test(`requested ${name} gets ${status}`, async () => {
      const answer = await get(CONFIG, bearer());
      expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
    });

  test('is all that the token of a workload gives access to', async () => {
    for (const path of ['/v1/system/status', '/v1/ms', `/v1/ms/${uuid}`, '/v1/system/config']) {
      expect((await get(path, workloadToken())).status, path).toBe(403);
      expect((await local.ask('GET', path, undefined, workloadToken())).body.error?.code, path).toBe('FORBIDDEN');
    }
  });
});

/** A control channel and the messages received over it. */
class Channel {
  readonly received: string[] = [];
  readonly socket: WebSocket;
  code: number | undefined;

  constructor(bearer: string, headers: Record<string, string> = {}) {
    const all = { authorization: `Bearer ${bearer}`, ...headers };
    const url = `ws://127.0.0.1:${local.port}/v1/microservices/control`;
    this.socket = new WebSocket(url, { headers: all } as unknown as string[]);
    this.socket.binaryType = 'arraybuffer';
    this.socket.onmessage = ({ data }) => this.received.push(Buffer.from(data as ArrayBuffer).toString('hex'));
    this.socket.onclose = ({ code }) => {
      this.code = code;
    };
    this.socket.onerror = () => {};
  }

  async open(): Promise<this> {
    await until('the channel to open', () => this.socket.readyState === WebSocket.OPEN);
    return this;
  }
}

describe('the control channel', () => {
  test('notifies only the microservice whose config changed', async () => {
    const mine = await new Channel(workloadToken()).open();
    const others = await new Channel(workloadToken(other)).open();
    local.controller.change({ microservices: [configured(uuid, { rate: 6 }), configured(other, { rate: 7 })] });
    await until('the message', () => mine.received.length > 0);
    expect(mine.received).toEqual(['0c']);
    expect((await get(CONFIG, workloadToken())).body).toMatchObject({ data: { config: { rate: 6 } } });
    others.socket.send(Buffer.from([0x9]));
    await until('an answer', () => others.received.length > 0);
    expect(others.received).toEqual(['0a']);
    expect(local.engine.history.filter((step) => step.startsWith('stop'))).toEqual([]);
  });

  test('notifies every microservice when the limits of the agent change', async () => {
    const channels = await Promise.all([uuid, other].map((id) => new Channel(workloadToken(id)).open()));
    local.controller.change({ config: { memoryLimit: 512 } });
    await until('both messages', () => channels.every(({ received }) => received.length > 0));
    expect(channels.map(({ received }) => received)).toEqual([['0f'], ['0f']]);
  });

  test('is closed when the same microservice opens another one', async () => {
    const older = await new Channel(workloadToken()).open();
    await new Channel(workloadToken()).open();
    await until('the end', () => older.code !== undefined);
    expect(older.code).toBe(1000);
  });

  test('is closed with 1009 when a message is too long', async () => {
    const channel = await new Channel(workloadToken()).open();
    channel.socket.send(Buffer.alloc(5000));
    await until('the end', () => channel.code !== undefined);
    expect(channel.code).toBe(1009);
  });

  const refusals: Record<string, [() => string, Record<string, string>, number]> = {
    'without a token': [() => '', {}, 401],
    'with the token of the admin': [() => local.token, {}, 403],
    'with the Origin header of a browser': [() => workloadToken(), { origin: 'https://shop.example' }, 403],
    'of a microservice that does not exist': [() => workloadToken(randomUUID()), {}, 404],
    'with another WebSocket version': [() => workloadToken(), { 'sec-websocket-version': '8' }, 400],
  };
  for (const [name, [bearer, headers, status]] of Object.entries(refusals))
    test(`does not open for a handshake ${name}: status ${status}`, async () => {
      expect(await handshake(bearer(), headers)).toMatch(new RegExp(`^HTTP/1.1 ${status} .*"success":false`, 's'));
    });

  test('does not affect a request to upgrade to another protocol: it gets its plain HTTP response', async () => {
    expect(await handshake('', { upgrade: 'h2c' }, '/health/live')).toMatch(/^HTTP\/1.1 200 .*"status":"ok"/s);
  });
});

test('a client whose upgrade was refused is disconnected, even if it does not end its side', async () => {
  const socket = connect({ port: local.port, host: '127.0.0.1', allowHalfOpen: true });
  socket.resume().on('error', () => {});
  socket.write('GET /health/live HTTP/1.1\r\nhost: agent\r\nconnection: Upgrade\r\nupgrade: h2c\r\n\r\n');
  const open = () => new Promise<number>((resolve) => local.servers[1]?.getConnections((_, count) => resolve(count)));
  await new Promise((resolve) => socket.once('end', resolve));
  try {
    await vi.waitFor(async () => expect(await open()).toBe(0), 2000);
  } finally {
    socket.destroy();
  }
});

/** Everything that the server sends in response to a handshake until it ends the connection. */
function handshake(bearer: string, change: Record<string, string>, path?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(local.port, '127.0.0.1');
    let text = '';
    socket.setEncoding('utf8').on('data', (piece) => {
      text += piece;
    });
    socket.on('end', () => resolve(text)).on('error', reject);
    socket.write(upgradeRequest(bearer, change, path));
  });
}

function upgradeRequest(
  bearer: string,
  change: Record<string, string> = {},
  path = '/v1/microservices/control',
): string {
  const headers = {
    host: 'localhost',
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': Buffer.alloc(16).toString('base64'),
    authorization: `Bearer ${bearer}`,
    ...change,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return `GET ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`;
}

test('a control channel answers the next client, whatever bytes the one before sent as frames', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 5000 }), async (bytes) => {
      const socket = connect(local.port, '127.0.0.1');
      socket.resume().on('error', () => {});
      socket.write(upgradeRequest(workloadToken()));
      socket.write(bytes);
      const channel = await new Channel(workloadToken()).open();
      channel.socket.send(Buffer.from([0x9]));
      await until('an answer', () => channel.received.length > 0);
      expect(channel.received).toEqual(['0a']);
      channel.socket.close();
      socket.destroy();
    }),
    { numRuns: 20 },
  );
});
