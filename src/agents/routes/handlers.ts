import type { ControlPlane } from '../../api/names.ts';
import { createLookups } from '../../datastore/lookups.ts';
import type { VersionKeys } from '../../datastore/provisioning-keys.ts';
import type { ReadStores } from '../../datastore/stores.ts';
import type { DesiredCache } from '../../desired/desired-cache.ts';
import type { KubeClient } from '../../kube/mod.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { NodeSessions } from '../../sessions/rules/list.ts';
import type { Observe } from '../channel/call.ts';
import type { AgentLimits, AgentRouteMetrics, CurrentValues } from '../channel/dependencies.ts';
import type { NodeDirectory } from '../channel/node-directory.ts';
import type { ObservationForwarder } from '../leader/observation-forwarder.ts';
import type { LongPolls } from '../long-polls/long-polls.ts';
import type { SentResponses } from '../long-polls/sent-responses.ts';
import type { CheckEpoch } from '../pipeline/epoch-check.ts';
import type { Outgoing } from '../pipeline/outgoing.ts';
import { createChanges } from './changes.ts';
import { createFixedHandlers } from './fixed.ts';
import { createProvision } from './provision.ts';
import { createProvisioning } from './provisioning.ts';
import { createReads } from './reads.ts';
import { createRegistration } from './registration.ts';
import { createDeparture, createStatusHandlers } from './status.ts';
import { createVersion } from './version.ts';

/** The dependencies of all handlers; each takes those that it names. */
export interface HandlerDependencies {
  client: Pick<KubeClient, 'find' | 'create' | 'replace' | 'delete'>;
  stores: ReadStores;
  namespace: string;
  versionKeys: VersionKeys;
  caCert?: (() => string) | undefined;
  releasesUrl?: string | undefined;
  controlPlane?: ControlPlane | undefined;
  limits: AgentLimits;
  directory: NodeDirectory;
  desired: DesiredCache;
  sessions?: NodeSessions | undefined;
  longPolls: LongPolls;
  sent: SentResponses;
  checkEpoch: CheckEpoch;
  observe: Observe;
  forwarder: Pick<ObservationForwarder, 'hasReport' | 'flush' | 'forwarded'>;
  currentValues: CurrentValues;
  outgoing: Pick<Outgoing, 'check'>;
  onListed(uuid: string): void;
  /** called for a report with mistakes, which take time to find */
  onMistakes(uuid: string, mistakes: number): void;
  clock: Clock;
  log: Log;
  metrics: AgentRouteMetrics;
}

export type Handlers = ReturnType<typeof createHandlers>;

const FLUSH_MS = 1_000;

export function createHandlers(deps: HandlerDependencies) {
  const { forwarder, limits } = deps;
  return {
    provisioning: createProvisioning({ ...deps, provision: createProvision(deps) }),
    departure: createDeparture({ ...deps, flush: () => forwarder.flush(FLUSH_MS) }),
    changes: createChanges({ ...deps, maxLongPolls: limits.longPolls }),
    reads: createReads(deps),
    version: createVersion(deps),
    status: createStatusHandlers({ ...deps, hasReport: forwarder.hasReport }),
    registration: createRegistration({ ...deps, lookups: createLookups(deps.stores) }),
    fixed: createFixedHandlers(deps),
  };
}
