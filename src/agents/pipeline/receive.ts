import type { RateLimit } from '../../http/rate-limit.ts';
import { createByteBudget } from '../../lib/byte-budget.ts';
import type { Clock } from '../../lib/clock.ts';
import type { AgentLimits } from '../channel/dependencies.ts';
import type { BodyClass, Exchange } from '../channel/exchange.ts';
import { createAgentJsonReader } from './json-body.ts';

/** Reads the body of a request within the bounds of its class; undefined for routes without one. */
export type Receive = (exchange: Exchange) => Promise<unknown> | undefined;

/** So many bytes of bodies count as one request against the limit of a node. */
const BYTES_PER_REQUEST = 16 * 1024;

export function createReceive(limits: AgentLimits, requests: Pick<RateLimit, 'charge'>, clock: Clock): Receive {
  const { receiving } = limits;
  const readJson = createAgentJsonReader(clock);
  const all = createByteBudget(receiving.all);
  const nodes = createByteBudget({ ...receiving.all, each: receiving.node, within: all });
  // Slow bodies of others at its address must not keep out a machine whose body comes at once.
  const strangers = { ...receiving.provisioning, each: receiving.address, makesRoom: true };
  const provisioning = createByteBudget({ ...strangers, within: all });
  const classes: Readonly<Record<BodyClass, { maxBytes: number; ms: number }>> = {
    report: { maxBytes: limits.reportBytes, ms: limits.bodyMs },
    message: { maxBytes: limits.bodyBytes, ms: limits.bodyMs },
    provisioning: { maxBytes: limits.provisioningBytes, ms: limits.provisioningBodyMs },
  };

  return ({ req, route, call, address = '' }) => {
    if (!route?.body) return undefined;
    const { maxBytes, ms } = classes[route.body];
    if (!call) return readJson(req, { maxBytes, ms, budget: provisioning, caller: address });
    const { uuid } = call;
    const received = (bytes: number) => requests.charge(uuid, bytes / BYTES_PER_REQUEST);
    return readJson(req, { maxBytes, ms, budget: nodes, caller: uuid, received });
  };
}
