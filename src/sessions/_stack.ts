import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { storedApplication, storedNode } from '../../testing/stored.ts';
import { fill, keyOf, makeKey, makeToken, startReplica } from '../agents/_util.ts';
import { HEADERS } from '../api/names.ts';
import { createRest } from '../assembly/rest.ts';
import { createLookups } from '../datastore/lookups.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { createMemoryDependencies } from '../rest/_memory.ts';
import { createTokenTable } from '../rest/_rules.ts';
import { ROLE_NAMES } from '../rest/access/roles.ts';
import { presentNodes } from '../rest/objects/present.ts';
import type { AuditEvent } from '../rules/audit.ts';

import { type Client, type Opened, openClient, socketOf } from './_client.ts';
import type { Broker } from './broker.ts';
import { createBrokerRelay } from './broker-relay.ts';
import type { SessionMetrics } from './metrics.ts';

import { createPlaces } from './places.ts';
import { createRelay } from './relay.ts';
import { createSessions } from './sessions.ts';
import { createSharedPlaces } from './shared-places.ts';
import { createUpgrades } from './upgrades.ts';

/** Times of places that a test can wait for. */
const TIMES = { settle: 400, unconfirmed: 5_000, silent: 4_000, hold: 300 };

const WEB = '11111111-1111-4111-8111-111111111111';
const ROUTER = '22222222-2222-4222-8222-222222222222';

/** By token: each role is a user, and there are 60 more admins, `admin-0` to `admin-59`. */
const USERS = Object.fromEntries([
  ...ROLE_NAMES.map((role) => [role, { name: role, groups: [] }] as const),
  ...Array.from({ length: 60 }, (_, i) => [`admin-${i}`, { name: `admin-${i}`, groups: ['admin'] }] as const),
]);

/** Of the i-th of many microservices. */
const uuidOf = (i: number) => `33333333-3333-4333-8333-${String(i).padStart(12, '0')}`;

/** One node and its microservices `web` and `router`, which run, and as many further ones. */
function makeObjects(further: number) {
  const many = Array.from({ length: further }, (_, i) => ({ name: `m${i}`, uuid: uuidOf(i) }));
  const observed = [
    { uuid: WEB, state: 'RUNNING', application: 'shop', name: 'web' },
    { uuid: ROUTER, state: 'RUNNING', application: 'system', name: 'router' },
    ...many.map((one) => ({ ...one, state: 'RUNNING', application: 'many' })),
  ];
  const node = storedNode('edge-1');
  const lastSeenTime = new Date().toISOString();
  Object.assign(node, { status: { daemonStatus: 'RUNNING', lastSeenTime, agent: '1.0.0', microservices: observed } });
  const key = makeKey();
  const entry = { agent: { name: 'edge-1' }, images: { amd64: 'registry.example/web:1' } };
  const applications = [
    storedApplication('shop', [{ ...entry, name: 'web', uuid: WEB }]),
    storedApplication('system', [{ ...entry, name: 'router', uuid: ROUTER }]),
    storedApplication(
      'many',
      many.map((one) => ({ ...entry, ...one })),
    ),
  ];
  Object.assign(applications[1]?.spec ?? {}, { isSystem: true });
  return { node, key, applications };
}

/** The clock of the system, except that a test can skip time that it would have to wait. */
function createSkippingClock(): Clock & { skip(ms: number): void } {
  let skipped = 0;
  const alarms = new Set<{ at: number; ring(): void }>();
  const now = () => systemClock.now() + skipped;
  return {
    now,
    wall: () => systemClock.wall() + skipped,
    after(ms, callback) {
      const drop = () => {
        alarms.delete(alarm);
        cancel();
      };
      const ring = () => {
        drop();
        callback();
      };
      const alarm = { at: now() + ms, ring };
      const cancel = systemClock.after(ms, ring);
      alarms.add(alarm);
      return drop;
    },
    skip(ms) {
      skipped += ms;
      const due = [...alarms].filter(({ at }) => at <= now()).sort((a, b) => a.at - b.at);
      for (const alarm of due) if (alarms.has(alarm)) alarm.ring();
    },
  };
}

