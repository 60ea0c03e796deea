import { expect, test } from 'vitest';
import { storedNode } from '../../../testing/stored.ts';
import type { KubeClient } from '../../kube/mod.ts';
import {
  fill,
  keyOf,
  makeClock,
  makeKey,
  makeToken,
  type ReplicaOptions,
  startReplica,
  startWithNode,
  type TokenChanges,
} from '../_util.ts';
import { LOOKS } from '../channel/node-directory.ts';

/** An API server that has nothing more than the local views. */
const emptyClient = {
  list: async () => ({ items: [], resourceVersion: '1' }),
  find: async () => undefined,
} as unknown as KubeClient;

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
const unsigned = (token: string) => `${token.slice(0, token.lastIndexOf('.'))}.`;
const MINUTE = 60;

interface Case {
  changes?: TokenChanges;
  /** makes the header from a good token */
  send?: (token: string) => { headers: Record<string, string> };
  wants: string;
  status?: number;
}

const start = Math.floor(makeClock().wall() / 1000);
const refused: Record<string, Case> = {
  'no header at all': { send: () => ({ headers: {} }), wants: 'AGENT_AUTH_HEADER_INVALID' },
  'another scheme': {
    send: (token) => ({ headers: { authorization: `Basic ${token}` } }),
    wants: 'AGENT_AUTH_HEADER_INVALID',
  },
  'no JWT': { send: () => bearer('hello'), wants: 'AGENT_JWT_MALFORMED' },
  'five parts': { send: (token) => bearer(`${token}.a.b`), wants: 'AGENT_JWT_MALFORMED' },
  'alg none': {
    changes: { header: { alg: 'none' } },
    send: (token) => bearer(unsigned(token)),
    wants: 'AGENT_JWT_MALFORMED',
  },
  'alg none with a good signature': { changes: { header: { alg: 'none' } }, wants: 'AGENT_JWT_MALFORMED' },
  'alg HS256': { changes: { header: { alg: 'HS256' } }, wants: 'AGENT_JWT_MALFORMED' },
  'an unknown critical extension': { changes: { header: { crit: ['x'] } }, wants: 'AGENT_JWT_MALFORMED' },
  'no signature': { send: (token) => bearer(unsigned(token)), wants: 'AGENT_JWT_SIGNATURE_INVALID' },
  'no subject': { changes: { claims: { sub: undefined } }, wants: 'AGENT_JWT_MISSING_SUBJECT' },
  'a subject that is no uuid': { changes: { claims: { sub: '../x' } }, wants: 'AGENT_JWT_MISSING_SUBJECT' },
  'another node': {
    changes: { claims: { sub: '00000000-0000-4000-8000-000000000000' } },
    wants: 'AGENT_NODE_NOT_FOUND',
  },
  'expired beyond the tolerance': {
    changes: { claims: { iat: start - 100, nbf: start - 100, exp: start - 11 } },
    wants: 'AGENT_JWT_EXPIRED',
  },
  'not valid yet': { changes: { claims: { nbf: start + MINUTE } }, wants: 'AGENT_JWT_EXPIRED' },
  'issued in the future': {
    changes: { claims: { iat: start + MINUTE, exp: start + 2 * MINUTE } },
    wants: 'AGENT_JWT_EXPIRED',
  },
  'a life of 11 minutes': { changes: { claims: { exp: start + 11 * MINUTE } }, wants: 'AGENT_JWT_MALFORMED' },
  'no expiry': { changes: { claims: { exp: undefined } }, wants: 'AGENT_JWT_MALFORMED' },
  'no jti': { changes: { claims: { jti: undefined } }, wants: 'AGENT_JWT_MALFORMED' },
  'another use': { changes: { claims: { tokenUse: 'edgeguard' } }, wants: 'AGENT_JWT_MALFORMED' },
  'null as its use': { changes: { claims: { tokenUse: null } }, wants: 'AGENT_JWT_MALFORMED' },
  'another audience': { changes: { claims: { aud: ['http://other'] } }, wants: 'AGENT_JWT_MALFORMED' },
  'an audience that begins as this controller does': {
    changes: { claims: { aud: ['http://controller.other'] } },
    wants: 'AGENT_JWT_MALFORMED',
  },
  'no audience in a list of them': { changes: { claims: { aud: [] } }, wants: 'AGENT_JWT_MALFORMED' },
  'older than this process': {
    changes: { claims: { iat: start - 5, nbf: start - 5, exp: start + 55 } },
    wants: 'CONTROLLER_AUTH_VERIFICATION_FAILED',
    status: 503,
  },
};

