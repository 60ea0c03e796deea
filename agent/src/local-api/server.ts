import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { jsonExcess } from '../../../src/api/json.ts';
import { AGENT_GROUP } from '../../../src/api/names.ts';
import { printable } from '../../../src/api/printable.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { UpgradeRequest } from '../../../src/session-client/socket.ts';
import type { Clock } from '../domain/clock.ts';
import { exists, makeDirectory, removePath } from '../system/disk.ts';
import { errorText } from '../system/log.ts';
import { BRIDGE_LIMITS, LOOPBACK_LIMITS, type NoteUse, shareConnections } from './connection-shares.ts';
import { API_ERRORS, ApiError } from './errors.ts';
import { allows, type Grant, REACHES_ALL, reachOf } from './grants.ts';
import type { ApiContext, ApiReply, ApiRequest, Route } from './route.ts';
import { ROUTES, toApiError, unrouted } from './routes.ts';
import { isAdmin, tokenClaims, workloadOf } from './token.ts';
import { checkHandshake } from './websocket.ts';

const BODY_LIMIT = 1024 * 1024;
/** How much of a body that is too large is received and discarded, so that its sender can read the response. */
const DISCARDED = 16 * BODY_LIMIT;
/** ms */
const LINGER = 2_000;

export interface ServerDependencies {
  context: ApiContext;
  clock: Clock;
  log: Log;
}

/** The local API on a unix socket that only its owner can open. */
export async function listenOnSocket(path: string, directory: string, deps: ServerDependencies): Promise<Server> {
  makeDirectory(directory, 0o755);
  if (await answers(path)) throw new Error(`another agent answers at ${path}; stop it first`);
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

/** Where a request came from. */
type Listener = 'socket' | 'loopback' | 'bridge';

function listen(server: Server | TlsServer, where: { path: string } | { host: string; port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Whether a program listens on a unix socket. */
export function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
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
function connectionsOf(server: Server | TlsServer, { context }: ServerDependencies, listener: Listener): NoteUse {
  if (listener === 'socket') {
    server.maxConnections = SOCKET_CONNECTIONS;
    server.keepAliveTimeout = IDLE.known;
    return () => {};
  }
  server.keepAliveTimeout = IDLE.unknown;
  const limits = listener === 'bridge' ? BRIDGE_LIMITS : LOOPBACK_LIMITS;
  return shareConnections(server, limits, () => context.agent.metrics.add('localApiConnectionsClosed', { listener }));
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
  try {
    const url = targetOf(incoming);
    const { route, parameters } = findRoute(incoming.method ?? 'GET', url.pathname);
    const caller = authenticate(route, incoming, deps, listener);
    noteUse(incoming, outgoing, deps, caller.microservice);
    const request: ApiRequest = {
      parameters,
      query: url.searchParams,
      body: () => readBody(incoming),
      incoming,
      signal: gone.signal,
      ...caller,
    };
    if (take && route.connect) {
      checkHandshake(incoming);
      return await route.connect(request, deps.context, take);
    }
    await write(outgoing, await route.handler(request, deps.context));
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
  if (!incoming.url?.startsWith('/') || !url) throw new ApiError('INVALID_ARGUMENT', 'the path is malformed');
  return url;
}

function findRoute(method: string, path: string): { route: Route; parameters: Record<string, string> } {
  const segments = path.split('/');
  let otherMethod = false;
  for (const route of ROUTES) {
    const parameters = match(route.path.split('/'), segments);
    if (!parameters || RESERVED_IDS.has(parameters.id ?? '')) continue;
    if (route.method === method) return { route, parameters };
    otherMethod = true;
  }
  if (otherMethod) throw new ApiError('METHOD_NOT_ALLOWED', `${method} is not possible on ${path}`);
  throw unrouted(path);
}

/** Ends of the workloads' own routes, which look like ids. */
const RESERVED_IDS: ReadonlySet<string> = new Set(['config', 'control']);

function match(pattern: readonly string[], segments: readonly string[]): Record<string, string> | undefined {
  if (pattern.length !== segments.length) return undefined;
  const parameters: Record<string, string> = {};
  for (const [index, part] of pattern.entries()) {
    const segment = segments[index] ?? '';
    const [, name] = /^\{(\w+)\}$/.exec(part) ?? [];
    if (name && segment) parameters[name] = decode(segment);
    else if (part !== segment) return undefined;
  }
  return parameters;
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new ApiError('INVALID_ARGUMENT', 'the path is malformed');
  }
}

function authenticate(
  { access, grant }: Route,
  incoming: IncomingMessage,
  { context: { agent }, clock }: ServerDependencies,
  listener: Listener,
): Pick<ApiRequest, 'claims' | 'microservice' | 'reach'> {
  if (access === 'open') {
    if (listener === 'bridge') throw new ApiError('FORBIDDEN', 'this route is not served to containers');
    return { microservice: '', reach: REACHES_ALL };
  }
  const claims = tokenClaims(incoming.headers.authorization, agent.identity, clock);
  const microservice = claims && workloadOf(claims);
  if (access === 'admin' && listener !== 'socket' && !(grant && microservice !== undefined))
    throw new ApiError('FORBIDDEN', 'this route is served on the unix socket only');
  if (!claims || (microservice === undefined && !isAdmin(claims)))
    throw new ApiError('UNAUTHORIZED', 'a valid token of this agent is required');
  if (microservice === undefined) {
    if (access === 'admin') return { claims, microservice: '', reach: REACHES_ALL };
    throw new ApiError('FORBIDDEN', 'only a microservice can ask for what is its own, with its own token');
  }
  if (access === 'workload') return { claims, microservice, reach: ({ id }) => id === microservice };
  // The rules that the controller sent last count, not those that the token was made with.
  const view = agent.view(microservice);
  const rules = view?.serviceAccount?.rules ?? [];
  if (!view || !grant || !allows(rules, grant))
    throw new ApiError('FORBIDDEN', grant ? refusal(grant) : 'this route is for the admin of the machine only');
  return { claims, microservice, reach: reachOf(view.application, rules, grant) };
}

const refusal = ({ resource, verb }: Grant) =>
  `the role of this microservice does not allow it: ${verb} on ${resource} of the API group ${AGENT_GROUP}/v1`;

async function readBody(incoming: IncomingMessage): Promise<Record<string, unknown>> {
  const pieces: Buffer[] = [];
  let size = 0;
  const tooLarge = () => new ApiError('PAYLOAD_TOO_LARGE', `the body exceeds ${BODY_LIMIT} bytes`);
  if (Number(incoming.headers['content-length'] ?? 0) > DISCARDED) throw tooLarge();
  for await (const piece of incoming as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size <= BODY_LIMIT) pieces.push(piece);
    else pieces.length = 0;
    if (size > DISCARDED) throw tooLarge();
  }
  if (size > BODY_LIMIT) throw tooLarge();
  if (size === 0) return {};
  const text = Buffer.concat(pieces).toString('utf8');
  const excess = jsonExcess(text);
  if (excess) throw new ApiError('INVALID_ARGUMENT', `the body ${excess}`);
  try {
    const value: unknown = JSON.parse(text);
    if (value !== null && typeof value === 'object' && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // falls through to the one answer for all bodies that are no object
  }
  throw new ApiError('INVALID_ARGUMENT', 'the body is not a JSON object');
}

async function write(outgoing: ServerResponse, reply: ApiReply): Promise<void> {
  switch (reply.kind) {
    case 'envelope':
      return writeJson(outgoing, reply.status ?? 200, { success: true, data: reply.data });
    case 'bare':
      return writeJson(outgoing, reply.status ?? 200, reply.data);
    case 'text':
      outgoing.writeHead(200, { 'content-type': reply.type }).end(reply.text);
      return;
    case 'lines': {
      outgoing.writeHead(200, { 'content-type': 'application/x-ndjson' });
      // The first line may be long in coming.
      outgoing.flushHeaders();
      for await (const line of reply.lines) {
        if (outgoing.destroyed) return;
        if (!outgoing.write(`${JSON.stringify(line)}\n`)) await drained(outgoing);
      }
      outgoing.end();
      return;
    }
    default:
      reply satisfies never;
  }
}

function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      outgoing.off('drain', done);
      outgoing.off('close', done);
      resolve();
    };
    outgoing.once('drain', done);
    outgoing.once('close', done);
  });
}

