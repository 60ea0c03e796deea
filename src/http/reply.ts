import type { ServerResponse } from 'node:http';
import { constants, gzip } from 'node:zlib';

/** A response as a value: handlers return it, `send` writes it. */
export interface Reply {
  status: number;
  body?: string | Buffer;
  /** media type of the body; JSON when absent */
  type?: string;
  etag?: string;
  headers?: Readonly<Record<string, string>>;
}

export interface SendOptions {
  /** Ends the connection after this response. Bytes that the client still sends are received for a moment and dropped. */
  closing?: boolean;
  /** Compresses large bodies for clients that accept gzip. */
  compress?: boolean;
  /** called once, when this process keeps nothing of the body any more: it was taken, or its client is gone */
  onReleased?: (() => void) | undefined;
}

export const JSON_TYPE = 'application/json; charset=utf-8';
export const NO_CONTENT: Reply = { status: 204 };

export const json = (body: unknown, extra: Partial<Reply> = {}): Reply => ({
  status: 200,
  body: JSON.stringify(body),
  ...extra,
});

/** Does nothing when the client is gone or a response has begun. */
export function send(res: ServerResponse, reply: Reply, options: SendOptions = {}): void {
  const { closing = false, compress = false, onReleased } = options;
  if (isGone(res)) {
    onReleased?.();
    return;
  }
  const { status, body } = reply;
  const headers: Record<string, string | number> = { ...reply.headers };
  if (reply.etag !== undefined) headers.ETag = reply.etag;
  if (closing) headers.Connection = 'close';
  if (body !== undefined) {
    headers['Content-Type'] = reply.type ?? JSON_TYPE;
    headers['Content-Length'] = Buffer.byteLength(body);
  } else if (status !== 204 && status !== 304) {
    headers['Content-Length'] = 0;
  }
  if (compress && !closing && body !== undefined && isWorthCompressing(body, res.req.headers['accept-encoding'])) {
    sendCompressed(res, status, headers, body, onReleased);
    return;
  }
  if (onReleased) whenOver(res, onReleased);
  res.writeHead(status, headers);
  if (closing && !res.req.complete && body !== undefined) linger(res, body);
  else res.end(body);
}

/** Also when the socket ends while a response waits for an earlier one: that response is not destroyed. */
const isGone = (res: ServerResponse) => res.headersSent || res.destroyed || res.req.socket.destroyed;

/** Below this length compression costs more CPU than the bandwidth it saves, also on slow links. */
const WORTH_COMPRESSING = 4096;

const isWorthCompressing = (body: string | Buffer, accepted: string | string[] | undefined) =>
  body.length >= WORTH_COMPRESSING && /(^|,)\s*gzip\s*($|,|;(?!\s*q=0(\.0*)?\s*($|,)))/i.test(String(accepted ?? ''));

function sendCompressed(
  res: ServerResponse,
  status: number,
  headers: Record<string, string | number>,
  body: string | Buffer,
  onReleased: (() => void) | undefined,
): void {
  // A client that is gone does not end the compression, which keeps the body.
  gzip(body, { level: constants.Z_BEST_SPEED }, (error, compressed) => {
    if (error) res.destroy(error);
    if (isGone(res)) {
      onReleased?.();
      return;
    }
    if (onReleased) whenOver(res, onReleased);
    const more = { 'Content-Encoding': 'gzip', 'Content-Length': compressed.length, Vary: 'Accept-Encoding' };
    res.writeHead(status, { ...headers, ...more });
    res.end(compressed);
  });
}

/** Calls back once: when the response was written, or its socket is gone, also while an earlier response is written. */
function whenOver(res: ServerResponse, callback: () => void): void {
  const { socket } = res.req;
  const over = () => {
    res.off('close', over);
    socket.off('close', over);
    callback();
  };
  res.on('close', over);
  socket.on('close', over);
}

const LINGER_MS = 2_000;
const LINGER_BYTES = 64 * 2 ** 20;

/**
 * Writes the response and drops what the client is still sending for a moment before the connection is closed: a client
 * that is disconnected in the middle of sending sees a broken connection instead of the response.
 */
function linger(res: ServerResponse, body: string | Buffer): void {
  const { req } = res;
  let received = 0;
  const end = () => {
    clearTimeout(timer);
    res.end();
  };
  const timer = setTimeout(end, LINGER_MS);
  req.on('data', (chunk: Buffer) => {
    received += chunk.length;
    if (received > LINGER_BYTES) end();
  });
  req.once('end', end).once('close', end);
  req.resume();
  res.write(body);
}