test.for(Object.entries(refused))(
  'a token is refused with: %s',
  async ([, { changes, send = bearer, wants, status = 401 }]) => {
    const { replica, node, key, clock } = await startWithNode({ client: emptyClient, publicUrl: 'http://controller/' });
    const token = makeToken(node.spec.uuid ?? '', key, clock.wall(), changes);
    const answer = await replica.call('GET', '/config', send(token));
    expect(answer.status, answer.text).toBe(status);
    expect(answer.body).toEqual({
      name: status === 401 ? 'AuthenticationError' : 'ServiceUnavailableError',
      error: status === 401 ? 'Unauthorized' : 'Service Unavailable',
      code: wants,
      message: expect.any(String),
      retryable: status === 503,
    });
  },
);

/** Claims of node tokens as agents of other makes sign them, as changes of one of our agent. */
const OTHER_MAKES: Record<string, object> = {
  'the name of its make as issuer, without audience and use': {
    ...{
      iss: 'iofog-agent',
      aud: undefined,
      tokenUse: undefined,
      nbf: undefined,
      kid: 'ab12',
      exp: start + 10 * MINUTE,
    },
  },
  'its own host as issuer, the URL of the REST API as audience and a use': {
    ...{ iss: 'https://edgelet.default.svc.bridge.local', aud: ['http://controller/api/v3/'] },
    ...{ exp: start + 10 * MINUTE, jti: 'A'.repeat(52) },
  },
  'no issuer': { iss: undefined },
  'the audience as text, and no use': { aud: 'http://controller', tokenUse: undefined },
};

test.for(
  Object.entries(OTHER_MAKES).flatMap(([what, claims]) =>
    [undefined, 'http://controller/'].map((url) => ({ what, claims, url })),
  ),
)(
  'a node token of an agent of another make is accepted with $what, with $url as the URL of the controller',
  async ({ claims, url }) => {
    const { replica, node, key, clock } = await startWithNode({ client: emptyClient, ...(url && { publicUrl: url }) });
    const answer = await replica.call(
      'GET',
      '/config',
      bearer(makeToken(node.spec.uuid ?? '', key, clock.wall(), { claims })),
    );
    expect(answer.status, answer.text).toBe(200);
  },
);

test.each([
  { about: 'that began in an earlier second is accepted', age: 1_000, status: 200 },
  { about: 'that began in the same second gets 503', age: 0, status: 503 },
])('a token of the second in which the replica is made, at a process $about', async ({ age, status }) => {
  const clock = makeClock();
  await clock.advance(500, { timers: 0 });
  await using replica = await startReplica({ clock, startedAt: clock.wall() - age });
  const node = storedNode('edge-1');
  const key = makeKey();
  fill(replica.stores, { nodes: [node], secrets: [keyOf(node, key)] });
  expect((await replica.as(node, key, 'GET', '/config')).status).toBe(status);
});

test('a token signed with the key of another node gets 401', async () => {
  const { replica, node, clock } = await startWithNode({ client: emptyClient });
  const stranger = makeKey();
  const other = storedNode('edge-2');
  replica.stores.nodes.set(other);
  replica.stores.secrets.set(keyOf(other, stranger));
  const answer = await replica.call('GET', '/config', bearer(makeToken(node.spec.uuid ?? '', stranger, clock.wall())));
  expect(answer.body.code).toBe('AGENT_JWT_SIGNATURE_INVALID');
  expect((await replica.as(other, stranger, 'GET', '/config')).status).toBe(200);
});

test('a token signed with the key of a former node of the same uuid gets 401', async () => {
  const { replica, node, key, clock } = await startWithNode({ client: emptyClient });
  const successor = storedNode('edge-1', { uuid: node.spec.uuid });
  replica.stores.nodes.remove(node);
  replica.stores.nodes.set(successor);
  const answer = await replica.call('GET', '/config', bearer(makeToken(node.spec.uuid ?? '', key, clock.wall())));
  expect(answer.body.code).toBe('AGENT_PUBLIC_KEY_NOT_FOUND');
});

test('one token sent ten times at once is accepted exactly once', async () => {
  const { replica, node, key, clock } = await startWithNode();
  const token = makeToken(node.spec.uuid ?? '', key, clock.wall());
  const answers = await Promise.all(Array.from({ length: 10 }, () => replica.call('GET', '/config', bearer(token))));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(401)]);
  expect(answers.filter(({ status }) => status === 401).map(({ body }) => body.code)).toEqual(
    Array(9).fill('AGENT_JWT_ALREADY_USED'),
  );
});

