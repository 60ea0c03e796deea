import type { ErrorCode } from '../api/error-codes.ts';
import type { RecordedEvent } from './channel/dependencies.ts';
import type { Exchange } from './channel/exchange.ts';

/**
 * The event of a request by which an agent changed something, other than what it reports; undefined for all others. It has
 * no text that the agent chose: the path is that of the route.
 */
export function agentEvent(
  { route, call, provisioned }: Pick<Exchange, 'route' | 'call' | 'provisioned'>,
  { status, code, address }: { status: number; code?: ErrorCode; address: string },
): RecordedEvent | undefined {
  if (!route?.isAudited) return undefined;
  const node = call?.uuid ?? provisioned ?? '';
  return {
    eventType: 'HTTP',
    endpointType: 'agent',
    actorId: node,
    method: route.method,
    resourceType: 'edgenodes',
    resourceId: node,
    endpointPath: `/agent${route.path}`,
    ipAddress: address,
    status: status < 400 ? 'SUCCESS' : 'FAILED',
    statusCode: status,
    statusMessage: code ?? '',
    requestId: '',
  };
}
