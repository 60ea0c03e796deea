import type { VersionKeys } from '../datastore/provisioning-keys.ts';
import type { ReadStores } from '../datastore/stores.ts';
import type { KubeClient } from '../kube/mod.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { InternalCredentials, InternalHandlers, LeaderState } from '../replicas/channel.ts';
import { createInternalServer, type InternalServer } from '../replicas/internal-server.ts';
import { createLeaderClient, type LeaderClient } from '../replicas/leader-client.ts';
import { mergeReport } from '../subjects/nodes/rules/report.ts';
import type {
  AgentOptions,
  AgentRouteMetrics,
  AgentRoutes,
  CurrentValues,
  Observations,
} from './channel/dependencies.ts';
import { createCurrentValues } from './leader/current-values.ts';
import { createAgentsAtLeader, createLeaderHandlers } from './leader/leader-api.ts';
import { createObservationForwarder } from './leader/observation-forwarder.ts';
import { createObservations } from './leader/observations.ts';
import { shareTokens } from './leader/token-sharing.ts';
import { createUsedTokens } from './pipeline/used-tokens.ts';
import { type AgentRoutesOptions, createAgentRoutes } from './server.ts';

export interface AgentsOptions extends AgentOptions {
  client: KubeClient;
  stores: ReadStores;
  versionKeys: VersionKeys;
  leadership: LeaderState;
  credentials: InternalCredentials;
  /** what the leader answers to other replicas besides what agents need */
  internalHandlers?: InternalHandlers;
  epochs?: AgentRoutesOptions['epochs'];
  /** name of this replica, unique */
  identity: string;
  log: Log;
  clock?: Clock;
  metrics?: AgentRouteMetrics;
  /** that of the domain, which a test may replace */
  desiredState?: AgentRoutesOptions['desiredState'];
  platform?: AgentRoutesOptions['platform'];
}

/** The agent side of one replica: routes, observations, and the API between replicas. */
export interface Agents extends AsyncDisposable {
  readonly routes: AgentRoutes;
  /** for the reconcilers; filled while this replica leads */
  readonly observations: Observations;
  /** for reads */
  readonly currentValues: CurrentValues;
  /** the server for other replicas */
  readonly internalServer: InternalServer;
  /** the client for the leader */
  readonly leader: Pick<LeaderClient, 'call'>;
  /** Shares used tokens with other replicas until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

export function createAgents(options: AgentsOptions): Agents {
  const { leadership, credentials, identity, log, clock = systemClock, metrics = {} } = options;
  const observations = createObservations(mergeReport);
  const client = createLeaderClient({ leadership, credentials });
  const leader = createAgentsAtLeader(client, clock);
  const forwarder = createObservationForwarder({ leadership, leader, observations, mergeReport, clock, log, metrics });
  const used = createUsedTokens();
  const currentValues = createCurrentValues({ leadership, leader, observations, forwarder, clock });
  const routes = createAgentRoutes({ ...options, forwarder, currentValues, used, clock, metrics });
  const { handlers, isLeading } = createLeaderHandlers({ leadership, forwarder, observations, used, clock });
  const internalServer = createInternalServer({
    isLeading,
    handlers: { ...options.internalHandlers, ...handlers },
    ...{ credentials, clock, log },
  });

  return {
    routes,
    observations: {
      ...observations,
      // Without observations from an earlier leadership of this replica.
      get(uuid) {
        forwarder.settle();
        return observations.get(uuid);
      },
      entries() {
        forwarder.settle();
        return observations.entries();
      },
    },
    currentValues,
    internalServer,
    leader: client,
    run: (signal) => shareTokens({ leadership, client: leader, used, replica: identity, clock, log }, signal),
    async [Symbol.asyncDispose]() {
      await routes[Symbol.asyncDispose]();
      await forwarder[Symbol.asyncDispose]();
      await internalServer[Symbol.asyncDispose]();
      client[Symbol.dispose]();
    },
  };
}
