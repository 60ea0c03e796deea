import type { ServerResponse } from 'node:http';
import { constants, gzip } from 'node:zlib';
import { isTransient } from '../kube/mod.ts';
import { AgentFailure } from './failure.ts';

/** An answer as a value; handlers return it, `send` writes it. */
export interface Reply {
  status: number;
  body?: string;
  type?: string;
  etag?: string;
  headers?: Readonly<Record<string, string>>;
  /** for metrics */
  code?: string;
}

export const json = (body: unknown, extra: Partial<Reply> = {}): Reply => ({
  status: 200,
  body: JSON.stringify(body),
  ...extra,
});
export const NO_CONTENT: Reply = { status: 204 };

const JSON_TYPE = 'application/json; charset=utf-8';

export function send(res: ServerResponse, reply: Reply, closing: boolean): void {
  if (res.headersSent || res.destroyed) return;
  const headers: Record<string, string | number> = { ...reply.headers };
  if (reply.etag !== undefined) headers.ETag = reply.etag;
  if (closing) headers.Connection = 'close';
  if (reply.body !== undefined) {
    headers['Content-Type'] = reply.type ?? JSON_TYPE;
    headers['Content-Length'] = Buffer.byteLength(reply.body);
  } else if (reply.status !== 204 && reply.status !== 304) {
    headers['Content-Length'] = 0;
  }
  if (reply.body !== undefined && !closing && isWorthPacking(reply.body, res.req.headers['accept-encoding'])) {
    sendPacked(res, reply.status, headers, reply.body);
    return;
  }
  res.writeHead(reply.status, headers);
  if (closing && !res.req.complete && reply.body !== undefined) linger(res, reply.body);
  else res.end(reply.body);
}

/** Characters from which packing saves more than it costs: many machines hang on thin lines. */
const WORTH_PACKING = 4096;

const isWorthPacking = (body: string, accepted: string | string[] | undefined) =>
  body.length >= WORTH_PACKING && /(^|,)\s*gzip\s*($|,|;(?!\s*q=0(\.0*)?\s*($|,)))/i.test(String(accepted ?? ''));

function sendPacked(res: ServerResponse, status: number, headers: Record<string, string | number>, body: string): void {
  gzip(body, { level: constants.Z_BEST_SPEED }, (error, packed) => {
    if (res.headersSent || res.destroyed) return;
    if (error) {
      res.destroy(error);
      return;
    }
    const more = { 'Content-Encoding': 'gzip', 'Content-Length': packed.length, Vary: 'Accept-Encoding' };
    res.writeHead(status, { ...headers, ...more });
    res.end(packed);
  });
}

const LINGER_MS = 2_000;
const LINGER_BYTES = 64 * 2 ** 20;

/**
 * Answers, and goes on receiving what nobody reads for a moment before the connection is cut: a client that is cut off in
 * the middle of sending sees a broken connection and not the answer.
 */
function linger(res: ServerResponse, body: string): void {
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

export function failureReply(failure: AgentFailure): Reply {
  const retryAfter = failure.retryAfterSeconds;
  return {
    status: failure.status,
    body: failure.body(),
    code: failure.code,
    ...(retryAfter !== undefined && { headers: { 'Retry-After': String(retryAfter) } }),
  };
}

/** Any error as an agent may see it; what is not its fault is 503, and says nothing of the inside. */
export function failureOf(error: unknown): AgentFailure {
  if (error instanceof AgentFailure) return error;
  if (isTransient(error)) {
    return new AgentFailure('CONTROLLER_DB_UNAVAILABLE', 'the cluster does not answer at present', { cause: error });
  }
  return new AgentFailure('CONTROLLER_DB_BUSY', 'the request could not be carried out now', { cause: error });
}
