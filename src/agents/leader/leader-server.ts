import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { z } from 'zod';
import { admitConnections } from '../../http/admit-connections.ts';
import { clientAddress } from '../../http/client-address.ts';
import type { ConnectionLimits } from '../../http/connections.ts';
import { replyTo } from '../../http/http-error.ts';
import { json, type Reply, send } from '../../http/reply.ts';
import { createByteBudget } from '../../lib/byte-budget.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Observation } from '../../rules/inputs.ts';
import type {
  InternalCredentials,
  InternalHandlers,
  Leadership,
  ObservationDelta,
  Observations,
} from '../dependencies.ts';
import { AgentFailure, failureOf } from '../failure.ts';
import { createJsonReader } from '../pipeline/json-body.ts';
import type { UsedTokens } from '../pipeline/used-tokens.ts';
import { createVerifier } from './internal-verifier.ts';
import type { ObservationForwarder } from './observation-forwarder.ts';
import { createTokenLog } from './token-log.ts';

/**
 * The API of the leader for other replicas: they send their observations of nodes and the used tokens, and request current
 * values; exec and log sessions have more of it. Every replica serves it and responds 409 unless it leads.
 */
export interface LeaderServer extends AsyncDisposable {
  readonly http: Server;
  /** Rejects with AgentFailure unless the request is of another replica. */
  authenticate(request: IncomingMessage): Promise<void>;
  listen(address: { port: number; host?: string }): Promise<{ port: number }>;
}

export interface LeaderServerOptions {
  leadership: Leadership;
  forwarder: Pick<ObservationForwarder, 'settle'>;
  observations: Observations;
  used: UsedTokens;
  credentials: Pick<InternalCredentials, 'verify'>;
  /** further requests of replicas that the leader answers, by path */
  handlers?: InternalHandlers | undefined;
  clock: Clock;
  log: Log;
}

export const INTERNAL_PATHS = {
  observations: '/internal/observations',
  currentValues: '/internal/current-values',
  tokens: '/internal/tokens',
} as const;

/** of one message of another replica; delta-queue.ts sends much smaller ones */
const BODY_BYTES = 32 * 2 ** 20;
const BODY_MS = 10_000;
/** A replica has a few connections, and one for each session that it relays. Whoever else reaches the port gets few places. */
const CONNECTIONS: ConnectionLimits = { all: 2_000, strangers: 200, address: 32, graceMs: 2_000, caller: 1_000 };

/** Both ends are the same program: only the envelope is checked; the replica has checked the reports of agents. */
const deltasSchema = z.object({
  /** Unix ms by the clock of the sender */
  sentAt: z.number(),
  deltas: z.array(z.looseObject({ uuid: z.string(), contactAt: z.number(), waitSeconds: z.number() })).max(10_000),
});
const liveSchema = z.object({ uuids: z.array(z.string()).max(20_000) });
const tokensSchema = z.object({
  replica: z.string().max(256),
  leadershipId: z.string().max(64).optional(),
  cursor: z.number().int().min(0),
  marks: z.array(z.tuple([z.number(), z.number()])).max(200_000),
});

