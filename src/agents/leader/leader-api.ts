import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../lib/clock.ts';
import type { InternalHandlers, LeaderState } from '../../replicas/channel.ts';
import type { LeaderClient } from '../../replicas/leader-client.ts';
import type { Observation } from '../../rules/inputs.ts';
import type { LeaderApi, ObservationDelta, Observations } from '../channel/dependencies.ts';
import type { TokenMark, UsedTokens } from '../pipeline/used-tokens.ts';
import type { ObservationForwarder } from './observation-forwarder.ts';
import { createTokenLog } from './token-log.ts';

/** What replicas ask of the leader about agents: observations of nodes, current values, and used tokens. Both ends. */

const PATHS = {
  observations: '/internal/observations',
  currentValues: '/internal/current-values',
  tokens: '/internal/tokens',
} as const;

/** The end of a follower. One attempt per call; the caller decides whether to retry. */
export interface AgentsAtLeader extends LeaderApi {
  exchangeTokens(
    message: { replica: string; leadershipId?: string; cursor: number; marks: readonly TokenMark[] },
    signal: AbortSignal,
  ): Promise<{ leadershipId: string; cursor: number; marks: TokenMark[] }>;
}

export function createAgentsAtLeader({ call }: Pick<LeaderClient, 'call'>, clock: Pick<Clock, 'wall'>): AgentsAtLeader {
  return {
    send: (deltas, signal) => call(PATHS.observations, { sentAt: clock.wall(), deltas }, signal),
    async currentValues(uuids, signal) {
      const answer = await call<{ observations: Record<string, Observation> }>(PATHS.currentValues, { uuids }, signal);
      return new Map(Object.entries(answer.observations));
    },
    exchangeTokens: (message, signal) => call(PATHS.tokens, message, signal),
  };
}

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

export interface LeaderHandlersOptions {
  leadership: Pick<LeaderState, 'isLeading'>;
  forwarder: Pick<ObservationForwarder, 'settle'>;
  observations: Observations;
  used: UsedTokens;
  clock: Clock;
}

/** The end of the leader. */
export function createLeaderHandlers({ leadership, forwarder, observations, used, clock }: LeaderHandlersOptions) {
  const tokens = createTokenLog(used, clock);
  let leadershipId = randomUUID();
  let wasLeading = false;
  const handlers: InternalHandlers = {
    [PATHS.observations](body) {
      const { deltas, sentAt } = deltasSchema.parse(body);
      const skew = clock.wall() - sentAt;
      for (const item of deltas as unknown as ObservationDelta[]) observations.observe(inOurTime(item, skew));
      return { leadershipId };
    },
    [PATHS.currentValues](body) {
      const found: Record<string, Observation> = {};
      for (const uuid of liveSchema.parse(body).uuids) {
        const observation = observations.get(uuid);
        if (observation) found[uuid] = observation;
      }
      return { observations: found };
    },
    [PATHS.tokens](body) {
      const { replica, leadershipId: known, cursor, marks } = tokensSchema.parse(body);
      tokens.add(replica, marks);
      return { leadershipId, ...tokens.since(known === leadershipId ? cursor : 0, replica) };
    },
  };
  return {
    handlers,
    /** Whether this replica leads. A new leadership id begins whenever it begins to lead. */
    isLeading(): boolean {
      const leads = leadership.isLeading;
      // First, since it clears the observations of an earlier leadership.
      forwarder.settle();
      if (leads && !wasLeading) leadershipId = randomUUID();
      wasLeading = leads;
      return leads;
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
