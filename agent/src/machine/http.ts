import http, { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { LookupFunction } from 'node:net';
import type { Duplex } from 'node:stream';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { drained } from './drained.ts';

/** Where a request goes: a unix socket, or a host with or without TLS. */
export type Target = { socketPath: string } | { origin: URL; ca?: string; insecure?: boolean };

/** The host of a URL, without the brackets of an address of IPv6. */
export const plainHost = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, '');

export interface HttpRequest {
  target: Target;
  method: string;
  /** path and query */
  path: string;
  headers?: Record<string, string>;
  body?: string;
  /** a body that is sent piece by piece; an error of it ends the request, and is its error */
  stream?: AsyncIterable<Uint8Array>;
  /**
   * milliseconds until the answer must have begun, or, for `exchange`, ended; a long body may take longer as long as it
   * keeps coming (see SLOWEST); with `stream`, counted from its last piece
   */
  deadline: number;
  signal?: AbortSignal;
  /** keeps connections open between requests */
  connections?: http.Agent;
  /** finds the addresses of the host that may be connected to; absent: the system does, and all may */
  lookup?: LookupFunction;
}

export interface HttpResponse {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

/** A request without a response: no connection, a broken one, or a timeout. */
export class TransportError extends Error {
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'TransportError';
    this.code = code;
  }
}

/**
 * Bytes per millisecond (16 kbit/s) of the slowest link that is worth waiting for. Deadlines grow by what it needs for a
 * body: a fixed one would keep a large document from ever arriving over a thin line.
 */
export const SLOWEST = 2;

/** Code of the error of a kept connection that turned out to be closed; the same request may be sent once more. */
export const STALE = 'STALE';

/** Connections that are kept open, for the scheme of a URL. */
export function keepAlive(origin: URL, maxSockets = 4): http.Agent {
  // Node would probe a quiet connection every second; half a minute keeps a NAT entry alive and costs next to nothing.
  const options = { keepAlive: true, keepAliveMsecs: 30_000, maxSockets, timeout: 300_000 };
  return origin.protocol === 'https:' ? new https.Agent(options) : new http.Agent(options);
}

/** Whether a connection waits for its next request. */
export const hasIdle = (connections: http.Agent): boolean =>
  Object.values(connections.freeSockets).some((sockets) => sockets?.some(({ destroyed }) => !destroyed));

/** Ends the connections that wait for their next request: where one turned out to be dead, the others may be, too. */
export function closeIdle(connections: http.Agent): void {
  for (const sockets of Object.values(connections.freeSockets))
    for (const socket of [...(sockets ?? [])]) socket.destroy();
}

/** Sends a request and answers as soon as the head of the answer is there; the caller reads and ends the stream. */
export function open(request: HttpRequest): Promise<IncomingMessage> {
  return send(request, onResponse);
}

function onResponse(outgoing: ClientRequest, resolve: (value: IncomingMessage) => void, settle: () => void): void {
  outgoing.on('response', (incoming) => {
    // The signal can still end the stream; nothing of ours is left on it once the stream is over.
    incoming.once('close', settle);
    resolve(incoming);
  });
}

/** A connection that carries bytes both ways, after an answer with the status 101. */
export interface Upgraded {
  socket: Duplex;
  /** what had arrived with the answer */
  head: Buffer;
}

/**
 * Asks for a connection that carries bytes both ways. The signal counts until the answer is there. Any other answer than
 * that is returned as it is; the caller reads and ends it.
 */
export function upgrade(request: HttpRequest): Promise<Upgraded | IncomingMessage> {
  const headers = { ...request.headers, connection: 'Upgrade', upgrade: 'tcp' };
  return send<Upgraded | IncomingMessage>({ ...request, headers }, (outgoing, resolve, settle) => {
    outgoing.on('upgrade', (_incoming, socket, head) => {
      settle();
      resolve({ socket, head });
    });
    onResponse(outgoing, resolve, settle);
  });
}

function send<T>(
  request: HttpRequest,
  attend: (outgoing: ClientRequest, resolve: (value: T) => void, settle: () => void) => void,
): Promise<T> {
  const { target, method, path, headers, body, stream, deadline, signal, connections, lookup } = request;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const length = Buffer.byteLength(body ?? '');
    const common = {
      method,
      path,
      // Without any, a connection of its own: the process-wide agent would keep it, and find it closed later.
      agent: connections ?? false,
      headers: { ...headers, ...(body !== undefined && { 'content-length': String(length) }) },
    };
    const outgoing =
      'socketPath' in target
        ? http.request({ ...common, socketPath: target.socketPath, headers: { host: 'engine', ...common.headers } })
        : (target.origin.protocol === 'https:' ? https : http).request({
            ...common,
            host: plainHost(target.origin),
            port: target.origin.port || undefined,
            ...(lookup && { lookup }),
            ...(target.ca && { ca: target.ca }),
            ...(target.insecure && { rejectUnauthorized: false }),
          });
    const late = () =>
      outgoing.destroy(new TransportError('TIMEOUT', `no answer within ${Math.round(deadline / 1000)} s`));
    let timer = setTimeout(late, deadline + length / SLOWEST);
    let isTimed = true;
    const abort = () => outgoing.destroy(signal?.reason instanceof Error ? signal.reason : new Error('aborted'));
    signal?.addEventListener('abort', abort, { once: true });
    const stopTimer = () => {
      clearTimeout(timer);
      isTimed = false;
    };
    const settle = () => {
      stopTimer();
      signal?.removeEventListener('abort', abort);
    };
    const answered = (value: T) => {
      stopTimer();
      resolve(value);
    };
    attend(outgoing, answered, settle);
    let failure: Error | undefined;
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      settle();
      if (failure) return reject(failure);
      if (signal?.aborted || error instanceof TransportError) return reject(signal?.aborted ? signal.reason : error);
      // The other side had just closed this kept connection: the request was not read.
      const stale = outgoing.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
      reject(stale ? new TransportError(STALE, error.message, { cause: error }) : transportError(error));
    });
    if (!stream) return outgoing.end(body);
    const sent = () => {
      if (!isTimed) return;
      clearTimeout(timer);
      timer = setTimeout(late, deadline);
    };
    sendPieces(outgoing, stream, sent).catch((error: Error) => {
      failure = error;
      outgoing.destroy(error);
    });
  });
}