test('one token of a node that the store does not have yet, sent ten times at once, is accepted exactly once', async () => {
  const key = makeKey();
  let late = storedNode('late');
  const { replica, clock } = await startWithNode({
    client: {
      list: async () => ({ items: [late], resourceVersion: '1000000' }),
      find: async () => keyOf(late, key),
    } as unknown as KubeClient,
  });
  late = storedNode('late');
  const token = makeToken(late.spec.uuid ?? '', key, clock.wall());
  const answers = await Promise.all(Array.from({ length: 10 }, () => replica.call('GET', '/config', bearer(token))));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(401)]);
});

test('a used token is refused until it expires, tolerance included', async () => {
  const { replica, node, key, clock } = await startWithNode();
  const token = makeToken(node.spec.uuid ?? '', key, clock.wall());
  expect((await replica.call('GET', '/config', bearer(token))).status).toBe(200);
  await clock.advance(69_000, { timers: 0 });
  expect((await replica.call('GET', '/config', bearer(token))).body.code).toBe('AGENT_JWT_ALREADY_USED');
  await clock.advance(1_000, { timers: 0 });
  expect((await replica.call('GET', '/config', bearer(token))).body.code).toBe('AGENT_JWT_EXPIRED');
});

test('an unknown node gets 503, never 401, while the API server does not respond', async () => {
  const { replica, key, clock } = await startWithNode();
  const answer = await replica.call(
    'GET',
    '/config',
    bearer(makeToken(storedNode('x').spec.uuid ?? '', key, clock.wall())),
  );
  expect(answer.status).toBe(503);
  expect(answer.body).toMatchObject({ code: 'CONTROLLER_AUTH_VERIFICATION_FAILED', retryable: true });
  expect(answer.headers['retry-after']).toBe('5');
});

/** A replica whose API server knows no further node, and the lists and reads of keys that it was asked for. */
async function startCounting(options: ReplicaOptions = {}) {
  const asked: string[] = [];
  const client = {
    list: async (_: unknown, { labelSelector = '' }: { labelSelector?: string }) => {
      asked.push(labelSelector);
      return { items: [], resourceVersion: '1' };
    },
    find: async (_: unknown, { name }: { name: string }) => void asked.push(name),
  };
  return { asked, ...(await startWithNode({ client: client as unknown as KubeClient, ...options })) };
}

const FLOOD = 250;

/** Requests with tokens of unknown nodes, all at once, up to the time when only those of one list wait. */
async function flood({ replica, key, clock }: Awaited<ReturnType<typeof startCounting>>) {
  const codes: string[] = [];
  const calls = Array.from({ length: FLOOD }, async (_, i) => {
    const token = makeToken(storedNode(`x${i}`).spec.uuid ?? '', key, clock.wall());
    codes.push((await replica.call('GET', '/config', bearer(token))).body.code);
  });
  await expect.poll(() => codes.length, { timeout: 30_000 }).toBe(FLOOD - LOOKS.unknown);
  return { codes, all: Promise.all(calls) };
}

test('tokens of unknown nodes, hundreds at once, cost one list of the API server a second and no read of a key', async () => {
  const setup = await startCounting();
  const { codes, all } = await flood(setup);
  expect(setup.asked).toHaveLength(LOOKS.burst);
  await setup.clock.advance(1_000, { timers: 1 });
  await all;
  expect(setup.asked).toHaveLength(LOOKS.burst + 1);
  for (const selector of setup.asked) expect(selector).toMatch(/^skerry.dev\/uuid in \((?:[0-9a-f-]{36},?){1,30}\)$/);
  expect(new Set(codes)).toEqual(new Set(['AGENT_NODE_NOT_FOUND', 'CONTROLLER_AUTH_VERIFICATION_FAILED']));
  expect((await setup.replica.as(setup.node, setup.key, 'GET', '/config')).status).toBe(200);
});

test('the late key of a known node is looked up while strangers flood the look-ups', async () => {
  const late = storedNode('late');
  const lateKey = makeKey();
  const setup = await startCounting({
    client: {
      list: async () => ({ items: [], resourceVersion: '1' }),
      find: async (_: unknown, { name }: { name: string }) =>
        name.endsWith(late.spec.uuid ?? '') ? keyOf(late, lateKey) : undefined,
    } as unknown as KubeClient,
  });
  const { replica, clock } = setup;
  replica.stores.nodes.set(late);
  const { all } = await flood(setup);
  const answer = replica.as(late, lateKey, 'GET', '/config');
  let isOver = false;
  const over = Promise.all([all, answer]).finally(() => {
    isOver = true;
  });
  while (!isOver) await clock.advance(1_000, { timers: 0 });
  await over;
  expect((await answer).status).toBe(200);
});

