import { z } from 'zod';
import { HEADERS } from '../../api/names.ts';
import type { ReadStores } from '../../datastore/stores.ts';
import { NO_CONTENT, type Reply } from '../../http/reply.ts';
import type { KubeClient } from '../../kube/mod.ts';
import type { Clock } from '../../lib/clock.ts';
import { RESOURCES } from '../../subjects/kinds.ts';
import { agentConfigSchema, deprovisionRequestSchema, type StatusReport } from '../../wire/agent.ts';
import type { AgentCall, Observe } from '../channel/call.ts';
import type { AgentRouteMetrics } from '../channel/dependencies.ts';
import { AgentFailure } from '../channel/failure.ts';
import { nodeKeyName } from '../channel/node-key.ts';
import { readReport } from './report.ts';

export interface StatusOptions {
  observe: Observe;
  /** false while a report of this node would be the first one at this replica */
  hasReport: (uuid: string) => boolean;
  onMistakes: (uuid: string, mistakes: number) => void;
  clock: Pick<Clock, 'wall'>;
  metrics: AgentRouteMetrics;
}

export interface DepartureOptions {
  client: Pick<KubeClient, 'delete'>;
  stores: Pick<ReadStores, 'secrets'>;
  namespace: string;
  observe: Observe;
  /** resolves when the leader has all observations, or after a short time */
  flush: () => Promise<void>;
  clock: Pick<Clock, 'wall'>;
}

const CALL_MS = 10_000;
const NOWHERE = '0.0.0.0';

/** Response header that requests a full report from our agent, when this replica has no earlier one. */
const REPORT_WANTED = HEADERS.reportWanted;

const coordinatesSchema = z.object({
  latitude: z.number().min(-90).max(90),
  longitude: z.number().min(-180).max(180),
});
const trackingSchema = z.array(z.object({ uuid: z.string().min(1).max(64) })).max(100);

/** The handlers of status reports and settings. */
export function createStatusHandlers({ observe, hasReport, onMistakes, clock, metrics }: StatusOptions) {
  return {
    report(call: AgentCall, body: unknown): Reply {
      const { report, repaired, mistakes } = readReport(body);
      for (const field of repaired) metrics.agent?.('report-repaired', field);
      if (mistakes > 0) onMistakes(call.uuid, mistakes);
      const isFirst = !hasReport(call.uuid);
      observe(call, { report, reportedAt: clock.wall() });
      return isFirst ? { ...NO_CONTENT, headers: { [REPORT_WANTED]: 'full' } } : NO_CONTENT;
    },

    config(call: AgentCall, body: unknown): Reply {
      observe(call, { settings: valid(agentConfigSchema, body) });
      return NO_CONTENT;
    },

    coordinates(call: AgentCall, body: unknown): Reply {
      observe(call, { settings: valid(coordinatesSchema, body) });
      return NO_CONTENT;
    },

    tracking(call: AgentCall, body: unknown): Reply {
      valid(trackingSchema, body);
      observe(call);
      return NO_CONTENT;
    },
  };
}

/** The handlers that end an identity: the agent is deprovisioned, or its node is deleted. */
export function createDeparture({ client, stores, namespace, observe, flush, clock }: DepartureOptions) {
  /** Deletes the key of the node first, so that no later request with it is accepted. */
  async function leave(
    call: AgentCall,
    microservices: NonNullable<StatusReport['microserviceStatus']>,
  ): Promise<Reply> {
    const ref = { namespace, name: nodeKeyName(call.uuid) };
    const uid = stores.secrets.get(ref.namespace, ref.name)?.metadata.uid;
    await client.delete(RESOURCES.secrets, ref, { ...(uid && { preconditions: { uid } }), timeoutMs: CALL_MS });
    if (uid) stores.secrets.observeGone(ref, uid);
    observe(call, deprovisioned(microservices));
    await flush();
    return NO_CONTENT;
  }

  return {
    deprovision(call: AgentCall, body: unknown): Promise<Reply> {
      const { microserviceUuids } = valid(deprovisionRequestSchema, body);
      return leave(
        call,
        microserviceUuids.map((id) => ({ id, status: 'DELETING' })),
      );
    },

    /**
     * The last request of an agent whose node is being deleted: it has removed its workloads. An empty last report releases
     * the finalizer. An EdgeNode belongs to people, who may protect it: of one that nobody deletes the agent only leaves.
     */
    deleteNode: (call: AgentCall): Promise<Reply> => leave(call, []),
  };

  function deprovisioned(microserviceStatus: NonNullable<StatusReport['microserviceStatus']>) {
    const report: StatusReport = {
      daemonStatus: 'DEPROVISIONED',
      ipAddress: NOWHERE,
      ipAddressExternal: NOWHERE,
      microserviceStatus,
    };
    return { report, reportedAt: clock.wall() };
  }
}

function valid<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const text = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'body'}: ${message}`).join('; ');
  throw new AgentFailure('VALIDATION_ERROR', text.slice(0, 1024));
}
