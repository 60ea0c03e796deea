import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2';
import { connect } from 'node:net';
import { drained } from '../../../machine/drained.ts';

/** Calls over one connection to a unix socket, in the form of gRPC: HTTP/2, with each message behind five bytes. */

/** Statuses of gRPC that the agent tells apart. */
export const STATUS = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalid: 3,
  deadline: 4,
  notFound: 5,
  exists: 6,
  precondition: 9,
  unimplemented: 12,
  unavailable: 14,
} as const;

/** An answer that is an error. */
export class GrpcError extends Error {
  override name = 'GrpcError';
  readonly status: number;
  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

export interface GrpcCall {
  /** `/package.Service/ContainerdMethod` */
  path: string;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** milliseconds until the answer is complete; absent: as long as it takes */
  deadline?: number | undefined;
}

/** Bytes of a message that are read. */
const MESSAGE_LIMIT = 16 * 1024 * 1024;
const HEADER = 5;
/** The code of HTTP/2 for an answer that is not wanted any more. */
const CANCEL = 8;

export class GrpcConnection {
  readonly #socketPath: string;
  #session: ClientHttp2Session | undefined;
  /** calls that have not ended */
  #open = 0;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  /** Sends messages and yields the messages of the answer; throws GrpcError when its status is an error. */
  async *call(call: GrpcCall, messages: AsyncIterable<Buffer> | Iterable<Buffer>): AsyncGenerator<Buffer> {
    const { path, headers = {}, signal, deadline } = call;
    signal?.throwIfAborted();
    const session = this.#connected();
    const stream = session.request({
      ...headers,
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...(deadline && { 'grpc-timeout': `${deadline}m` }),
    });
    this.#hold(session);
    const outcome = outcomeOf(stream);
    const end = (status: number, text: string) => () => stream.destroy(new GrpcError(status, text));
    const timer = deadline && setTimeout(end(STATUS.deadline, `no answer within ${deadline / 1000} s`), deadline + 500);
    const abort = end(STATUS.cancelled, 'aborted');
    signal?.addEventListener('abort', abort, { once: true });
    let failure: unknown;
    const sending = send(stream, messages).catch((error: unknown) => {
      failure = error;
      stream.destroy();
    });
    try {
      yield* messagesOf(stream);
      await sending;
      const status = await outcome;
      if (failure !== undefined) throw failure;
      if (status.status !== STATUS.ok) throw status;
    } catch (error) {
      if (failure !== undefined) throw failure;
      if (signal?.aborted) throw signal.reason;
      if (error instanceof GrpcError) throw error;
      // The status says more than the end of the stream.
      const known = await Promise.race([
        outcome,
        new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined))),
      ]);
      throw known && known.status !== STATUS.ok ? known : asGrpc(error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
      stream.close(CANCEL);
      this.#release(session);
    }
  }

  close(): void {
    this.#session?.destroy();
    this.#session = undefined;
  }

  #connected(): ClientHttp2Session {
    const present = this.#session;
    if (present && !present.destroyed && !present.closed) return present;
    // Loaded only now: an agent with another engine does not have it in memory.
    const session = process.getBuiltinModule('node:http2').connect('http://localhost', {
      createConnection: () => connect(this.#socketPath),
      settings: { initialWindowSize: 1024 * 1024 },
    });
    const forget = () => {
      if (this.#session === session) this.#session = undefined;
    };
    // Each call gets the error as its own.
    session.on('error', forget);
    session.on('close', forget);
    session.on('goaway', forget);
    this.#session = session;
    return session;
  }

  /** A quiet connection does not keep the process alive. */
  #hold(session: ClientHttp2Session): void {
    if (this.#open++ === 0) session.ref();
  }

  #release(session: ClientHttp2Session): void {
    if (--this.#open === 0 && !session.destroyed) session.unref();
  }
}

async function send(stream: ClientHttp2Stream, messages: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<void> {
  for await (const message of messages) {
    if (stream.destroyed) return;
    const header = Buffer.alloc(HEADER);
    header.writeUInt32BE(message.length, 1);
    if (!stream.write(Buffer.concat([header, message]))) await drained(stream);
  }
  stream.end();
}

/** The status at the end of an answer; GrpcError also for success, with the status 0. */
function outcomeOf(stream: ClientHttp2Stream): Promise<GrpcError> {
  return new Promise((resolve) => {
    const read = (headers: IncomingHttpHeaders) => {
      const status = headers['grpc-status'];
      if (status !== undefined) resolve(new GrpcError(Number(status), words(headers['grpc-message'])));
      else if (Number(headers[':status'] ?? 200) !== 200)
        resolve(new GrpcError(STATUS.unavailable, `status ${headers[':status']} of HTTP`));
    };
    stream.on('response', read);
    stream.on('trailers', read);
    stream.on('error', (error) => resolve(asGrpc(error)));
    stream.on('close', () => resolve(new GrpcError(STATUS.unavailable, 'the connection ended')));
  });
}

function words(message: string | string[] | undefined): string {
  const text = String(message ?? '');
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function asGrpc(error: unknown): GrpcError {
  if (error instanceof GrpcError) return error;
  return new GrpcError(STATUS.unavailable, error instanceof Error ? error.message : String(error), { cause: error });
}

async function* messagesOf(stream: ClientHttp2Stream): AsyncGenerator<Buffer> {
  let pieces: Buffer[] = [];
  let present = 0;
  let needed = HEADER;
  for await (const piece of stream as AsyncIterable<Buffer>) {
    pieces.push(piece);
    present += piece.length;
    // Joined only when a message is complete: with each piece, a large one would be copied over and over.
    if (present < needed) continue;
    let rest = Buffer.concat(pieces);
    for (needed = HEADER; rest.length >= HEADER; needed = HEADER) {
      const length = rest.readUInt32BE(1);
      if (rest[0] !== 0) throw new GrpcError(STATUS.unknown, 'a message is compressed');
      if (length > MESSAGE_LIMIT) throw new GrpcError(STATUS.unknown, `a message has ${length} bytes`);
      needed = HEADER + length;
      if (rest.length < needed) break;
      yield rest.subarray(HEADER, needed);
      rest = rest.subarray(needed);
    }
    pieces = [rest];
    present = rest.length;
  }
}
