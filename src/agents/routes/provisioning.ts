import { json, type Reply } from '../../http/reply.ts';
import type { Log } from '../../kube/mod.ts';
import { createCall, type Hear } from '../call.ts';
import type { AgentMetrics } from '../dependencies.ts';
import type { Told } from '../long-polls/sent-responses.ts';
import type { ProvisioningRoute } from '../pipeline/exchange.ts';
import type { Provisioned } from './provision.ts';

export interface ProvisioningOptions {
  provision(body: unknown): Promise<Provisioned>;
  told: Pick<Told, 'forget'>;
  hear: Hear;
  metrics: AgentMetrics;
  log: Log;
}

/** `POST /agent/provision`: gives the identity of a node to an agent, whose first contact this is. */
export function createProvisioning(options: ProvisioningOptions): ProvisioningRoute['handle'] {
  const { provision, told, hear, metrics, log } = options;
  return async ({ req, res, address }, body): Promise<Reply> => {
    const { node, key, reply, anew } = await provision(body);
    metrics.agent?.('provision', anew ? 'new' : 'again');
    const call = createCall(req, res, '', { uuid: key.nodeUuid, node });
    if (anew) told.forget(key.nodeUuid);
    hear(call, anew ? { anew: true } : {});
    log.info({ node: node.metadata.name, uuid: key.nodeUuid, address, anew }, 'Node provisioned');
    return json(reply);
  };
}