export function createLeaderServer(options: LeaderServerOptions): LeaderServer {
  const { leadership, forwarder, observations, used, credentials, clock, log } = options;
  const verify = createVerifier(credentials, clock);
  async function verified(req: IncomingMessage): Promise<void> {
    const address = clientAddress(req.socket.remoteAddress);
    await verify(req.headers.authorization, address);
    admitted.authenticated(req.socket, address);
  }

  const readJson = createJsonReader(clock);
  const budget = createByteBudget({ bytes: 8 * BODY_BYTES, messages: 64 });
  const tokens = createTokenLog(used, clock);
  let leadershipId = randomUUID();
  let wasLeading = false;

  /** A new leadership id whenever this replica begins to lead. */
  function lead() {
    const leads = leadership.isLeading;
    // First, since it clears the observations of an earlier leadership.
    forwarder.settle();
    if (leads && !wasLeading) leadershipId = randomUUID();
    wasLeading = leads;
    if (!leads) throw new NotLeader();
  }

  const handlers = new Map<string, (body: unknown) => Reply | Promise<Reply>>([
    ...Object.entries(options.handlers ?? {}).map(
      ([path, handle]) => [path, async (body: unknown) => json(await handle(body))] as const,
    ),
    ...Object.entries({
      [INTERNAL_PATHS.observations](body: unknown) {
        const { deltas, sentAt } = deltasSchema.parse(body);
        const skew = clock.wall() - sentAt;
        for (const item of deltas as unknown as ObservationDelta[]) observations.observe(inOurTime(item, skew));
        return json({ leadershipId });
      },
      [INTERNAL_PATHS.currentValues](body: unknown) {
        const found: Record<string, Observation> = {};
        for (const uuid of liveSchema.parse(body).uuids) {
          const observation = observations.get(uuid);
          if (observation) found[uuid] = observation;
        }
        return json({ observations: found });
      },
      [INTERNAL_PATHS.tokens](body: unknown) {
        const { replica, leadershipId: known, cursor, marks } = tokensSchema.parse(body);
        tokens.add(replica, marks);
        return json({ leadershipId, ...tokens.since(known === leadershipId ? cursor : 0, replica) });
      },
    }),
  ]);

  async function answer(req: IncomingMessage): Promise<Reply> {
    const handler = req.method === 'POST' ? handlers.get(req.url ?? '') : undefined;
    if (!handler) throw new AgentFailure('ROUTE_NOT_FOUND', 'no such route');
    await verified(req);
    lead();
    const body = await readJson(req, {
      maxBytes: BODY_BYTES,
      elements: BODY_BYTES,
      budget,
      caller: 'replicas',
      ms: BODY_MS,
    });
    lead();
    const reply = await handler(body);
    // One that waited may answer after another replica leads.
    lead();
    return reply;
  }

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    try {
      send(res, await answer(req), { compress: true });
    } catch (error) {
      if (error instanceof NotLeader) return send(res, { status: 409, body: '{"code":"NOT_LEADER"}' });
      const failure = error instanceof z.ZodError ? notUnderstood(error) : failureOf(error);
      if (error instanceof z.ZodError)
        log.warn({ path: req.url, reason: failure.message }, 'Internal message not understood');
      send(res, replyTo(failure), { closing: failure.status !== 401 });
    }
  }

  const times = { requestTimeout: 15_000, headersTimeout: 5_000, connectionsCheckingInterval: 5_000 };
  const http = createServer(times, (req, res) => void serve(req, res));
  const admitted = admitConnections(http, { limits: CONNECTIONS, clock });
  http.keepAliveTimeout = 60_000;

  return {
    http,
    authenticate: verified,
    listen: ({ port, host }) =>
      new Promise((resolve, reject) => {
        http.once('error', reject);
        http.listen(port, host, () => {
          http.off('error', reject);
          const address = http.address();
          resolve({ port: typeof address === 'object' && address ? address.port : port });
        });
      }),
    async [Symbol.asyncDispose]() {
      http.closeAllConnections();
      await new Promise<void>((resolve) => {
        http.close(() => resolve());
      });
    },
  };
}

/** A smaller difference of the clocks counts as the transfer time of a message. */
const SKEW_MS = 2_000;

/** The leader decides by its own clock whether a node is silent, so the times of other replicas are converted. */
function inOurTime(delta: ObservationDelta, skew: number): ObservationDelta {
  if (Math.abs(skew) < SKEW_MS) return delta;
  const { contactAt, reportedAt, sentRevisions, listedAt } = delta;
  const shifted = Object.entries(sentRevisions ?? {}).map(([uuid, { after, ...given }]) => [
    uuid,
    { ...given, at: given.at + skew, ...(after !== undefined && { after: after + skew }) },
  ]);
  return {
    ...delta,
    contactAt: contactAt + skew,
    ...(reportedAt !== undefined && { reportedAt: reportedAt + skew }),
    ...(sentRevisions && { sentRevisions: Object.fromEntries(shifted) }),
    ...(listedAt !== undefined && { listedAt: listedAt + skew }),
  };
}

class NotLeader extends Error {}

const notUnderstood = ({ issues: [issue] }: z.ZodError) =>
  new AgentFailure(
    'VALIDATION_ERROR',
    `${issue?.path.join('.') || 'the message'}: ${issue?.message ?? 'not understood'}`,
  );
