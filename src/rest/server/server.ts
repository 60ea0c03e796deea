import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import express from 'express';
import type { RestErrorCode } from '../../api/error-codes.ts';
import { admitConnections } from '../../http/admit-connections.ts';
import { createBodyReader } from '../../http/body.ts';
import { addressOf } from '../../http/client-address.ts';
import type { ErrorBody } from '../../http/http-error.ts';
import { createByteBudget } from '../../lib/byte-budget.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { type Log, silentLog } from '../../lib/log.ts';
import { admit, isPermitted } from '../access/gate.ts';
import type { UserInfo } from '../contract/access.ts';
import { BASE } from '../contract/base.ts';
import type { RestDependencies } from '../contract/dependencies.ts';
import { unauthenticated, unavailable } from '../contract/errors.ts';
import { DEFAULT_LIMITS, type Limits, type RestMetrics } from '../contract/limits.ts';
import type { AnyRoute, RenderBody } from '../contract/route.ts';
import { createTurns } from '../objects/list-reply.ts';
import { refusedBody } from './body.ts';
import { answerErrors, type Mounting, preamble, serveRoutes, unknownPath, userConnection } from './mount.ts';
import { createRates, type TakeAttempt } from './rates.ts';
import { SOCKET_ACCESS } from './sockets.ts';

export interface RestServerOptions {
  deps: RestDependencies;
  log?: Log;
  metrics?: RestMetrics;
  /** Whether replies are checked against their schemas; default: true unless NODE_ENV is `production`. */
  validateReplies?: boolean;
  /** PEM; plain HTTP when absent. Without a certificate each handshake fails until there is one. */
  tls?: Partial<ServedCertificate>;
  limits?: Partial<Limits>;
  /** Whether the last address of X-Forwarded-For is that of the client. */
  trustProxy?: boolean;
  /** Whether the audit log has the addresses of clients; default: true. */
  recordsAddresses?: boolean;
  routes: readonly AnyRoute[];
  /** replaces the expressions of bodies */
  renderBody: RenderBody;
  /** The clock of the rate limits. */
  clock?: Clock;
  /** The limit of attempts at credentials, where others share it. */
  attempt?: TakeAttempt;
}

/** PEM: a key, and its certificate with what leads to its authority. */
interface ServedCertificate {
  key: string;
  cert: string;
}

/** Serves a request, or returns false without any effect. */
type FirstHandler = (request: IncomingMessage, response: ServerResponse) => boolean;

/** A request for an upgrade to a WebSocket. */
interface SocketCall {
  request: IncomingMessage;
  authorization: string | undefined;
  socket: keyof typeof SOCKET_ACCESS;
  /** of the microservice or the node */
  uuid: string;
  signal: AbortSignal;
  /** called as soon as the caller is known, also when the request is refused then */
  identified?: (identity: UserInfo) => void;
}

/** The caller of a socket, and whether they may still have it; rejects when that cannot be said. */
interface AdmittedSocket {
  identity: UserInfo;
  stillMay(signal: AbortSignal): Promise<boolean>;
}

export interface RestServer extends AsyncDisposable {
  /** For other listeners of the same port, such as WebSocket upgrades. */
  readonly http: Server;
  /** Called before the REST API, once request id and X-Timestamp are set: the agent routes. */
  mountFirst(handler: FirstHandler): void;
  /** The caller of a socket, before its upgrade; or 401, 403, 429 or 503. `authorization` may come from the query. */
  admitSocket(socket: SocketCall): Promise<AdmittedSocket>;
  listen(address: { port: number; host?: string }): Promise<{ port: number }>;
  /**
   * A request on this connection was authenticated, as one of this caller, such as `node <uuid>`: the connection no longer makes
   * room for others. For listeners that share the port; REST and `admitSocket` call it themselves.
   */
  authenticated(request: IncomingMessage, caller: string): void;
  /** Serves another certificate from the next handshake on; open connections stay. Only with TLS. */
  serveCertificate(certificate: ServedCertificate): void;
  /** Accepts no more connections, closes idle ones, and waits for active requests, at most `graceMs`. */
  drain(graceMs: number): Promise<void>;
}

