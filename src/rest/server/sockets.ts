import { KINDS } from '../../subjects/kinds.ts';
import type { Permission } from '../contract/route.ts';
import { accessByKey } from '../objects/lookup.ts';

/** The permissions of the sockets of users, as the routes have theirs. */
export const SOCKET_ACCESS = {
  exec: { resource: 'microservices/exec', verb: 'create', name: 'uuid' },
  systemExec: { resource: 'systemmicroservices/exec', verb: 'create', name: 'uuid' },
  logs: { resource: 'microservices/log', verb: 'get', name: 'uuid' },
  systemLogs: { resource: 'systemmicroservices/log', verb: 'get', name: 'uuid' },
  nodeLogs: { resource: 'edgenodes/log', verb: 'get', ...accessByKey(KINDS.nodes) },
} as const satisfies Record<string, Permission>;
