import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { z } from 'zod';
import type { ErrorCode, ErrorStatus } from '../api/error-codes.ts';
import { admitConnections } from '../http/admit-connections.ts';
import type { BodyRefusal } from '../http/body.ts';
import { clientAddress } from '../http/client-address.ts';
import type { ConnectionLimits } from '../http/connections.ts';
import { HttpError, RETRY_AFTER, replyTo, retryAfter } from '../http/http-error.ts';
import { createJsonReader } from '../http/json-body.ts';
import { json, type Reply, send } from '../http/reply.ts';
import { isTransient } from '../kube/api-error.ts';
import { createByteBudget } from '../lib/byte-budget.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { InternalCredentials, InternalHandlers } from './channel.ts';
import { createVerifier } from './internal-verifier.ts';

/**
 * The API of the leader for other replicas. Every replica serves it and responds 409 unless it leads. Its paths are those of the
 * handlers: agents and sessions bring their own.
 */
export interface InternalServer extends AsyncDisposable {
  readonly http: Server;
  /** Rejects with HttpError unless the request is of another replica. */
  authenticate(request: IncomingMessage): Promise<void>;
  listen(address: { port: number; host?: string }): Promise<{ port: number }>;
}

export interface InternalServerOptions {
  /** whether this replica leads now; asked before and after each body and handler */
  isLeading(): boolean;
  credentials: Pick<InternalCredentials, 'verify'>;
  /** what the leader answers, by path; a ZodError is the 400 of a message that is not understood */
  handlers: InternalHandlers;
  clock: Clock;
  log: Log;
}

/** of one message of another replica; the batches of observations are much smaller */
const BODY_BYTES = 32 * 2 ** 20;
const BODY_MS = 10_000;
/** A replica has a few connections, and one for each session that it relays. Whoever else reaches the port gets few places. */
const CONNECTIONS: ConnectionLimits = { all: 2_000, strangers: 200, address: 32, graceMs: 2_000, caller: 1_000 };

export function createInternalServer({
  isLeading,
  credentials,
  handlers,
  clock,
  log,
}: InternalServerOptions): InternalServer {
  const verify = createVerifier(credentials, clock);
  async function verified(req: IncomingMessage): Promise<void> {
    const address = clientAddress(req.socket.remoteAddress);
    await verify(req.headers.authorization, address);
    admitted.authenticated(req.socket, address);
  }

  const readJson = createJsonReader({ clock, refuse, invalid });
  const budget = createByteBudget({ bytes: 8 * BODY_BYTES, messages: 64 });
  const lead = () => {
    if (!isLeading()) throw new NotLeader();
  };

  async function answer(req: IncomingMessage): Promise<Reply> {
    const path = req.url ?? '';
    const handler = req.method === 'POST' && Object.hasOwn(handlers, path) ? handlers[path] : undefined;
    if (!handler) throw new HttpError(404, 'ROUTE_NOT_FOUND', 'no such route');
    await verified(req);
    lead();
    const body = await readJson(req, {
      maxBytes: BODY_BYTES,
      elements: BODY_BYTES,
      budget,
      caller: 'replicas',
      ms: BODY_MS,
    });
    lead();
    const value = await handler(body);
    // One that waited may answer after another replica leads.
    lead();
    return json(value);
  }

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    try {
      send(res, await answer(req), { compress: true });
    } catch (error) {
      if (error instanceof NotLeader) return send(res, { status: 409, body: '{"code":"NOT_LEADER"}' });
      const failure = failureOf(error);
      if (error instanceof z.ZodError)
        log.warn({ path: req.url, reason: failure.message }, 'Internal message not understood');
      send(res, replyTo(failure), { closing: failure.status !== 401 });
    }
  }

  const times = { requestTimeout: 15_000, headersTimeout: 5_000, connectionsCheckingInterval: 5_000 };
  const http = createServer(times, (req, res) => void serve(req, res));
  const admitted = admitConnections(http, { limits: CONNECTIONS, clock });
  http.keepAliveTimeout = 60_000;

  return {
    http,
    authenticate: verified,
    listen: ({ port, host }) =>
      new Promise((resolve, reject) => {
        http.once('error', reject);
        http.listen(port, host, () => {
          http.off('error', reject);
          const address = http.address();
          resolve({ port: typeof address === 'object' && address ? address.port : port });
        });
      }),
    async [Symbol.asyncDispose]() {
      http.closeAllConnections();
      await new Promise<void>((resolve) => {
        http.close(() => resolve());
      });
    },
  };
}

class NotLeader extends Error {}

const REFUSALS: Readonly<Record<BodyRefusal, readonly [status: ErrorStatus, code: ErrorCode]>> = {
  encoding: [415, 'UNSUPPORTED_ENCODING'],
  'too-large': [413, 'BODY_TOO_LARGE'],
  'caller-full': [429, 'TOO_MANY_REQUESTS'],
  'class-full': [503, 'CONTROLLER_DB_BUSY'],
  'too-slow': [408, 'REQUEST_TIMEOUT'],
  'cut-off': [408, 'REQUEST_TIMEOUT'],
};

function refuse(why: BodyRefusal, message: string): HttpError {
  const [status, code] = REFUSALS[why];
  return new HttpError(status, code, message);
}

const invalid = (message: string) => new HttpError(400, 'VALIDATION_ERROR', message);

/** The response to any error; errors of the replica itself are 503 and contain nothing internal. */
function failureOf(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  if (error instanceof z.ZodError) {
    const [issue] = error.issues;
    return invalid(`${issue?.path.join('.') || 'the message'}: ${issue?.message ?? 'not understood'}`);
  }
  const code = isTransient(error) ? 'CONTROLLER_DB_UNAVAILABLE' : 'CONTROLLER_DB_BUSY';
  return new HttpError(503, code, 'the request could not be carried out now', {
    cause: error,
    headers: retryAfter(RETRY_AFTER),
  });
}
