import { randomUUID } from 'node:crypto';
import type { Epochs } from '../datastore/epochs.ts';
import { provisioningKeyName } from '../datastore/provisioning-key.ts';
import type { VersionKeys } from '../datastore/provisioning-keys.ts';
import { essentialStores, type ReadStores } from '../datastore/stores.ts';
import { createDesiredCache } from '../desired/desired-cache.ts';
import { desiredState } from '../desired/rules/desired.ts';
import { withAuthorities } from '../desired/with-authorities.ts';
import { withSessions } from '../desired/with-sessions.ts';
import { createRateLimit } from '../http/rate-limit.ts';
import type { KubeClient, KubeObject, Store } from '../kube/mod.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { nodeUuid } from '../rules/identity.ts';
import type { PlatformOptions } from '../rules/part.ts';
import { agentEvent } from './audit.ts';
import { createHear, targetOf } from './channel/call.ts';
import {
  AGENT_LIMITS,
  type AgentLimits,
  type AgentOptions,
  type AgentRouteMetrics,
  type AgentRoutes,
  type CurrentValues,
} from './channel/dependencies.ts';
import type { Exchange } from './channel/exchange.ts';
import { AgentFailure, notReady } from './channel/failure.ts';
import { createNodeDirectory } from './channel/node-directory.ts';
import type { ObservationForwarder } from './leader/observation-forwarder.ts';
import { createLongPolls } from './long-polls/long-polls.ts';
import { createPositionUpdates } from './long-polls/position-updates.ts';
import { createSentResponses } from './long-polls/sent-responses.ts';
import { createAuthenticate } from './pipeline/authenticate.ts';
import { type CheckEpoch, createEpochCheck } from './pipeline/epoch-check.ts';
import { createMatch } from './pipeline/match.ts';
import { createNotOlderThan } from './pipeline/not-older-than.ts';
import { createOutgoing } from './pipeline/outgoing.ts';
import { createPipeline, nodeConnection } from './pipeline/pipeline.ts';
import { createReadiness } from './pipeline/readiness.ts';
import { createReceive } from './pipeline/receive.ts';
import { createSealedPositions } from './pipeline/sealed-position.ts';
import { createServe } from './pipeline/serve.ts';
import type { UsedTokens } from './pipeline/used-tokens.ts';
import { createRevocations } from './revocations.ts';
import { createHandlers } from './routes/handlers.ts';
import { agentRoutes } from './routes/table.ts';

export interface AgentRoutesOptions extends AgentOptions {
  client: Pick<KubeClient, 'list' | 'listPage' | 'find' | 'create' | 'replace' | 'delete'>;
  stores: ReadStores;
  versionKeys: VersionKeys;
  forwarder: ObservationForwarder;
  currentValues: CurrentValues;
  used: UsedTokens;
  /** without it agents get no positions, and every list is complete */
  epochs?: Epochs;
  log: Log;
  clock?: Clock;
  metrics?: AgentRouteMetrics;
  /** computes the desired state of a node: that of the domain, which a test may replace */
  desiredState?: typeof desiredState;
  platform?: PlatformOptions;
}

const BASE = '/api/v3/agent';
const RATE_BURST_SECONDS = 10;
/** So many mistakes in reports count as one request against the limit of a node: finding them takes long. */
const MISTAKES_PER_REQUEST = 20;
const LIVE_VERSION_MS = 5_000;
/** characters of a provisioning key that is looked up */
const PROVISIONING_KEY_LENGTH = 255;

/**
 * Everything below `/api/v3/agent`, on a listener that others share: the table of routes (routes/table.ts), the pipeline
 * of each request (pipeline/pipeline.ts), and their dependencies. Only provisioning, deprovisioning, deletion and version
 * requests wait for the API server; the other responses come from the stores.
 */
