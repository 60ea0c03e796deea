import type { AuditEvent } from '../../rules/audit.ts';
import type { AnyRoute } from '../contract/route.ts';

/** What is known of a request once it was answered. */
export interface AuditedRequest {
  params: Readonly<Record<string, string>>;
  user: string;
  address: string;
  status: number;
  /** code of the error body */
  code: string;
  requestId: string;
  /** what the handler responded */
  result: unknown;
}

/** Whether a route changes something, as a GET that creates does, or reads credentials. */
export const isAudited = ({ method, reply, isAudited: isSensitive }: AnyRoute): boolean =>
  isSensitive === true || (method !== 'GET' && method !== 'HEAD') || reply.status === 201;

/** The event of a request. It has neither query nor body, and no parameter that may be a credential. */
export function auditEvent(route: AnyRoute, request: AuditedRequest): Omit<AuditEvent, 'id' | 'timestamp'> {
  const { params, user, address, status, code, requestId, result } = request;
  const { access } = route;
  // Parameters of routes without a permission may be credentials.
  const shown = typeof access === 'object' ? params : {};
  const isDone = status < 400;
  return {
    eventType: 'HTTP',
    endpointType: 'user',
    actorId: user,
    method: route.method,
    resourceType: typeof access === 'object' ? access.resource : (route.path.split('/')[1] ?? ''),
    resourceId: Object.values(shown).join('/') || (isDone ? createdId(result) : ''),
    endpointPath: Object.entries(shown).reduce((path, [name, value]) => path.replace(`{${name}}`, value), route.path),
    ipAddress: address,
    status: isDone ? 'SUCCESS' : 'FAILED',
    statusCode: status,
    statusMessage: code,
    requestId,
  };
}

/** The identity of what was created, which its path does not have. */
function createdId(result: unknown): string {
  if (typeof result !== 'object' || result === null) return '';
  const { uuid, name, id } = result as Record<string, unknown>;
  const found = [uuid, name, id].find((one) => typeof one === 'string' || typeof one === 'number');
  return found === undefined ? '' : String(found);
}
