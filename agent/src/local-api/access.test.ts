import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { RoleRule } from '../../../src/wire/agent.ts';
import { atEnd } from '../../../testing/at-end.ts';
import { plainView } from '../_web.ts';
import { LocalAgent } from './_local-agent.ts';
import { localApi, ROUTES } from './routes.ts';
import { listenerOf, onAllListeners, WAYS } from './server/_listeners.ts';
import type { Listener } from './server/authenticate.ts';
import type { LocalRoute } from './server/route.ts';
import type { LocalApi } from './server/server.ts';

/** Who may what: every route, by every caller, on every listener. */

const EVERYTHING: RoleRule = { apiGroups: ['*'], resources: ['*'], verbs: ['*'] };
const [star, plain] = [randomUUID(), randomUUID()];
const CALLERS = ['the admin', 'a workload with *', 'a workload without a role', 'nobody'] as const;
type Caller = (typeof CALLERS)[number];

/** The status of a request that is served; 200 stands for any answer of the handler. */
const SERVED = 200;

/** What each kind of access answers on the socket, and on the listeners that others reach, by caller. */
const EXPECTED: Readonly<
  Record<'admin' | 'grant' | 'workload' | 'unknown', Readonly<Record<Caller, readonly [socket: number, tcp: number]>>>
> = {
  admin: {
    'the admin': [SERVED, 403],
    'a workload with *': [403, 403],
    'a workload without a role': [403, 403],
    nobody: [401, 401],
  },
  grant: {
    'the admin': [SERVED, 403],
    'a workload with *': [SERVED, SERVED],
    'a workload without a role': [403, 403],
    nobody: [401, 401],
  },
  workload: {
    'the admin': [403, 403],
    'a workload with *': [SERVED, SERVED],
    'a workload without a role': [SERVED, SERVED],
    nobody: [401, 401],
  },
  unknown: {
    'the admin': [404, 403],
    'a workload with *': [403, 403],
    'a workload without a role': [403, 403],
    nobody: [401, 401],
  },
};

/** The local API of an agent, of which each route answers without doing anything. */
function idle(agent: LocalAgent['agent']): LocalApi {
  const api = localApi({ agent } as never);
  const reply = { form: 'bare', schema: () => undefined } as never;
  const idleOf = ({ method, path, operation, summary, tag, access }: LocalRoute): LocalRoute => ({
    ...{ method, path, operation, summary, tag, access, reply },
    handler: () => ({ served: true }),
  });
  const find: LocalApi['find'] = (method, path) => {
    const found = api.find(method, path);
    return { ...found, route: idleOf(found.route) };
  };
  return { ...api, find };
}

const local = await LocalAgent.start();
atEnd(() => local[Symbol.asyncDispose]());
const account = (uuid: string, name: string, rules: RoleRule[]) =>
  plainView({ uuid, name, serviceAccount: { name, rules } });
await local.provision(account(star, 'star', [EVERYTHING]), account(plain, 'plain', []));
const ask = await onAllListeners(local, idle(local.agent));
const tokenOf = (uuid: string) =>
  Buffer.from(local.files.read(`serviceaccounts/${uuid}`)?.get('token') ?? '').toString();
const tokens: Record<Caller, string> = {
  'the admin': local.token,
  'a workload with *': tokenOf(star),
  'a workload without a role': tokenOf(plain),
  nobody: '',
};

const concrete = (path: string) => path.replaceAll(/\{\w+\}/g, 'x');

/** Requests by every caller on every listener; returns in words those whose status is not the expected one. */
async function walk(
  requests: readonly (readonly [
    method: string,
    path: string,
    expected: (caller: Caller, listener: Listener) => number,
  ])[],
): Promise<string[]> {
  const wrong: string[] = [];
  const walkers = CALLERS.flatMap((caller) => WAYS.map((way) => ({ caller, way })));
  await Promise.all(
    walkers.map(async ({ caller, way }) => {
      for (const [method, path, expected] of requests) {
        const { status } = await ask(way, method, path, { token: tokens[caller] });
        const wanted = expected(caller, listenerOf(way));
        if (status !== wanted) wrong.push(`${method} ${path} by ${caller} on ${way}: ${status}, not ${wanted}`);
      }
    }),
  );
  return wrong;
}

