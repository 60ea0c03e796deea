import type { IncomingMessage } from 'node:http';
import { LocalApiError } from './errors.ts';
import { refuseForeignOrigin } from './web-pages.ts';

/**
 * Refuses an invalid handshake of a WebSocket, and one from a web page in a browser of this machine. `ws` checks most of this as well, but
 * answers in words of its own, and accepts versions before RFC 6455.
 */
export function checkHandshake({ headers }: IncomingMessage): void {
  if (headers.upgrade?.toLowerCase() !== 'websocket' || headers['sec-websocket-version'] !== '13')
    throw new LocalApiError('INVALID_ARGUMENT', 'this is a WebSocket: ask for an upgrade to version 13');
  if (!/^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? ''))
    throw new LocalApiError('INVALID_ARGUMENT', 'Sec-WebSocket-Key is 16 bytes in base64');
  refuseForeignOrigin(headers);
}