test('an address whose tokens are refused too often gets 429 without a look-up; agents with a key are served', async () => {
  const setup = await startCounting({ limits: { refusalsPerMinute: 5 } });
  const { replica, node, key, clock, asked } = setup;
  for (let i = 0; i < 5; i++) expect((await replica.call('GET', '/config', bearer('x.y.z'))).status).toBe(401);
  const stranger = bearer(makeToken(storedNode('x').spec.uuid ?? '', key, clock.wall()));
  for (const token of [bearer('x.y.z'), stranger])
    expect(await replica.call('GET', '/config', token)).toMatchObject({
      status: 429,
      headers: { 'retry-after': '10' },
      body: { code: 'TOO_MANY_REQUESTS', retryable: true },
    });
  expect(asked).toEqual([]);
  expect((await replica.as(node, key, 'GET', '/config')).status).toBe(200);
  await clock.advance(12_000, { timers: 0 });
  expect((await replica.call('GET', '/config', bearer('x.y.z'))).status).toBe(401);
});

test('tokens with wrong claims, which only the key of the node can sign, count against the limit of the node', async () => {
  const { replica, node, key, clock } = await startWithNode({ limits: { requestsPerNode: 1 } });
  const wrong = () => bearer(makeToken(node.spec.uuid ?? '', key, clock.wall(), { claims: { tokenUse: 'other' } }));
  const statuses = [];
  for (let i = 0; i < 12; i++) statuses.push((await replica.call('GET', '/config', wrong())).status);
  expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
});

test('used and expired tokens, which others may have intercepted, count against their address and not against the node', async () => {
  const { replica, node, key, clock } = await startWithNode({ limits: { requestsPerNode: 1, refusalsPerMinute: 20 } });
  const used = bearer(makeToken(node.spec.uuid ?? '', key, clock.wall()));
  const expired = bearer(makeToken(node.spec.uuid ?? '', key, clock.wall() - 600_000));
  expect((await replica.call('GET', '/config', used)).status).toBe(200);
  for (let i = 0; i < 10; i++) {
    expect((await replica.call('GET', '/config', used)).body.code).toBe('AGENT_JWT_ALREADY_USED');
    expect((await replica.call('GET', '/config', expired)).body.code).toBe('AGENT_JWT_EXPIRED');
  }
  for (const token of [used, expired]) expect((await replica.call('GET', '/config', token)).status).toBe(429);
  expect((await replica.as(node, key, 'GET', '/config')).status).toBe(200);
});

test('a node that sends requests without pause gets 429, others do not', async () => {
  const { replica, node, key, clock } = await startWithNode({ limits: { requestsPerNode: 1 } });
  const other = storedNode('edge-2');
  const otherKey = makeKey();
  replica.stores.nodes.set(other);
  replica.stores.secrets.set(keyOf(other, otherKey));
  const statuses = [];
  for (let i = 0; i < 12; i++) statuses.push((await replica.as(node, key, 'GET', '/config')).status);
  expect(statuses).toEqual([...Array(10).fill(200), 429, 429]);
  expect((await replica.as(other, otherKey, 'GET', '/config')).status).toBe(200);
  await clock.advance(1_000, { timers: 0 });
  expect((await replica.as(node, key, 'GET', '/config')).status).toBe(200);
});

test('every request gets 503 with Retry-After while a store is incomplete, provisioning included', async () => {
  const clock = makeClock();
  await using replica = await startReplica({ clock });
  const routes = [
    ['GET', '/changes'],
    ['POST', '/provision'],
    ['GET', '/nowhere'],
  ] as const;
  let answered = false;
  const answers = Promise.all(routes.map(([method, path]) => replica.call(method, path)));
  void answers.then(() => {
    answered = true;
  });
  while (!answered) await clock.advance(1_000, { timers: 0 });
  for (const answer of await answers) {
    expect(answer.status).toBe(503);
    expect(answer.body).toMatchObject({ code: 'CONTROLLER_NOT_READY', retryable: true });
    expect(answer.headers['retry-after']).toBe('5');
  }
});

test('a refused GET keeps its connection', async () => {
  const { replica } = await startWithNode();
  const answer = await replica.call('GET', '/config');
  expect(answer.status).toBe(401);
  expect(answer.headers.connection).toBe('keep-alive');
});

test('a path that is no agent route is left to other handlers', async () => {
  const { replica } = await startWithNode();
  expect((await fetch(`${replica.url}/api/v3/agents`)).status).toBe(418);
  expect((await fetch(`${replica.url}/api/v3/node-list`)).status).toBe(418);
  expect((await fetch(`${replica.url}/api/v3/agent/nowhere`)).status).toBe(404);
  expect((await fetch(`${replica.url}/api/v3/agent/status`)).status).toBe(405);
});
