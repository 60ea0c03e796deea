import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { HEADERS } from '../api/names.ts';
import { desiredState, nodeUuid } from '../domain/index.ts';
import { replyTo } from '../http/http-error.ts';
import { json, type Reply, send } from '../http/reply.ts';
import { createByteBudget } from '../kube/byte-budget.ts';
import {
  type Clock,
  isTransient,
  type KubeClient,
  type KubeObject,
  type Log,
  type Store,
  systemClock,
} from '../kube/mod.ts';
import { createTokenBuckets } from '../kube/token-bucket.ts';
import type { Epochs } from '../stores/epochs.ts';
import { createAuthenticate } from './authenticate.ts';
import { type Call, createCall, type Hear, targetOf } from './call.ts';
import { createChanges, isForeign } from './changes.ts';
import {
  AGENT_LIMITS,
  type AgentMetric,
  type AgentMetrics,
  type AgentOptions,
  type AgentRoutes,
  type AgentStores,
  type ProvisioningKeys,
} from './dependencies.ts';
import { createDesiredCache } from './desired-cache.ts';
import { type CheckEpoch, createEpochCheck } from './epoch-check.ts';
import { AgentFailure, failureOf, notReady } from './failure.ts';
import { createHeldPolls } from './held-polls.ts';
import { createJsonReader } from './json-body.ts';
import type { News } from './news.ts';
import { createNodeDirectory } from './node-directory.ts';
import { createNotOlderThan } from './not-older-than.ts';
import { createProvision } from './provision.ts';
import { createReadiness } from './readiness.ts';
import { createReads } from './reads.ts';
import type { UsedTokens } from './replay.ts';
import { createSealedPositions } from './sealed-position.ts';
import { createStatements } from './statements.ts';
import { createTold } from './told.ts';
import { createVersion } from './version.ts';

export interface AgentRoutesOptions extends AgentOptions {
  client: Pick<KubeClient, 'list' | 'listPage' | 'find' | 'create' | 'replace' | 'delete'>;
  stores: AgentStores;
  provisioningKeys: ProvisioningKeys;
  news: News;
  used: UsedTokens;
  /** without it agents get no epoch positions, and every list is complete */
  epochs?: Epochs;
  log: Log;
  clock?: Clock;
  metrics?: AgentMetrics;
  /** what a node is to do; the domain's own unless a test says otherwise */
  desiredState?: typeof desiredState;
}

const BASE = '/api/v3/agent';
const MICROSERVICE = '/microservices/';
const RATE_BURST_SECONDS = 10;
const FLUSH_MS = 1_000;
/** Bytes of bodies that cost a node as much of its share as a request. */
const BYTES_PER_REQUEST = 16 * 1024;
/** Mistakes in a report that do: finding them takes longer than reading it. */
const MISTAKES_PER_REQUEST = 20;
const LIVE_VERSION_MS = 5_000;

/** Statuses of failed provisionings that count against the address: wrong keys, and bodies that never end. */
const COUNTED: ReadonlySet<number> = new Set([401, 404, 408]);

/** A route of a node that proved who it is. Its body is read, as JSON, only where the route wants one. */
interface Route {
  metric: AgentMetric;
  answer(call: Call, body: unknown): Reply | Promise<Reply>;
  maxBody?: number;
}

/**
 * Everything below `/api/v3/agent`, on a listener that others share. No request waits on the API server except
 * provisioning, deprovisioning, deletion and version orders; the rest is answered from the local views.
 */
