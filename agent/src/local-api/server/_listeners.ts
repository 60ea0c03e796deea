import { Agent, type IncomingMessage, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { silentLog } from '../../../../src/lib/log.ts';
import { atEnd } from '../../../../testing/at-end.ts';
import type { LocalAgent } from '../_local-agent.ts';
import type { Listener } from './authenticate.ts';
import { type LocalApi, listenOnBridge, listenOnLoopback, listenOnSocket } from './server.ts';

/** How a request of a test reaches a listener. `loopback over TLS` is the same port. */
export const WAYS = ['socket', 'loopback', 'loopback over TLS', 'bridge'] as const;
export type Way = (typeof WAYS)[number];
export const listenerOf = (way: Way): Listener => (way === 'loopback over TLS' ? 'loopback' : way);

interface Reply {
  status: number;
  body: Record<string, unknown> & { error?: { code: string; message: string } };
}

export type Ask = (
  way: Way,
  method: string,
  path: string,
  options?: { token?: string; headers?: Record<string, string>; body?: string },
) => Promise<Reply>;

/** Serves a local API on all three listeners. Their connections are kept. */
export async function onAllListeners(local: LocalAgent, api: LocalApi, log = silentLog): Promise<Ask> {
  const deps = { api, clock: local.clock, log };
  const socketPath = `${local.folder}/all.sock`;
  const socket = await listenOnSocket(socketPath, local.folder, deps);
  const loopback = await listenOnLoopback(0, local.authority, deps);
  const { server: bridge } = await listenOnBridge('127.0.0.1', 0, local.authority, deps);
  const portOf = (server: { address(): unknown }) => (server.address() as { port: number }).port;
  const plain = new Agent({ keepAlive: true });
  const tls = new TlsAgent({ keepAlive: true, ca: local.authority.certificate, servername: 'localhost' });
  const targets = {
    socket: { socketPath, agent: plain, send: request },
    loopback: { host: '127.0.0.1', port: portOf(loopback), agent: plain, send: request },
    'loopback over TLS': { host: '127.0.0.1', port: portOf(loopback), agent: tls, send: tlsRequest },
    bridge: { host: '127.0.0.1', port: portOf(bridge), agent: tls, send: tlsRequest },
  };
  atEnd(() => {
    for (const agent of [plain, tls]) agent.destroy();
    for (const server of [socket, loopback, bridge]) {
      server.close();
      server.closeAllConnections();
    }
  });
  return (way, method, path, { token, headers, body } = {}) =>
    new Promise((resolve, reject) => {
      const { send, ...target } = targets[way];
      const all = { ...(token && { authorization: `Bearer ${token}` }), ...headers };
      send({ ...target, method, path, headers: all }, (incoming) => void readReply(incoming).then(resolve, reject))
        .on('error', reject)
        .end(body);
    });
}

async function readReply(incoming: IncomingMessage): Promise<Reply> {
  let text = '';
  for await (const piece of incoming) text += piece;
  const isJson = incoming.headers['content-type']?.includes('json');
  return { status: incoming.statusCode ?? 0, body: isJson ? JSON.parse(text) : { text } };
}
