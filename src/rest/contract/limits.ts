import { JSON_DEPTH } from '../../api/json.ts';
import type { ConnectionLimits, ConnectionMetrics } from '../../http/connections.ts';

/** Every hook is optional and must not throw. `route` is the pattern, never the path. */
export interface RestMetrics extends ConnectionMetrics {
  request?(labels: { method: string; route: string; status: number }, seconds: number): void;
  /** A list was sent without an object that could not be serialized. */
  leftOut?(labels: { operation: string }): void;
  access?(labels: { review: 'token' | 'access'; outcome: 'allowed' | 'denied' | 'failed'; cached: boolean }): void;
}

export interface Limits {
  bodyBytes: number;
  jsonDepth: number;
  /** until the response is complete */
  requestMs: number;
  /** the time for which a client may read nothing of a response */
  takeMs: number;
  /** until its headers, and the whole of it, have arrived */
  headersMs: number;
  receiveMs: number;
  headerBytes: number;
  /** until the handshake of TLS is complete; the time for headers begins only then */
  handshakeMs: number;
  /** open connections, long polls of agents and sockets of sessions included */
  connections: ConnectionLimits;
  keepAliveMs: number;
  /** limits of bodies that are being received: of all callers, and of one */
  receiving: Readonly<Record<'all' | 'caller', { bytes: number; messages: number }>>;
}

export const DEFAULT_LIMITS: Limits = {
  bodyBytes: 1024 * 1024,
  jsonDepth: JSON_DEPTH,
  requestMs: 30_000,
  takeMs: 30_000,
  headersMs: 10_000,
  receiveMs: 60_000,
  headerBytes: 32 * 1024,
  handshakeMs: 10_000,
  connections: { all: 16_384, strangers: 8_192, address: 256, graceMs: 10_000, caller: 256 },
  keepAliveMs: 75_000,
  receiving: {
    all: { bytes: 64 * 2 ** 20, messages: 2_000 },
    caller: { bytes: 16 * 2 ** 20, messages: 256 },
  },
};
