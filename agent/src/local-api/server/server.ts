import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { ListenOptions, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { UpgradeRequest } from '../../../../src/lib/web-socket/handshake.ts';
import { AgentError } from '../../domain/agent-error.ts';
import { connectFailure } from '../../machine/connects.ts';
import { exists, makeDirectory, removePath } from '../../machine/disk.ts';
import { type AccessAgent, authenticate, type Listener } from './authenticate.ts';
import { readBody } from './body.ts';
import { BRIDGE_LIMITS, LOOPBACK_LIMITS, type NoteUse, shareConnections } from './connection-shares.ts';
import { LocalApiError } from './errors.ts';
import { checkHandshake } from './handshake.ts';
import { writeError, writeReply } from './reply.ts';
import type { LocalCall, LocalRoute } from './route.ts';
import type { Router } from './router.ts';
import { queryOf, validate } from './validate.ts';

/** What the server itself needs of the agent. */
export interface ServedAgent extends AccessAgent {
  readonly metrics: { add(name: 'localApiConnectionsClosed', labels: { listener: Listener }): void };
}

/** A local API: its routes, and what they need of the agent. */
export interface LocalApi {
  find: Router;
  agent: ServedAgent;
  /** what every handler gets */
  deps: unknown;
}

export interface ServerDependencies {
  api: LocalApi;
  clock: Clock;
  log: Log;
}

/** The local API on a unix socket that only its owner can open. */
export async function listenOnSocket(path: string, directory: string, deps: ServerDependencies): Promise<Server> {
  makeDirectory(directory, 0o755);
  if (await answers(path)) throw new AgentError('CONFLICT', `another agent answers at ${path}; stop it first`);
  if (exists(path)) removePath(path);
  const server = newServer(deps, 'socket');
  // The socket must never be open to others, not even between being made and being restricted.
  const mask = process.umask(0o177);
  try {
    await listen(server, { path });
  } finally {
    process.umask(mask);
  }
  return server;
}

/** Health and metrics on loopback, for probes, and what workloads read of themselves; everything else is refused there. */
export async function listenOnLoopback(port: number, deps: ServerDependencies): Promise<Server> {
  const server = newServer(deps, 'loopback');
  await listen(server, { host: '127.0.0.1', port });
  return server;
}

/** What workloads may ask, over TLS at the address that the machine has for its containers. */
export async function listenOnBridge(
  host: string,
  port: number,
  certificate: { cert: string; key: string },
  deps: ServerDependencies,
): Promise<TlsServer> {
  const server = createTlsServer({ ...certificate, ...TIMES, handshakeTimeout: 10_000 });
  serve(server, deps, 'bridge');
  await listen(server, { host, port });
  return server;
}

async function listen(server: Server | TlsServer, where: ListenOptions): Promise<void> {
  server.listen(where);
  await once(server, 'listening');
}

/** Whether a program listens on a unix socket. */
export async function answers(path: string): Promise<boolean> {
  return (await connectFailure({ path })) === undefined;
}

const TIMES = { headersTimeout: 10_000, requestTimeout: 60_000, connectionsCheckingInterval: 5_000 };

function newServer(deps: ServerDependencies, listener: Listener): Server {
  const server = createServer(TIMES);
  serve(server, deps, listener);
  return server;
}

function serve(server: Server | TlsServer, deps: ServerDependencies, listener: Listener): void {
  const used = connectionsOf(server, deps, listener);
  const served = { ...deps, used };
  server.on('request', (incoming, outgoing) => void answer(incoming, outgoing, served, listener));
  server.on('upgrade', (incoming, socket, head) => upgrade(incoming, socket, head, served, listener));
}

/** How long a connection stays between requests, ms: with a valid token, and without one. */
const IDLE = { known: 60_000, unknown: 10_000 };
/** Connections of the unix socket, which only its owner can open. */
const SOCKET_CONNECTIONS = 256;

/** Bounds the connections of a listener; few are enough for probes and people. */
function connectionsOf(server: Server | TlsServer, { api }: ServerDependencies, listener: Listener): NoteUse {
  if (listener === 'socket') {
    server.maxConnections = SOCKET_CONNECTIONS;
    server.keepAliveTimeout = IDLE.known;
    return () => {};
  }
  server.keepAliveTimeout = IDLE.unknown;
  const limits = listener === 'bridge' ? BRIDGE_LIMITS : LOOPBACK_LIMITS;
  return shareConnections(server, limits, () => api.agent.metrics.add('localApiConnectionsClosed', { listener }));
}

/** A server with what takes note of its requests. */
interface Served extends ServerDependencies {
  used: NoteUse;
}

/** Any request may ask for an upgrade; one that does not become a WebSocket gets its plain HTTP response. */
function upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer, deps: Served, listener: Listener): void {
  socket.on('error', () => socket.destroy());
  const outgoing = new ServerResponse(incoming);
  outgoing.shouldKeepAlive = false;
  outgoing.assignSocket(socket as Socket);
  // A client that does not end its side is disconnected.
  outgoing.once('finish', () => (socket as Socket).destroySoon());
  void answer(incoming, outgoing, deps, listener, () => {
    outgoing.detachSocket(socket as Socket);
    return { incoming, socket, head };
  });
}

async function answer(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  deps: Served,
  listener: Listener,
  /** gives the connection to a WebSocket */
  take?: () => UpgradeRequest,
): Promise<void> {
  const requestId = String(incoming.headers['x-request-id'] ?? randomUUID()).slice(0, 128);
  outgoing.setHeader('x-request-id', requestId);
  const gone = new AbortController();
  outgoing.once('close', () => gone.abort());
  const { api, clock } = deps;
  try {
    const url = targetOf(incoming);
    const { route, parameters } = api.find(incoming.method ?? 'GET', url.pathname);
    const caller = authenticate(route.access, incoming.headers.authorization, { agent: api.agent, clock, listener });
    noteUse(incoming, outgoing, deps, caller.microservice);
    const { connect, socket, reply, handler } = route as LocalRoute<unknown>;
    if (connect) {
      if (!take) throw new LocalApiError('INVALID_ARGUMENT', `${socket} is a WebSocket: ask for an upgrade`);
      checkHandshake(incoming);
    }
    const query = route.query?.();
    const body = route.body?.();
    const call: LocalCall<unknown> = {
      params: parameters,
      query: query && validate(query, queryOf(url.searchParams, query)),
      body: body && validate(body, await readBody(incoming)),
      ...{ signal: gone.signal, caller, deps: api.deps },
    };
    if (connect && take) return await connect(call, take);
    if (reply) await writeReply(outgoing, reply, await handler?.(call));
  } catch (error) {
    if (gone.signal.aborted) return;
    writeError(outgoing, error, requestId, deps.log);
  }
}

/** A connection that showed a valid token stays longer than one that did not. */
function noteUse({ socket }: IncomingMessage, outgoing: ServerResponse, { used }: Served, microservice: string): void {
  used(socket, microservice || undefined);
  if (microservice) outgoing.once('finish', () => socket.setTimeout(IDLE.known));
}

function targetOf(incoming: IncomingMessage): URL {
  const url = URL.parse(`http://agent${incoming.url}`);
  if (!incoming.url?.startsWith('/') || !url) throw new LocalApiError('INVALID_ARGUMENT', 'the path is malformed');
  return url;
}
