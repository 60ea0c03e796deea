import { json, type Reply } from '../../http/reply.ts';
import type { Log } from '../../lib/log.ts';
import { createCall, type Observe } from '../channel/call.ts';
import type { AgentRouteMetrics } from '../channel/dependencies.ts';
import type { ProvisioningRoute } from '../channel/exchange.ts';
import type { SentResponses } from '../long-polls/sent-responses.ts';
import type { Provisioned } from './provision.ts';

export interface ProvisioningOptions {
  provision(body: unknown): Promise<Provisioned>;
  sent: Pick<SentResponses, 'forget'>;
  observe: Observe;
  metrics: AgentRouteMetrics;
  log: Log;
}

/** `POST /agent/provision`: gives the identity of a node to an agent, whose first contact this is. */
export function createProvisioning(options: ProvisioningOptions): ProvisioningRoute['handle'] {
  const { provision, sent, observe, metrics, log } = options;
  return async ({ req, res, address, identified }, body): Promise<Reply> => {
    const { node, key, reply, isNew } = await provision(body);
    identified(key.nodeUuid);
    metrics.agent?.('provision', isNew ? 'new' : 'again');
    const call = createCall(req, res, '', { uuid: key.nodeUuid, node });
    if (isNew) sent.forget(key.nodeUuid);
    observe(call, isNew ? { isReset: true } : {});
    log.info({ node: node.metadata.name, uuid: key.nodeUuid, address, anew: isNew }, 'Node provisioned');
    return json(reply);
  };
}
