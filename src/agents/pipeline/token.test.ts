import { expect, test } from 'vitest';
import type { KubeClient } from '../../kube/mod.ts';
import {
  keyOf,
  makeClock,
  makeKey,
  makeNode,
  makeToken,
  startReplica,
  startWithNode,
  type TokenChanges,
} from '../_util.ts';

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
  'another issuer': { changes: { claims: { iss: 'https://elsewhere' } }, wants: 'AGENT_JWT_MALFORMED' },
  'the token of a workload': { changes: { claims: { tokenUse: 'serviceAccount' } }, wants: 'AGENT_JWT_MALFORMED' },
  'no use': { changes: { claims: { tokenUse: undefined } }, wants: 'AGENT_JWT_MALFORMED' },
  'another audience': { changes: { claims: { aud: ['http://other'] } }, wants: 'AGENT_JWT_MALFORMED' },
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
    await using _ = replica;
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

test('a token signed with the key of another node gets 401', async () => {
  const { replica, node, clock } = await startWithNode({ client: emptyClient });
  await using _ = replica;
  const stranger = makeKey();
  const other = makeNode('edge-2');
  replica.stores.nodes.set(other);
  replica.stores.secrets.set(keyOf(other, stranger));
  const answer = await replica.call('GET', '/config', bearer(makeToken(node.spec.uuid ?? '', stranger, clock.wall())));
  expect(answer.body.code).toBe('AGENT_JWT_SIGNATURE_INVALID');
  expect((await replica.as(other, stranger, 'GET', '/config')).status).toBe(200);
});

test('a token signed with the key of a former node of the same uuid gets 401', async () => {
  const { replica, node, key, clock } = await startWithNode({ client: emptyClient });
  await using _ = replica;
  const successor = makeNode('edge-1', { uuid: node.spec.uuid });
  replica.stores.nodes.remove(node);
  replica.stores.nodes.set(successor);
  const answer = await replica.call('GET', '/config', bearer(makeToken(node.spec.uuid ?? '', key, clock.wall())));
  expect(answer.body.code).toBe('AGENT_PUBLIC_KEY_NOT_FOUND');
});

test('one token sent ten times at once is accepted exactly once', async () => {
  const { replica, node, key, clock } = await startWithNode();
  await using _ = replica;
  const token = makeToken(node.spec.uuid ?? '', key, clock.wall());
  const answers = await Promise.all(Array.from({ length: 10 }, () => replica.call('GET', '/config', bearer(token))));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(401)]);
  expect(answers.filter(({ status }) => status === 401).map(({ body }) => body.code)).toEqual(
    Array(9).fill('AGENT_JWT_ALREADY_USED'),
  );
});

test('one token of a node that the store does not have yet, sent ten times at once, is accepted exactly once', async () => {
  const key = makeKey();
  let late = makeNode('late');
  const { replica, clock } = await startWithNode({
    client: {
      list: async () => ({ items: [late], resourceVersion: '1000000' }),
      find: async () => keyOf(late, key),
    } as unknown as KubeClient,
  });
  await using _ = replica;
  late = makeNode('late');
  const token = makeToken(late.spec.uuid ?? '', key, clock.wall());
  const answers = await Promise.all(Array.from({ length: 10 }, () => replica.call('GET', '/config', bearer(token))));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(401)]);
});

test('a used token is refused until it expires, tolerance included', async () => {
  const { replica, node, key, clock } = await startWithNode();
  await using _ = replica;
  const token = makeToken(node.spec.uuid ?? '', key, clock.wall());
  expect((await replica.call('GET', '/config', bearer(token))).status).toBe(200);
  await clock.advance(69_000, { timers: 0 });
  expect((await replica.call('GET', '/config', bearer(token))).body.code).toBe('AGENT_JWT_ALREADY_USED');
  await clock.advance(1_000, { timers: 0 });
  expect((await replica.call('GET', '/config', bearer(token))).body.code).toBe('AGENT_JWT_EXPIRED');
});

test('an unknown node gets 503, never 401, while the API server does not respond', async () => {
  const { replica, key, clock } = await startWithNode();
  await using _ = replica;
  const answer = await replica.call(
    'GET',
    '/config',
    bearer(makeToken(makeNode('x').spec.uuid ?? '', key, clock.wall())),
  );
  expect(answer.status).toBe(503);
  expect(answer.body).toMatchObject({ code: 'CONTROLLER_AUTH_VERIFICATION_FAILED', retryable: true });
  expect(answer.headers['retry-after']).toBe('5');
});

test('a flood of unknown nodes gets 503 and costs a few API requests a second only', async () => {
  let looks = 0;
  const { replica, key, clock } = await startWithNode({
    client: {
      ...emptyClient,
      find: async () => {
        looks++;
        return undefined;
      },
    } as unknown as KubeClient,
  });
  await using _ = replica;
  const codes = new Set<string>();
  for (let i = 0; i < 50; i++) {
    const token = makeToken(makeNode(`x${i}`).spec.uuid ?? '', key, clock.wall());
    codes.add((await replica.call('GET', '/config', bearer(token))).body.code);
  }
  expect(looks).toBe(20);
  expect([...codes]).toEqual(['AGENT_NODE_NOT_FOUND', 'CONTROLLER_AUTH_VERIFICATION_FAILED']);
});

test('a node that sends requests without pause gets 429, others do not', async () => {
  const { replica, node, key, clock } = await startWithNode({ limits: { requestsPerNode: 1 } });
  await using _ = replica;
  const other = makeNode('edge-2');
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
  await using _ = replica;
  const answer = await replica.call('GET', '/config');
  expect(answer.status).toBe(401);
  expect(answer.headers.connection).toBe('keep-alive');
});

test('a path that is no agent route is left to other handlers', async () => {
  const { replica } = await startWithNode();
  await using _ = replica;
  expect((await fetch(`${replica.url}/api/v3/agents`)).status).toBe(418);
  expect((await fetch(`${replica.url}/api/v3/node-list`)).status).toBe(418);
  expect((await fetch(`${replica.url}/api/v3/agent/nowhere`)).status).toBe(404);
  expect((await fetch(`${replica.url}/api/v3/agent/status`)).status).toBe(405);
});