function writeJson(outgoing: ServerResponse, status: number, value: unknown): void {
  outgoing.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

function writeError(outgoing: ServerResponse, error: unknown, requestId: string, log: Log): void {
  const known = toApiError(error);
  if (!known) log.error({ error: errorText(error), requestId }, 'A request of the local API failed');
  const { code, message, details } = known ?? new ApiError('INTERNAL', errorText(error));
  if (outgoing.headersSent) return void outgoing.destroy();
  const body = { success: false, error: { code, message: printable(message), details, requestId } };
  if (outgoing.req.complete) return void writeJson(outgoing, API_ERRORS[code], body);
  outgoing.writeHead(API_ERRORS[code], { 'content-type': 'application/json', connection: 'close' });
  linger(outgoing, JSON.stringify(body));
}

/**
 * Answers, and goes on receiving for a moment, without use, before the connection ends: a client that is cut off in the middle
 * of sending sees a broken connection and not the answer.
 */
function linger(outgoing: ServerResponse, text: string): void {
  const { req } = outgoing;
  let received = 0;
  const end = () => {
    clearTimeout(timer);
    outgoing.end();
  };
  const timer = setTimeout(end, LINGER);
  req.on('data', (piece: Buffer) => {
    received += piece.length;
    if (received > DISCARDED) end();
  });
  req.once('end', end).once('close', end);
  req.resume();
  outgoing.write(text);
}