test('every route answers each caller on each listener as its access says', async () => {
  const requests = ROUTES.map(({ method, path, access }) => {
    const expected = (caller: Caller, listener: Listener) => {
      if (access === 'open') return listener === 'bridge' ? 403 : SERVED;
      const [socket, tcp] = EXPECTED[typeof access === 'object' ? 'grant' : access][caller];
      return listener === 'socket' ? socket : tcp;
    };
    return [method, concrete(path), expected] as const;
  });
  expect(await walk(requests)).toEqual([]);
});

const UNKNOWN = [
  ['GET', '/v1/nonsense', 404],
  ['GET', '/', 404],
  ['PUT', '/v1/system/status', 405],
  ['POST', '/health/live', 405],
  ['GET', '/v1/ms/%zz', 400],
  ['GET', '/v1//system/status', 404],
  ['GET', '/v1/system/status/', 404],
  ['GET', '/%76%31/system/status', 404],
] as const;

test('what does not exist shows to the admin alone, and only on the socket', async () => {
  const requests = UNKNOWN.map(([method, path, own]) => {
    const expected = (caller: Caller, listener: Listener) => {
      const [socket, tcp] = EXPECTED.unknown[caller];
      if (listener !== 'socket') return tcp;
      return caller === 'the admin' ? own : socket;
    };
    return [method, path, expected] as const;
  });
  expect(await walk(requests)).toEqual([]);
});

describe('a route of the local API', () => {
  /** Whoever may do this on a machine is its admin. */
  const SOCKET_ONLY = [
    /^\/v1\/system\/(?!gps)/,
    /^\/v1\/deploy/,
    /^\/v1\/volumes/,
    /^\/v1\/auth\/tokens/,
    /^\/v1\/images:(?!pull)/,
    /:prune$/,
    /\/exec/,
  ];

  test('is not granted where it could change who may what', () => {
    const granted = ROUTES.filter(({ access }) => access !== 'admin' && access !== 'open').map(({ path }) => path);
    expect(granted.filter((path) => SOCKET_ONLY.some((pattern) => pattern.test(path)))).toEqual([]);
  });

  test('is granted for reads, pulls, the position, and microservices of the same application alone', () => {
    const granted = ROUTES.flatMap(({ method, path, access }) =>
      typeof access === 'object' ? [`${access.verb} ${access.resource}: ${method} ${path}`] : [],
    );
    const known = [
      /^get auth\/whoami: GET \/v1\/auth\/whoami$/,
      /^(get|create) system\/gps: (GET|POST) \/v1\/system\/gps$/,
      /^(get|create|delete) microservices: (GET|POST|DELETE) \/v1\/ms(\/\{id\}(\/(start|stop|restart|kill|logs|logs:stream))?)?$/,
      /^get (images|models|knowledge): GET \/v1\/\1(\/\{name\})?$/,
      /^create (images|models|knowledge)\/pull: POST \/v1\/(images|models|knowledge):pull$/,
      /^get (images|models|knowledge)\/pull\/status: GET \/v1\/(images|models|knowledge):pull\/\{operationId\}$/,
    ];
    expect(granted.filter((each) => !known.some((pattern) => pattern.test(each)))).toEqual([]);
    expect(granted.length).toBeGreaterThan(10);
  });

  test('takes no token only for probes and metrics', () => {
    const open = ROUTES.filter(({ access }) => access === 'open').map(({ path }) => path);
    expect(open).toEqual(['/health/live', '/health/ready', '/metrics']);
  });
});
