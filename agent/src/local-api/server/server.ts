import { randomUUID } from 'node:crypto';
import { type EventEmitter, once } from 'node:events';
import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { ListenOptions, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Clock } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { UpgradeRequest } from '../../../../src/lib/web-socket/handshake.ts';
import { AgentError } from '../../domain/agent-error.ts';
import { connectFailure } from '../../machine/connects.ts';
import { exists, makeDirectory, removePath } from '../../machine/disk.ts';
import type { LocalAuthority } from '../../state/local-authority.ts';
import type { LocalTokens } from '../../state/local-tokens.ts';
import { createAccessLog } from './access-log.ts';
import { type AccessAgent, type Approach, authorize, identify, type Listener, requireAdmin } from './authenticate.ts';
import { readBody } from './body.ts';
import { BRIDGE_LIMITS, LOOPBACK_LIMITS, type NoteUse, shareConnections } from './connection-shares.ts';
import { LocalApiError } from './errors.ts';
import { readForm } from './form.ts';
import { checkHandshake } from './handshake.ts';
import { OpenCalls } from './open-calls.ts';
import { PlainOrTlsServer } from './plain-or-tls.ts';
import { writeError, writeReply } from './reply.ts';
import type { LocalCall, LocalCaller, LocalRoute } from './route.ts';
import type { Router } from './router.ts';
import { queryOf, requireKnown, validate } from './validate.ts';
import { refuseWebPages } from './web-pages.ts';

/** What the server itself needs of the agent. */
export interface ServedAgent extends AccessAgent {
  readonly metrics: {
    add(name: 'localApiConnectionsClosed', labels: { listener: Listener }): void;
    add(name: 'localApiRequests', labels: { operation: string; status: string }): void;
  };
  readonly tokens: AccessAgent['tokens'] & Pick<LocalTokens, 'onRevoked'>;
  /** Calls a listener when microservices may be, or may do, something else. Returns a function that stops listening. */
  onRolesChanged(listener: () => void): () => void;
}

/** What gives the servers their certificates. */
export type ServerCertificates = Pick<LocalAuthority, 'server'>;

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
  const server = createServer(TIMES);
  serve(server, deps, 'socket');
  // The socket must never be open to others, not even between being made and being restricted.
  const mask = process.umask(0o177);
  try {
    await listen(server, { path });
  } finally {
    process.umask(mask);
  }
  return server;
}

/**
 * Health and metrics on loopback, for probes, and what workloads may ask, with TLS and without; everything else is refused
 * there.
 */
export async function listenOnLoopback(
  port: number,
  certificates: ServerCertificates,
  deps: ServerDependencies,
): Promise<Server> {
  let present: { certificate: object; context: SecureContext } | undefined;
  const server = new PlainOrTlsServer(TIMES, () => {
    const certificate = certificates.server([LOOPBACK]);
    if (present?.certificate !== certificate) present = { certificate, context: createSecureContext(certificate) };
    return present.context;
  });
  serve(server, deps, 'loopback');
  await listen(server, { host: LOOPBACK, port });
  return server;
}

const LOOPBACK = '127.0.0.1';

/** A server at the address that the machine has for its containers. */
export interface BridgeServer {
  readonly server: TlsServer;
  /** Takes another certificate where the present one ends soon. */
  renew(): void;
}

