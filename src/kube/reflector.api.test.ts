import { beforeEach, describe, expect, test } from 'vitest';
import { churn, createProxied, type Fixture, startMirror, untilEqual } from './_api-server.ts';
import { type FaultProxy, type Seen, statusBody, type Trouble } from './_fault-proxy.ts';
import { CONFIG_MAPS, type ConfigMap, until } from './_util.ts';
import type { KubeClient } from './client.ts';
import { compareResourceVersions } from './object.ts';
import type { ReflectorOptions, ReflectorTiming } from './reflector.ts';

let fixture: Fixture;
let proxy: FaultProxy;
/** Connected through the proxy. */
let client: KubeClient;

beforeEach(async () => {
  ({ fixture, proxy, client } = await createProxied({ maxLineBytes: 100_000 }));
});

/** Short times, so that tests are fast. The results do not depend on the values. */
const TIMING: Partial<ReflectorTiming> = {
  backoff: { baseMs: 20, factor: 2, maxMs: 200, jitter: 0.5 },
  idleMs: 700,
  listIdleMs: 1_000,
  openMs: 1_000,
  pageMs: 1_000,
  refusedMs: 100,
  healthyMs: 1_000,
};

const isWatch = ({ watch, query }: Seen) => watch && query.get('sendInitialEvents') === null;
const isStream = ({ query }: Seen) => query.get('sendInitialEvents') === 'true';
const isPage = ({ path, method, watch }: Seen) => method === 'GET' && path.endsWith('/configmaps') && !watch;
const isNextPage = (seen: Seen) => isPage(seen) && seen.query.has('continue');

/** The token that the API server returns for an expired one: it continues at the same key, from the latest state. */
function inconsistent(token: string): string {
  const { start } = JSON.parse(Buffer.from(token, 'base64url').toString());
  return Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: -1, start })).toString('base64url');
}

const expiredPage = ({ query }: Seen): Trouble => ({
  answer: {
    status: 410,
    body: { ...statusBody(410, 'Expired'), metadata: { continue: inconsistent(query.get('continue') as string) } },
  },
});

const expiredEvent = `${JSON.stringify({ type: 'ERROR', object: statusBody(410, 'Expired', 'too old resource version') })}\n`;

interface Case {
  match: (seen: Seen) => boolean;
  trouble: Trouble | ((seen: Seen) => Trouble);
  times: number;
  options?: Partial<ReflectorOptions<ConfigMap>>;
  /** Whether the reflector must have taken a new list; undefined: it may have. */
  relists?: boolean;
  /** The reason for which a watch must have ended; undefined when the client handles the fault by a retry. */
  reason?: string;
}

