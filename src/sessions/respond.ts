import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { HttpError, replyTo, retryAfter } from '../http/http-error.ts';

export const tooManyRequests = (message: string, seconds: number) =>
  new HttpError(429, 'TOO_MANY_REQUESTS', message, { headers: retryAfter(seconds) });
export const tryAgainLater = (message: string) =>
  new HttpError(503, 'CONTROLLER_NOT_READY', message, { headers: retryAfter(1) });

/** until a client has taken a response */
const TAKE_MS = 5_000;

/**
 * An HTTP response to a request for an upgrade, which ends the connection: also that of a client that keeps its own half open,
 * for which Node has no limit after an upgrade.
 */
export function respond(socket: Duplex, error: HttpError): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const { status, headers = {}, body = '' } = replyTo(error);
  const lines = Object.entries({
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
    ...headers,
  }).map(([name, value]) => `${name}: ${value}`);
  const cut = setTimeout(() => socket.destroy(), TAKE_MS);
  socket.once('close', () => clearTimeout(cut));
  socket.once('finish', () => socket.destroy());
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
}