interface Seen {
  logged: string[];
  events: Omit<AuditEvent, 'id' | 'timestamp'>[];
  /** Kubernetes Events: `Application/shop SessionBegan note` */
  recorded: string[];
  /** `sessionEnded exec 1000` */
  measured: string[];
}

/** A replica: alone with its places, or with an internal listener on which others reach it. */
async function startOne(
  objects: ReturnType<typeof makeObjects>,
  { logged, events, recorded, measured }: Seen,
  {
    isAlone,
    broker,
    isDirectToo,
    relayClock,
    clock,
  }: {
    isAlone: boolean;
    broker?: Broker | undefined;
    isDirectToo?: boolean | undefined;
    relayClock: Clock;
    clock: Clock;
  },
) {
  const log = new Proxy(silentLog, {
    get:
      () =>
      (...parts: unknown[]) =>
        void logged.push(JSON.stringify(parts)),
  }) as Log;
  const { node, key, applications } = objects;
  const deps = createMemoryDependencies({
    authenticator: createTokenTable(USERS),
    observations: { of: (...asked) => replica.agents.currentValues.of(...asked), listeningSince: () => 0 },
  });
  const rest = createRest({ deps, log });
  const leadership = { isLeading: isAlone, leaderAddress: undefined as string | undefined };
  const shared = isAlone ? undefined : createSharedPlaces({ leadership, clock: systemClock, log, times: TIMES });
  const places = shared ?? createPlaces();
  const metrics = new Proxy({} as SessionMetrics, {
    get:
      (_, name: string) =>
      (...labels: unknown[]) =>
        void measured.push([name, ...labels].join(' ')),
  });
  const sessions = createSessions({ places, metrics, clock, log });
  const replica = await startReplica({
    sessions: places,
    leadership,
    ...(shared && { internalHandlers: shared.handlers }),
  });
  fill(replica.stores, { nodes: [node], applications, secrets: [keyOf(node, key)] });
  const { internalServer, leader } = replica.agents;
  const internal = createRelay({
    sessions,
    token: async () => 'replica',
    authenticate: internalServer.authenticate,
    clock: systemClock,
    log,
  });
  internalServer.http.on('upgrade', internal.handle);
  const relay = broker
    ? createBrokerRelay({
        ...{ broker, sessions, failsFast: true, isAlone: () => isAlone, clock: relayClock, log },
        otherwise: isDirectToo ? internal : undefined,
      })
    : internal;
  const connections = new Set<Duplex>();
  for (const http of [internalServer.http, rest.http])
    http.on('connection', (socket: Duplex) => {
      connections.add(socket);
      socket.once('close', () => connections.delete(socket));
    });
  const address = `127.0.0.1:${(await internalServer.listen({ port: 0, host: '127.0.0.1' })).port}`;
  const upgrades = createUpgrades({
    ...{ sessions, places, relay },
    lookups: createLookups(replica.stores),
    present: async (node, signal) => (await presentNodes(deps, [node], signal))(node),
    admitUser: rest.admitSocket,
    admitAgent: replica.agents.routes.authenticate,
    addressOf: (request) => String(request.headers['x-address'] ?? '127.0.0.1'),
    audit: { record: (event) => void events.push(event), recordsAddresses: true },
    events: {
      record: ({ kind, metadata }, { reason, note }) =>
        void recorded.push(`${kind}/${metadata.name} ${reason} ${note}`),
    },
    metrics,
    groundMs: 200,
    clock,
    log,
  });
  rest.http.on('upgrade', upgrades.handle);
  await rest.listen({ port: 0, host: '127.0.0.1' });
  const url = `ws://127.0.0.1:${(rest.http.address() as AddressInfo).port}/api/v3`;
  const stop = new AbortController();
  void shared?.run({ call: leader.call, address }, stop.signal);
  return {
    ...{ sessions, places, replica, relay, rest, upgrades, leadership, address, url },
    /** Ends the process as SIGKILL does: its connections are gone, and nothing more comes from it. */
    kill() {
      stop.abort();
      leadership.isLeading = false;
      leadership.leaderAddress = undefined;
      for (const socket of connections) socket.destroy();
      internal[Symbol.dispose]();
      relay[Symbol.dispose]();
      rest.http.close();
      internalServer.http.close();
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      upgrades.drain();
      upgrades[Symbol.dispose]();
      internal[Symbol.dispose]();
      relay[Symbol.dispose]();
      for (const socket of connections) socket.destroy();
      await rest[Symbol.asyncDispose]();
      await replica[Symbol.asyncDispose]();
    },
  };
}

