import type { Named } from '../subjects/workloads/rules/session-target.ts';

/** The sockets of users, by what their permission is about. */
export type UserSocket = 'exec' | 'systemExec' | 'logs' | 'systemLogs' | 'nodeLogs';

/** What the path of a socket means. */
export type SocketPath =
  | { by: 'user'; socket: UserSocket; kind: 'exec' | 'log'; uuid: string; named: Named; path: string }
  | { by: 'agent'; kind: 'exec' | 'log'; id: string; microservice?: string; node?: string; path: string };

interface Pattern {
  /** below `/api/v3`, parameters in braces */
  path: string;
  read(parameters: readonly string[], path: string): SocketPath;
}

const ofMicroservice = (path: string, socket: UserSocket, kind: 'exec' | 'log', isSystem = false): Pattern => ({
  path,
  read: ([uuid = '']) => ({ by: 'user', socket, kind, uuid, named: { microservice: uuid, isSystem }, path }),
});
const ofNode = (path: string): Pattern => ({
  path,
  read: ([uuid = '']) => ({ by: 'user', socket: 'nodeLogs', kind: 'log', uuid, named: { node: uuid }, path }),
});
const ofAgentOfNode = (path: string): Pattern => ({
  path,
  read: ([node = '', id = '']) => ({ by: 'agent', kind: 'log', node, id, path }),
});
const ofAgent = (path: string, kind: 'exec' | 'log'): Pattern => ({
  path,
  read: ([microservice = '', id = '']) => ({ by: 'agent', kind, microservice, id, path }),
});

/** Every socket (docs/spec/sessions.md#sockets); of two that fit, the first. `iofog` is the older name of a node. */
const PATTERNS: readonly Pattern[] = [
  ofMicroservice('/microservices/system/exec/{uuid}', 'systemExec', 'exec', true),
  ofMicroservice('/microservices/system/{uuid}/logs', 'systemLogs', 'log', true),
  ofMicroservice('/microservices/exec/{uuid}', 'exec', 'exec'),
  ofMicroservice('/microservices/{uuid}/logs', 'logs', 'log'),
  ofNode('/node/{uuid}/logs'),
  ofNode('/iofog/{uuid}/logs'),
  ofAgent('/agent/exec/microservice/{microserviceUuid}/{sessionId}', 'exec'),
  ofAgent('/agent/logs/microservice/{microserviceUuid}/{sessionId}', 'log'),
  ofAgentOfNode('/agent/logs/node/{uuid}/{sessionId}'),
  ofAgentOfNode('/agent/logs/iofog/{uuid}/{sessionId}'),
];

const BASE = '/api/v3';
const SHAPES = PATTERNS.map(({ path, read }) => ({
  shape: new RegExp(`^${BASE}${path.replaceAll(/\{\w+\}/g, '([\\w.:-]{1,128})')}/?$`),
  path,
  read,
}));

/** The paths of all sockets, and who opens each: a user with the permission of this name, or an agent. */
export const SOCKET_PATHS: readonly { path: string; of: UserSocket | 'agent' }[] = PATTERNS.map(({ path, read }) => {
  const meaning = read([], path);
  return { path, of: meaning.by === 'user' ? meaning.socket : 'agent' };
});

/** Undefined for a path without a socket. */
export function socketPath(path: string): SocketPath | undefined {
  for (const { shape, read, path: pattern } of SHAPES) {
    const found = shape.exec(path);
    if (found) return read(found.slice(1), pattern);
  }
  return undefined;
}