export function createAgentRoutes(options: AgentRoutesOptions): AgentRoutes {
  const { client, stores, forwarder, namespace, log, clock = systemClock, metrics = {}, revisionKey } = options;
  const limits = { ...AGENT_LIMITS, ...options.limits };
  const required: Readonly<Record<string, Store<KubeObject>>> = essentialStores(
    stores,
    options.platform ?? {},
  ) as never;
  const { requests, guesses, refusals } = createLimits(limits, clock);
  const readiness = createReadiness(Object.values(required), clock);
  const directory = createNodeDirectory({ stores, client, namespace, clock });
  const authenticate = createAuthenticate({
    directory,
    used: options.used,
    requests,
    refusals,
    clock,
    startedAt: options.startedAt ?? clock.wall(),
    ...(options.publicUrl !== undefined && { audience: options.publicUrl }),
  });
  const cache = createDesiredCache({
    stores,
    namespace,
    metrics,
    desiredState: options.desiredState ?? desiredState,
    ...(options.platform && { platform: options.platform }),
    ...(revisionKey !== undefined && { revisionKey }),
    ...(options.tunnel && { tunnel: { settings: options.tunnel, namespace } }),
  });
  const desired = withAuthorities(withSessions(cache, options.sessions), () => options.caCert?.() ?? '');
  const longPolls = createLongPolls({
    digests: desired.digests,
    clock,
    log,
    perNode: limits.longPollsPerNode,
    onCount: (count) => metrics.longPolls?.(count),
    onEnd: (how) => metrics.longPollEnded?.(how),
    onSent: (ms) => metrics.sendDelay?.(ms / 1000),
  });
  const sent = createSentResponses(clock);
  const revocations = createRevocations(stores.secrets, (uuid) => {
    // What the former agent acknowledged at this replica says nothing of the next one, which another replica may provision.
    sent.forget(uuid);
    longPolls.revoke(uuid);
  });
  const observe = createHear(forwarder, clock);
  const checkEpoch: CheckEpoch = options.epochs
    ? createEpochCheck(options.epochs, directory, createSealedPositions(revisionKey ?? ''), clock)
    : () => ({});
  const positions = createPositionUpdates(options.epochs, longPolls.release);
  const outgoing = createOutgoing(limits);
  const handlers = createHandlers({
    ...{ client, stores, namespace, versionKeys: options.versionKeys, caCert: options.caCert, limits },
    releasesUrl: options.releasesUrl,
    controlPlane: options.controlPlane,
    sessions: options.sessions,
    ...{ directory, desired, longPolls, sent, checkEpoch, observe, forwarder, outgoing, clock, log, metrics },
    currentValues: options.currentValues,
    onListed: positions.onListed,
    onMistakes: (uuid, mistakes) => requests.charge(uuid, mistakes / MISTAKES_PER_REQUEST),
  });
  const addressOf = options.addressOf ?? ((req) => req.socket.remoteAddress ?? '');
  const pipeline = createPipeline({
    ...{ readiness, authenticate, guesses, checkEpoch, observe, metrics },
    hasKnownKey(body) {
      const { key } = (body ?? {}) as { key?: unknown };
      if (typeof key !== 'string' || key.length > PROVISIONING_KEY_LENGTH) return false;
      return stores.secrets.get(namespace, provisioningKeyName(key)) !== undefined;
    },
    match: createMatch(agentRoutes(handlers)),
    addressOf,
    ...(options.authenticated && { authenticated: options.authenticated }),
    receive: createReceive(limits, requests, clock),
    notOlderThan: createNotOlderThan({
      stores: required,
      replica: randomUUID(),
      async liveVersion(name) {
        const { resource } = required[name] as Store<KubeObject>;
        return (await client.listPage(resource, { namespace, limit: 1, timeoutMs: LIVE_VERSION_MS })).resourceVersion;
      },
      listAgain: (name) => options.listAgain?.(required[name] as Store<KubeObject>),
      clock,
    }),
  });
  const serve = createServe({ pipeline, readiness, outgoing, audit: auditOf(options.audit, addressOf), metrics, log });

  const wakes = desired.subscribe((nodes, isContent) => {
    if (isContent) sent.noteChange(nodes);
    longPolls.wake(nodes);
  });
  const trust = options.caCertChanges?.(() => longPolls.wake('all'));
  const gone = stores.nodes.subscribe((change) => {
    if (change.type !== 'delete') return;
    const uuid = nodeUuid(change.object);
    if (stores.nodes.byIndex('uuid', uuid).length > 0) return;
    sent.forget(uuid);
    forwarder.forget(uuid);
  });

  return {
    handle(req, res) {
      const { path, query } = targetOf(req);
      if (!path.startsWith(BASE) || (path.length > BASE.length && path[BASE.length] !== '/')) return false;
      void serve({ req, res, path: path.slice(BASE.length), query });
      return true;
    },
    async authenticate(req) {
      if (!readiness.ready) throw notReady('the controller is not ready');
      const identity = await authenticate(req.headers.authorization, () => addressOf(req));
      options.authenticated?.(req, nodeConnection(identity.uuid));
      return { ...identity, onRevoked: (end) => revocations.onRevoked(identity.uuid, end) };
    },
    async drain(graceMs) {
      readiness.drain();
      longPolls.drain();
      await forwarder.flush(graceMs);
    },
    get ready() {
      return readiness.ready;
    },
    get longPolls() {
      return longPolls.count;
    },
    desired: desired.state,
    async [Symbol.asyncDispose]() {
      longPolls.drain();
      for (const one of [wakes, positions, gone, desired, revocations, trust]) one?.[Symbol.dispose]();
    },
  };
}

/** Records the requests that change something. */
function auditOf(
  audit: AgentOptions['audit'],
  addressOf: (req: Exchange['req']) => string,
): Parameters<typeof createServe>[0]['audit'] {
  return (exchange, { status, code }) => {
    if (!audit || !exchange.route?.isAudited) return;
    const address = audit.recordsAddresses ? addressOf(exchange.req) : '';
    const event = agentEvent(exchange, { status, address, ...(code !== undefined && { code }) });
    if (event) audit.record(event);
  };
}

/** Requests of one node, and failed provisionings and refused tokens from one address. */
function createLimits({ requestsPerNode, guessesPerMinute, refusalsPerMinute }: AgentLimits, clock: Clock) {
  return {
    requests: createRateLimit({
      clock,
      perSecond: requestsPerNode,
      burst: requestsPerNode * RATE_BURST_SECONDS,
      refuse: () => new AgentFailure('TOO_MANY_REQUESTS', 'this node asks too often'),
    }),
    guesses: createRateLimit({
      clock,
      perSecond: guessesPerMinute / 60,
      burst: guessesPerMinute,
      refuse: () =>
        new AgentFailure('TOO_MANY_REQUESTS', 'too many failed provisionings from this address', {
          retryAfterSeconds: 60,
        }),
    }),
    refusals: createRateLimit({
      clock,
      perSecond: refusalsPerMinute / 60,
      burst: refusalsPerMinute,
      refuse: () =>
        new AgentFailure('TOO_MANY_REQUESTS', 'too many refused tokens from this address', { retryAfterSeconds: 10 }),
    }),
  };
}