export function createRestServer(options: RestServerOptions): RestServer {
  const { log = silentLog, metrics = {}, routes, renderBody } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  let draining = false;
  const deps: RestDependencies = {
    ...options.deps,
    readiness: {
      check: async (signal) =>
        draining
          ? { code: 'CONTROLLER_NOT_READY', message: 'the controller is shutting down' }
          : options.deps.readiness.check(signal),
    },
  };
  const validateReplies = options.validateReplies ?? process.env.NODE_ENV !== 'production';
  const mounting: Mounting = {
    deps,
    log,
    metrics,
    limits,
    validateReplies,
    turn: createTurns(),
    rates: createRates(options.clock, options.attempt),
    readBody: createBodyReader({ clock: options.clock ?? systemClock, refuse: refusedBody }),
    receiving: createByteBudget({ ...limits.receiving.all, each: limits.receiving.caller }),
    addressOf: (request) => addressOf(request, options.trustProxy ?? false),
    recordsAddresses: options.recordsAddresses ?? true,
    renderBody,
    authenticated: (request, caller) => admitted.authenticated(request.socket, caller),
  };

  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', 'simple');
  const first: FirstHandler[] = [];
  app.use(BASE, serveRoutes(routes, mounting));
  app.use(() => {
    throw unknownPath();
  });
  app.use(answerErrors(log));

  const settings = {
    maxHeaderSize: limits.headerBytes,
    headersTimeout: limits.headersMs,
    requestTimeout: limits.receiveMs,
    keepAliveTimeout: limits.keepAliveMs,
    handshakeTimeout: limits.handshakeMs,
    connectionsCheckingInterval: Math.min(5_000, limits.headersMs),
    // Another protocol that a client offers, such as HTTP/2, is one that it can do without (RFC 9110, 7.8).
    shouldUpgradeCallback: ({ headers }: IncomingMessage) => headers.upgrade?.toLowerCase() === 'websocket',
  };
  function listener(request: IncomingMessage, response: ServerResponse): void {
    preamble(request, response, deps.clock());
    giveUpUntaken(response, limits.takeMs);
    if (draining) response.setHeader('connection', 'close');
    try {
      if (!first.some((handler) => handler(request, response))) app(request, response);
    } catch (err) {
      log.error({ err }, 'Request handler failed');
      if (response.headersSent) response.destroy();
      else response.writeHead(500).end();
    }
  }
  const http = (
    options.tls ? createHttpsServer({ ...settings, ...options.tls }, listener) : createHttpServer(settings, listener)
  ) as Server;
  const admitted = admitConnections(http, {
    // All clients behind a proxy have its address, and it is for the proxy to bound them.
    limits: options.trustProxy ? { ...limits.connections, address: Number.POSITIVE_INFINITY } : limits.connections,
    clock: options.clock ?? systemClock,
    metrics,
  });
  http.on('clientError', refuseMalformed);

  async function drain(graceMs: number): Promise<void> {
    draining = true;
    if (!http.listening) return;
    const closed = new Promise<void>((resolve) => http.close(() => resolve()));
    http.closeIdleConnections();
    // Connections with an active request become idle later.
    const sweep = setInterval(() => http.closeIdleConnections(), 50);
    const cut = setTimeout(() => http.closeAllConnections(), graceMs);
    await closed;
    clearInterval(sweep);
    clearTimeout(cut);
  }

  return {
    http,
    mountFirst(handler) {
      first.push(handler);
    },
    authenticated: mounting.authenticated,
    admitSocket: (call) => admitSocket(call, mounting),
    listen({ port, host }) {
      return new Promise((resolve, reject) => {
        http.once('error', reject);
        http.listen({ port, host }, () => {
          http.off('error', reject);
          http.on('error', (err) => log.error({ err }, 'HTTP server failed'));
          resolve({ port: (http.address() as AddressInfo).port });
        });
      });
    },
    serveCertificate: (certificate) => (http as unknown as HttpsServer).setSecureContext(certificate),
    drain,
    [Symbol.asyncDispose]: () => drain(0),
  };
}

async function admitSocket(
  call: SocketCall,
  { deps, rates, addressOf, authenticated }: Mounting,
): Promise<AdmittedSocket> {
  const { request, authorization, socket, uuid, signal, identified } = call;
  const notReady = await deps.readiness.check(signal);
  if (notReady) throw unavailable(notReady.message);
  const { identity } = await admit(
    deps,
    { access: SOCKET_ACCESS[socket] },
    {
      authorization,
      params: { uuid },
      signal,
      identified(caller) {
        authenticated(request, userConnection(caller));
        identified?.(caller);
      },
      guesses: rates.guesses(addressOf(request)),
    },
  );
  if (!identity) throw unauthenticated('send a bearer token');
  return {
    identity,
    stillMay: (later) => isPermitted(deps, SOCKET_ACCESS[socket], { identity, params: { uuid }, signal: later }),
  };
}

/** Destroys a connection whose client reads nothing for a while, since the response stays in memory until then. */
function giveUpUntaken(response: ServerResponse, ms: number): void {
  response.once('prefinish', () => response.setTimeout(ms));
}

/** until a client has taken the response to what was no HTTP */
const MALFORMED_MS = 1_000;

/** Refuses malformed HTTP, oversized headers and slow requests with the usual error body. */
function refuseMalformed(error: Error & { code?: string }, socket: Duplex): void {
  // Without a finished handshake nothing can be sent.
  if (error.code === 'ECONNRESET' || error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, code, message]: [string, RestErrorCode<400 | 408 | 431>, string] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'HEADERS_TOO_LARGE', 'the headers are too large']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'REQUEST_TIMEOUT', 'the request came too slowly']
        : ['400 Bad Request', 'MALFORMED_REQUEST', 'the request is not valid HTTP'];
  const body = JSON.stringify({ name: 'ValidationError', message, code } satisfies ErrorBody);
  // A client that keeps its own half open is in no limit of Node any more.
  const cut = setTimeout(() => socket.destroy(), MALFORMED_MS);
  socket.once('close', () => clearTimeout(cut));
  socket.end(
    `HTTP/1.1 ${status}\r\nX-Timestamp: ${Date.now()}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