export function createAgentRoutes(options: AgentRoutesOptions): AgentRoutes {
  const { client, stores, news, namespace, log, clock = systemClock, metrics = {} } = options;
  const limits = { ...AGENT_LIMITS, ...options.limits };
  const addressOf = options.addressOf ?? ((req) => req.socket.remoteAddress ?? '');
  const directory = createNodeDirectory({ stores, client, namespace, clock });
  const rates = createTokenBuckets({
    clock,
    perSecond: limits.requestsPerNode,
    burst: limits.requestsPerNode * RATE_BURST_SECONDS,
  });
  const authenticate = createAuthenticate({
    directory,
    used: options.used,
    rates,
    clock,
    startedAt: clock.wall(),
    ...(options.publicUrl !== undefined && { audience: options.publicUrl }),
  });
  const desired = createDesiredCache({
    stores,
    namespace,
    metrics,
    desiredState: options.desiredState ?? desiredState,
    ...(options.revisionKey !== undefined && { revisionKey: options.revisionKey }),
  });
  const held = createHeldPolls({
    digests: desired.digests,
    clock,
    log,
    perNode: limits.heldPollsPerNode,
    onCount: (count) => metrics.heldPolls?.(count),
    onEnd: (how) => metrics.heldPollEnded?.(how),
    onTold: (ms) => metrics.told?.(ms / 1000),
  });
  const told = createTold(clock);
  const readJson = createJsonReader(clock);
  const receiving = createByteBudget(limits.receiving.all);
  const fromNodes = createByteBudget({ ...limits.receiving.all, each: limits.receiving.node, within: receiving });
  const fromStrangers = createByteBudget({
    ...limits.receiving.strangers,
    each: limits.receiving.address,
    within: receiving,
  });
  const guesses = createTokenBuckets({
    clock,
    perSecond: limits.guessesPerMinute / 60,
    burst: limits.guessesPerMinute,
  });
  const provision = createProvision({ client, stores, directory, namespace, clock });

  const hear: Hear = (call, said = {}) => {
    const { uuid, agent, instance, boot } = call;
    news.hear({
      uuid,
      contactAt: clock.wall(),
      holdSeconds: 0,
      ...(agent !== undefined && { agent }),
      ...(instance !== undefined && { instance }),
      ...(boot !== undefined && { boot }),
      ...said,
    });
  };

  /**
   * Nodes that read a list, until they have a position after it: the first one may be older than the list.
   * Their long polls end with each new position, or a restore during the poll would not be noticed.
   */
  const awaitingPosition = new Map<string, number>();
  const onListed = (uuid: string) => void (options.epochs && awaitingPosition.set(uuid, 2));
  const positions = options.epochs?.subscribe(() => {
    for (const [uuid, left] of awaitingPosition) {
      if (left > 1) awaitingPosition.set(uuid, left - 1);
      else awaitingPosition.delete(uuid);
      held.release(uuid);
    }
  });
  const checkEpoch: CheckEpoch = options.epochs
    ? createEpochCheck(options.epochs, directory, createSealedPositions(options.revisionKey ?? ''), clock)
    : () => ({});
  const changes = createChanges({ desired, directory, held, told, checkEpoch, hear, clock, maxHeld: limits.heldPolls });
  const answeredFrom = [
    stores.nodes,
    stores.applications,
    stores.registries,
    stores.secrets,
    stores.configMaps,
  ] as const;
  const notOlderThan = createNotOlderThan({
    stores: answeredFrom,
    replica: randomUUID(),
    liveVersion: async (i) => {
      const { resource } = answeredFrom[i] as Store<KubeObject>;
      return (await client.listPage(resource, { namespace, limit: 1, timeoutMs: LIVE_VERSION_MS })).resourceVersion;
    },
    clock,
  });
  /** Answers from stores that are at least as new as what the agent has, and adds the bound `notOlderThan`. */
  const current =
    (answer: (call: Call) => Reply | Promise<Reply>) =>
    async (call: Call): Promise<Reply> => {
      const reached = isForeign(call) ? undefined : notOlderThan.reached(call.notOlderThan);
      if (reached) {
        hear(call);
        await reached;
      }
      const reply = await answer(call);
      if (isForeign(call)) return reply;
      return {
        ...reply,
        headers: { ...reply.headers, [HEADERS.notOlderThan]: notOlderThan.bound(call.notOlderThan) },
      };
    };
  const reads = createReads({ desired, checkEpoch, onListed, told, hear, clock });
  const statements = createStatements({
    client,
    stores,
    namespace,
    hear,
    hasReport: news.hasReport,
    flush: () => news.flush(FLUSH_MS),
    mended: (uuid, mistakes) => rates.charge(uuid, mistakes / MISTAKES_PER_REQUEST),
    clock,
    metrics,
  });
  const version = createVersion({ desired, provisioningKeys: options.provisioningKeys, hear, clock });
  const maxBody = limits.bodyBytes;

  const poll: Route = { metric: 'poll', answer: current(changes.poll) };
  const acknowledge: Route = { metric: 'poll', answer: changes.acknowledge, maxBody };
  const routes = new Map<string, Route>([
    ...Object.entries(reads.routes).map(([path, answer]): [string, Route] => [
      `GET ${path}`,
      { metric: 'read', answer: current(answer) },
    ]),
    ['GET /changes', poll],
    ['GET /config/changes', poll],
    ['PATCH /changes', acknowledge],
    ['PATCH /config/changes', acknowledge],
    ['GET /microservices', { metric: 'read', answer: current(reads.microservices) }],
    ['GET /version', { metric: 'read', answer: version }],
    ['GET /cert', { metric: 'read', answer: certificate }],
    ['GET /tunnel', { metric: 'read', answer: tunnel }],
    ['PUT /status', { metric: 'status', answer: statements.status, maxBody: limits.reportBytes }],
    ['PATCH /config', { metric: 'read', answer: statements.config, maxBody }],
    ['PATCH /config/gps', { metric: 'read', answer: statements.coordinates, maxBody }],
    ['POST /tracking', { metric: 'read', answer: statements.tracking, maxBody }],
    ['POST /controller/register', { metric: 'read', answer: statements.registerController, maxBody }],
    ['POST /deprovision', { metric: 'provision', answer: statements.deprovision, maxBody }],
    ['DELETE /delete-node', { metric: 'provision', answer: statements.deleteNode }],
  ]);
  const paths = new Set(Array.from(routes.keys(), (key) => key.slice(key.indexOf(' ') + 1)));

  function certificate(call: Call): Reply {
    hear(call);
    const body = options.caCert?.() ?? '';
    if (!body)
      throw new AgentFailure('CERTIFICATE_NOT_FOUND', 'there is no certificate to trust besides those of the system');
    return { status: 200, body, type: 'text/plain; charset=utf-8' };
  }

  function tunnel(call: Call): Reply {
    hear(call);
    throw new AgentFailure('TUNNEL_NOT_FOUND', 'there is no tunnel for this node');
  }

  const readiness = createReadiness(Object.values(stores), clock);

  function routeOf(method: string, path: string): Route {
    const route = routes.get(`${method} ${path}`);
    if (route) return route;
    const uuid = path.startsWith(MICROSERVICE) ? path.slice(MICROSERVICE.length) : '';
    const isOne = uuid !== '' && !uuid.includes('/');
    if (isOne && method === 'GET') return { metric: 'read', answer: (call) => reads.microservice(call, uuid) };
    if (isOne || paths.has(path)) throw new AgentFailure('METHOD_NOT_ALLOWED', `${path} has no ${method}`);
    throw new AgentFailure('ROUTE_NOT_FOUND', 'there is no such route');
  }

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<Reply> {
    const { path, query } = targetOf(req);
    const method = req.method ?? '';
    const below = path.slice(BASE.length);
    const settled = readiness.wait();
    if (settled) await settled;
    if (below === '/provision' && method === 'POST') return provisioned(req, res);
    const route = routeOf(method, below);
    const who = authenticate(req.headers.authorization);
    const call = createCall(req, res, query, who instanceof Promise ? await who : who);
    metrics.agent?.(route.metric);
    const body =
      route.maxBody === undefined
        ? undefined
        : await readJson(req, {
            maxBytes: route.maxBody,
            budget: fromNodes,
            caller: call.uuid,
            ms: limits.bodyMs,
            received: (bytes) => rates.charge(call.uuid, bytes / BYTES_PER_REQUEST),
          });
    return withPosition(call, await route.answer(call, body));
  }

  /** Adds the position for our agent to save, where the log has its own. */
  function withPosition(call: Call, reply: Reply): Reply {
    const checked = isForeign(call) ? {} : checkEpoch(call);
    if (checked instanceof Promise) {
      // The next request checks again.
      checked.catch(() => {});
      return reply;
    }
    const { position, retainUnlisted } = checked;
    return position && !retainUnlisted
      ? { ...reply, headers: { ...reply.headers, [HEADERS.epochPosition]: position } }
      : reply;
  }

  async function provisioned(req: IncomingMessage, res: ServerResponse): Promise<Reply> {
    const address = addressOf(req);
    if (guesses.waitMs(address) > 0) {
      throw new AgentFailure('TOO_MANY_REQUESTS', 'too many failed provisionings from this address', {
        retryAfterSeconds: 60,
      });
    }
    try {
      const body = await readJson(req, {
        maxBytes: limits.strangerBytes,
        budget: fromStrangers,
        caller: address,
        ms: limits.strangerBodyMs,
      });
      const { node, key, reply, anew } = await provision(body);
      metrics.agent?.('provision', anew ? 'new' : 'again');
      const call = createCall(req, res, '', { uuid: key.nodeUuid, node });
      if (anew) told.forget(key.nodeUuid);
      hear(call, anew ? { anew: true } : {});
      log.info({ node: node.metadata.name, uuid: key.nodeUuid, address, anew }, 'Node provisioned');
      return json(reply);
    } catch (error) {
      if (error instanceof AgentFailure && COUNTED.has(error.status)) guesses.take(address);
      throw error;
    }
  }

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    try {
      send(res, await answer(req, res), { closing: !readiness.ready, compress: true });
    } catch (error) {
      const failure = failureOf(error);
      metrics.agent?.('refused', failure.code);
      if (failure.cause !== undefined) {
        const level = isTransient(failure.cause) ? 'warn' : 'error';
        log[level]({ err: failure.cause, path: targetOf(req).path }, 'Agent request failed');
      }
      // A body that nobody read would have to be received first.
      // Who asks again may reach another replica, on a connection of its own.
      const closing = !readiness.ready || failure.code === 'CONTROLLER_NOT_READY' || !req.complete;
      send(res, replyTo(failure), { closing, compress: true });
    }
  }

  const wakes = desired.subscribe(held.wake);
  const gone = stores.nodes.subscribe((change) => {
    if (change.type !== 'delete') return;
    const uuid = nodeUuid(change.object);
    if (stores.nodes.byIndex('uuid', uuid).length > 0) return;
    told.forget(uuid);
    news.forget(uuid);
  });

  return {
    handle(req, res) {
      const { path } = targetOf(req);
      if (!path.startsWith(BASE) || (path.length > BASE.length && path[BASE.length] !== '/')) return false;
      void serve(req, res);
      return true;
    },
    async authenticate(req) {
      if (!readiness.ready) throw notReady('the controller is not ready');
      return authenticate(req.headers.authorization);
    },
    async drain(graceMs) {
      readiness.drain();
      held.drain();
      await news.flush(graceMs);
    },
    get ready() {
      return readiness.ready;
    },
    get heldPolls() {
      return held.count;
    },
    desired: desired.state,
    async [Symbol.asyncDispose]() {
      held.drain();
      wakes[Symbol.dispose]();
      positions?.[Symbol.dispose]();
      gone[Symbol.dispose]();
      desired[Symbol.dispose]();
    },
  };
}
