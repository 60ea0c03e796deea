import { KINDS } from '../../subjects/kinds.ts';
import type { Permission } from '../contract/route.ts';
import { accessByKey, accessToMicroservice } from '../objects/lookup.ts';

/** The permissions of the sockets of users, as the routes have theirs. */
export const SOCKET_ACCESS = {
  exec: { resource: 'microservices/exec', verb: 'create', ...accessToMicroservice },
  systemExec: { resource: 'systemmicroservices/exec', verb: 'create', ...accessToMicroservice },
  logs: { resource: 'microservices/log', verb: 'get', ...accessToMicroservice },
  systemLogs: { resource: 'systemmicroservices/log', verb: 'get', ...accessToMicroservice },
  nodeLogs: { resource: 'edgenodes/log', verb: 'get', ...accessByKey(KINDS.nodes) },
} as const satisfies Record<string, Permission>;