const faults: Record<string, Case> = {
  'connections that are reset within an event': {
    reason: 'lost',
    match: () => true,
    trouble: { cutAfter: 25 },
    times: 8,
    relists: false,
  },
  'a connection that is reset within the streamed list': {
    reason: 'lost',
    match: isStream,
    trouble: { cutAfter: 5 },
    times: 2,
  },
  'connections that stay open and send nothing more': {
    reason: 'timeout',
    match: isWatch,
    trouble: { swallowAfter: 10 },
    times: 2,
  },
  'a streamed list that stalls': { reason: 'timeout', match: isStream, trouble: { swallowAfter: 3 }, times: 1 },
  'an expiry event within a watch': {
    reason: 'expired',
    match: isStream,
    trouble: { insertAfter: 60, text: expiredEvent },
    times: 3,
    relists: true,
  },
  'an expiry error at the start of a watch': {
    reason: 'expired',
    match: isWatch,
    trouble: { answer: { status: 410, body: statusBody(410, 'Expired') } },
    times: 2,
    relists: true,
  },
  'an expired token between the pages of a list': {
    match: isNextPage,
    trouble: expiredPage,
    times: 1,
    options: { lists: 'pages', pageSize: 5 },
  },
  'two expired tokens between the pages of a list': {
    match: isNextPage,
    trouble: expiredPage,
    times: 2,
    options: { lists: 'pages', pageSize: 5 },
  },
  '429 with Retry-After': {
    reason: 'http-429',
    match: ({ watch }) => watch,
    trouble: { answer: { status: 429, headers: { 'retry-after': '1' }, body: statusBody(429, 'TooManyRequests') } },
    times: 2,
  },
  'internal errors of a watch': {
    reason: 'http-500',
    match: ({ watch }) => watch,
    trouble: { answer: { status: 500, body: statusBody(500, 'InternalError') } },
    times: 4,
  },
  'internal errors of a list in pages': {
    match: isPage,
    trouble: { answer: { status: 500, body: 'not even JSON' } },
    times: 3,
    options: { lists: 'pages', pageSize: 5 },
  },
  'a server that does not respond': { reason: 'timeout', match: () => true, trouble: { hang: true }, times: 2 },
  'a page without a response': {
    reason: 'timeout',
    match: isNextPage,
    trouble: { hang: true },
    times: 1,
    options: { lists: 'pages', pageSize: 5 },
  },
  'a watch event that is not JSON': {
    reason: 'malformed',
    match: isStream,
    trouble: { insertAfter: 40, text: '{"type":"MODI\n' },
    times: 2,
    relists: true,
  },
  'a watch event that exceeds the maximum length': {
    reason: 'too-large',
    match: isStream,
    trouble: { insertAfter: 40, text: 'x'.repeat(200_000) },
    times: 2,
    relists: true,
  },
  'a server that does not stream lists': {
    reason: 'no-streams',
    match: isStream,
    trouble: { answer: { status: 422, body: statusBody(422, 'Invalid', 'sendInitialEvents is forbidden') } },
    times: 1,
  },
  'temporarily missing permissions': {
    reason: 'refused',
    match: () => true,
    trouble: { answer: { status: 403, body: statusBody(403, 'Forbidden') } },
    times: 2,
  },
  'temporarily refused credentials': {
    reason: 'unauthorized',
    match: () => true,
    trouble: { answer: { status: 401, body: statusBody(401, 'Unauthorized') } },
    times: 3,
  },
};

describe('a reflector misses no change with', () => {
  test.each(Object.entries(faults))('%s', async (_name, { match, trouble, times, options, relists, reason }) => {
    // The objects at the start, more than one page of them.
    await churn(fixture, 60, { seed: 7 });
    const fault = proxy.inject(match, trouble, times);
    const mirror = startMirror(fixture, client, { timing: TIMING, ...options });
    await until('the first list', () => mirror.store.synced);
    // Objects change until the fault has matched `times` requests, and after that.
    for (let round = 0; fault.hits < times || round < 2; round++) {
      if (round > 60) throw new Error(`the fault struck ${fault.hits} times only`);
      await churn(fixture, 60, { seed: 100 + round, names: 24 + round });
      // As long as a connection lives there is no new request: reset it.
      if (round >= 2 && fault.hits < times) proxy.cutAll();
    }
    const want = await untilEqual(fixture, mirror.store);
    expect(fault.hits).toBe(times);
    expect([...mirror.reported].map(([key, version]) => `${key} ${version}`).sort()).toEqual(want);
    expect(mirror.regressions).toEqual([]);
    if (reason !== undefined) expect(mirror.ended.map((end) => end.reason)).toContain(reason);
    if (relists !== undefined) expect(mirror.lists > 1).toBe(relists);
  });
});

test.each(['auto', 'pages'] as const)(
  'a store that is listed again comes as far as the API server was before: lists %s',
  async (lists) => {
    const mirror = startMirror(fixture, client, { lists });
    const { store, reflector } = mirror;
    await until('the first list', () => store.synced);
    // Not an object of the store, which no event therefore moves on.
    const metadata = { name: 'elsewhere', namespace: fixture.namespace };
    await fixture.client.create<ConfigMap>(CONFIG_MAPS, { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: {} });
    const present = (await fixture.client.listPage(CONFIG_MAPS, { namespace: fixture.namespace, limit: 1 }))
      .resourceVersion;
    reflector.listAgain();
    await until('a second list', () => mirror.lists === 2);
    expect(compareResourceVersions(store.seenTo, present)).toBeGreaterThanOrEqual(0);
  },
);