/** What workloads may ask, over TLS at the address that the machine has for its containers. */
export async function listenOnBridge(
  host: string,
  port: number,
  certificates: ServerCertificates,
  deps: ServerDependencies,
): Promise<BridgeServer> {
  let certificate = certificates.server([LOOPBACK, host]);
  const server = createTlsServer({ ...certificate, ...TIMES, handshakeTimeout: 10_000 });
  serve(server, deps, 'bridge');
  await listen(server, { host, port });
  return {
    server,
    renew: () => {
      const next = certificates.server([LOOPBACK, host]);
      if (next !== certificate) server.setSecureContext(next);
      certificate = next;
    },
  };
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

function serve(server: Server | TlsServer, deps: ServerDependencies, listener: Listener): void {
  const { agent } = deps.api;
  const open = new OpenCalls((microservice) => standingOf(agent.viewWithRules(microservice)));
  const stops = [
    agent.tokens.onRevoked((isRevoked) => open.endRevoked(isRevoked)),
    agent.onRolesChanged(() => open.endChanged()),
  ];
  server.once('close', () => {
    for (const stop of stops) stop();
  });
  const served = { ...deps, open, used: connectionsOf(server, deps, listener), logAccess: createAccessLog(deps) };
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

/** What a server has for its requests. */
interface Served extends ServerDependencies {
  used: NoteUse;
  open: OpenCalls;
  logAccess: ReturnType<typeof createAccessLog>;
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
  const { api } = deps;
  const identified = identify(incoming.headers.authorization, api.agent);
  const approach: Approach = { identified, listener, agent: api.agent };
  const noted = noteAccess(incoming, outgoing, deps, approach);
  try {
    const { route, parameters, query, error } = lookUp(api, incoming);
    noted.route = route;
    if (listener !== 'socket' && !route?.anyHost) refuseWebPages(incoming);
    if (!route) {
      requireAdmin(approach);
      throw error;
    }
    const caller = authorize(route.access, parameters, approach);
    /** The caller at this moment: a token may have been revoked since the head of the request came. */
    const judgedAgain = () =>
      authorize(route.access, parameters, {
        ...approach,
        identified: identify(incoming.headers.authorization, api.agent),
      });
    noteUse(incoming, outgoing, deps, caller.microservice);
    const { connect, socket, reply, handler } = route as LocalRoute<unknown>;
    if (connect) {
      if (!take) throw new LocalApiError('INVALID_ARGUMENT', `${socket} is a WebSocket: ask for an upgrade`);
      checkHandshake(incoming);
    }
    if (incoming.method === 'GET' && hasBody(incoming))
      throw new LocalApiError('INVALID_ARGUMENT', 'this request has a body; its members belong to the query');
    // A request that reads does no harm.
    if (incoming.method !== 'GET') requireKnown(query, route.query?.() ?? { shape: {} });
    const body = await bodyOf(route as LocalRoute<unknown>, incoming);
    const call: LocalCall<unknown> = {
      params: parameters,
      query: route.query && validate(route.query(), queryOf(query, route.query())),
      ...{ body, signal: gone.signal, caller: judgedAgain(), deps: api.deps },
    };
    if (connect && take) {
      const taken = () => {
        judgedAgain();
        noted.upgraded();
        const request = take();
        keepOpen(deps.open, caller, request.socket, () => request.socket.destroy());
        return request;
      };
      return await connect(call, taken);
    }
    // A short answer is not cut off: it may be the answer to the revocation itself.
    keepOpen(deps.open, caller, outgoing, () => outgoing.headersSent && outgoing.destroy());
    if (reply) await writeReply(outgoing, reply, await handler?.(call));
  } catch (error) {
    if (gone.signal.aborted) return;
    writeError(outgoing, error, { requestId, log: deps.log, isTold: identified.kind !== 'workload' });
  }
}

/** What a request asks for, or why there is no such thing. */
type LookedUp = { query: URLSearchParams } & (
  | { route: LocalRoute; parameters: Record<string, string>; error?: undefined }
  | { route?: undefined; parameters: Record<string, string>; error: unknown }
);

function lookUp(api: LocalApi, incoming: IncomingMessage): LookedUp {
  let query = new URLSearchParams();
  try {
    const { pathname, searchParams } = targetOf(incoming);
    query = searchParams;
    return { ...api.find(incoming.method ?? 'GET', pathname), query };
  } catch (error) {
    return { parameters: {}, query, error };
  }
}

/** A call ends with its token, when that is revoked, and with the role that allowed it. */
function keepOpen(open: OpenCalls, { claims, microservice }: LocalCaller, until: EventEmitter, end: () => void): void {
  if (claims) until.once('close', open.add({ claims, microservice }, end));
}

/** What decides what a microservice may ask for. */
const standingOf = (view: ReturnType<ServedAgent['viewWithRules']>): string =>
  JSON.stringify(view && [view.application, view.serviceAccount]) ?? '';

interface NotedAccess {
  route?: LocalRoute | undefined;
  /** The request has become a WebSocket. */
  upgraded(): void;
}

/** Counts and logs a request when it is answered. */
function noteAccess(
  { method = '' }: IncomingMessage,
  outgoing: ServerResponse,
  { clock, logAccess, api }: Served,
  { identified, listener }: Approach,
): NotedAccess {
  const began = clock.now();
  let isDone = false;
  const done = (status: number | undefined) => {
    if (isDone) return;
    isDone = true;
    const { route } = noted;
    const labels = { operation: route?.operation ?? 'none', status: String(status ?? 'disconnected') };
    api.agent.metrics.add('localApiRequests', labels);
    const milliseconds = clock.now() - began;
    logAccess({ method, ...(route && { route }), ...(status && { status }), milliseconds, listener, identified });
  };
  const noted: NotedAccess = { upgraded: () => done(101) };
  outgoing.once('close', () => done(outgoing.headersSent ? outgoing.statusCode : undefined));
  return noted;
}

/** What a route takes of the body of a request. */
async function bodyOf(route: LocalRoute<unknown>, incoming: IncomingMessage): Promise<unknown> {
  if (route.form) return readForm(incoming);
  const body = route.body?.();
  return body && validate(body, await readBody(incoming));
}

const hasBody = ({ headers }: IncomingMessage) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

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