interface StackOptions {
  replicas?: number;
  isLed?: boolean;
  /** further ones, which run */
  microservices?: number;
  /** The connection of each replica to a router or bus, over which sessions go; over the internal channel when absent. */
  makeBroker?: (() => Broker) | undefined;
  /** whether sessions go over the internal channel when the broker is away */
  isDirectToo?: boolean;
  /** of the sockets of users and agents, and of sessions */
  clock?: Clock;
}

/**
 * A controller with one node and its microservice `web`, which runs: REST with the tokens of the roles, agent routes, and
 * the sockets, over objects in memory. Of several replicas, the first leads.
 */
export async function startStack(options: StackOptions = {}) {
  const {
    replicas: count = 1,
    isLed = true,
    microservices = 0,
    makeBroker,
    isDirectToo,
    clock = systemClock,
  } = options;
  const seen: Seen = { logged: [], events: [], recorded: [], measured: [] };
  const objects = makeObjects(microservices);
  const relayClock = createSkippingClock();
  const replicas = await Promise.all(
    Array.from({ length: count }, () =>
      startOne(objects, seen, { isAlone: count === 1, broker: makeBroker?.(), isDirectToo, relayClock, clock }),
    ),
  );
  const [first] = replicas as [(typeof replicas)[number]];
  /** Makes one replica the leader, or none. */
  function lead(leader: (typeof replicas)[number] | undefined) {
    for (const one of replicas)
      Object.assign(one.leadership, { isLeading: one === leader, leaderAddress: leader?.address });
  }
  if (count > 1 && isLed) {
    lead(first);
    while (!replicas.every(({ places }) => places.isComplete)) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const { node, key } = objects;
  const nodeUuid = node.spec.uuid ?? '';
  // The second before that in which the process began would be refused.
  const token = () => makeToken(nodeUuid, key, Date.now() + 1_000);
  const opened: Opened[] = [];
  const openAt = async (url: string, headers: Record<string, string>, autoPong?: boolean) => {
    const client = await openClient(url, headers, autoPong);
    opened.push(client);
    return client;
  };
  const connect = (path: string, headers: Record<string, string>, at = 0, autoPong?: boolean) =>
    openAt(`${replicas[at]?.url}${path}`, headers, autoPong);
  return {
    ...{
      uuidOf,
      ...first,
      ...seen,
      node,
      nodeUuid,
      key,
      web: WEB,
      router: ROUTER,
      open: openAt,
      connect,
      replicas,
      lead,
    },
    /** A socket that has to open, of a user. */
    async user(path: string, role = 'admin', at = 0, autoPong?: boolean): Promise<Client> {
      return socketOf(await connect(path, { authorization: `Bearer ${role}` }, at, autoPong));
    },
    /** A socket that has to open, of the agent. */
    async agent(path: string, at = 0, autoPong?: boolean): Promise<Client> {
      return socketOf(await connect(`/agent${path}`, { authorization: `Bearer ${token()}` }, at, autoPong));
    },
    /** Waits for what comes by itself, and skips the time that the relay over a broker would let pass until then. */
    async skipUntil<T>(what: Promise<T>): Promise<T> {
      let isDone = false;
      const end = () => {
        isDone = true;
      };
      what.then(end, end);
      while (!isDone) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        if (!isDone) relayClock.skip(1_000);
      }
      return what;
    },
    token,
    /** A request of the agent over HTTP. */
    asAgent: (path: string, at = 0) =>
      (replicas[at] ?? first).replica.call('GET', path, {
        headers: { authorization: `Bearer ${token()}`, [HEADERS.agent]: '1.0.0' },
      }),
    async [Symbol.asyncDispose]() {
      for (const one of opened) if ('ws' in one) one.ws.terminate();
      for (const one of replicas) await one[Symbol.asyncDispose]();
    },
  };
}