/** Sends a body until it ends, or until the connection does. */
async function sendPieces(outgoing: ClientRequest, stream: AsyncIterable<Uint8Array>, sent: () => void): Promise<void> {
  for await (const piece of stream) {
    if (outgoing.destroyed) return;
    if (!outgoing.write(piece)) await drained(outgoing);
    sent();
  }
  outgoing.end();
}

function transportError(error: NodeJS.ErrnoException & { hostname?: string }): TransportError {
  const { code = 'BROKEN', hostname, message, syscall } = error;
  return syscall === 'getaddrinfo'
    ? new TransportError(code, `the name ${hostname} does not resolve (${code})`)
    : new TransportError(code, message, { cause: error });
}

/** Sends a request and reads the whole answer, at most `limit` bytes of it. */
export async function exchange(request: HttpRequest, limit: number): Promise<HttpResponse> {
  const began = performance.now();
  const incoming = await open(request);
  const left = Math.max(1000, request.deadline - (performance.now() - began));
  const body = await unpacked(incoming, await readAll(incoming, limit, left), limit);
  return { status: incoming.statusCode ?? 0, headers: incoming.headers, body: body.toString('utf8') };
}

const inflate = promisify(gunzip);

/** The body of an answer without its encoding; its length is capped before memory is allocated. */
async function unpacked({ headers }: IncomingMessage, body: Buffer, limit: number): Promise<Buffer> {
  const encoding = headers['content-encoding'];
  if (encoding === undefined || encoding === 'identity') return body;
  if (encoding !== 'gzip') throw new TransportError('ENCODING', `the answer has an encoding that was not asked for`);
  try {
    return await inflate(body, { maxOutputLength: limit });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE')
      throw new TransportError('TOO_LARGE', `the answer is larger than ${limit} bytes`);
    throw new TransportError('ENCODING', 'the answer cannot be unpacked', { cause: error });
  }
}

/**
 * Reads a stream to its end. A length in the headers is checked before anything is kept. `deadline`: milliseconds that may
 * pass without a byte, and, beyond what the slowest link needs, in all.
 */
export function readAll(incoming: IncomingMessage, limit: number, deadline: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const fail = (code: string, message: string) => {
      incoming.destroy();
      reject(new TransportError(code, message));
    };
    if (Number(incoming.headers['content-length'] ?? 0) > limit)
      return fail('TOO_LARGE', `the answer is larger than ${limit} bytes`);
    const pieces: Buffer[] = [];
    let size = 0;
    const began = performance.now();
    let lastPiece = began;
    const look = () => {
      const left = Math.min(lastPiece, began + size / SLOWEST) + deadline - performance.now();
      if (left > 0) timer = setTimeout(look, left);
      else fail('TIMEOUT', 'the answer did not end in time');
    };
    let timer = setTimeout(look, deadline);
    incoming.on('data', (piece: Buffer) => {
      lastPiece = performance.now();
      size += piece.length;
      if (size > limit) return fail('TOO_LARGE', `the answer is larger than ${limit} bytes`);
      pieces.push(piece);
    });
    incoming.on('end', () => resolve(Buffer.concat(pieces)));
    incoming.on('close', () => {
      clearTimeout(timer);
      reject(new TransportError('BROKEN', 'the connection broke before the response ended'));
    });
    incoming.on('error', (error: NodeJS.ErrnoException) =>
      reject(new TransportError(error.code ?? 'BROKEN', error.message, { cause: error })),
    );
  });
}

/** The lines of a stream; a line longer than `limit` characters ends it with an error. */
export async function* lines(incoming: IncomingMessage, limit: number): AsyncGenerator<string> {
  incoming.setEncoding('utf8');
  let rest = '';
  for await (const piece of incoming as AsyncIterable<string>) {
    rest += piece;
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
      const line = rest.slice(0, end).trim();
      rest = rest.slice(end + 1);
      if (line) yield line;
    }
    if (rest.length > limit) throw new TransportError('TOO_LARGE', 'a line of the answer is too long');
  }
  if (rest.trim()) yield rest.trim();
}
