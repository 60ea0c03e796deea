import type { Clock } from '../lib/clock.ts';

/** Bounds of the connections of one listener. */
export interface ConnectionLimits {
  /** connections that are open at once */
  all: number;
  /** open connections on which no request was authenticated; the places beyond it are kept for authenticated callers */
  strangers: number;
  /** open connections of one address on which no request was authenticated although they had `graceMs` */
  address: number;
  /** the time that a connection has for its first authenticated request before others of its address may take its place */
  graceMs: number;
  /** connections of one caller that count as authenticated; further ones stay among the strangers */
  caller: number;
}

/** Why a connection was ended to make room, or refused: `address` has too many, `strangers` are too many, `all` places are taken. */
export type ConnectionEnd = 'address' | 'strangers' | 'all';

/** Every hook is optional and must not throw. */
export interface ConnectionMetrics {
  connections?(open: { authenticated: number; strangers: number }): void;
  connectionEnded?(why: ConnectionEnd): void;
}

/** The place of one connection. */
export interface ConnectionPlace {
  /** A request on the connection was authenticated: it no longer makes room for others. Only the first call counts. */
  authenticated(caller: string): void;
  /** The connection is closed. Only the first call counts. */
  leave(): void;
}

export interface Connections {
  /**
   * Takes a place for a new connection. A place is made by ending connections of strangers: the oldest of the same address,
   * then the oldest of the address with the most, so that no address keeps out others, and a caller with valid credentials
   * has the time to show them. Returns undefined when every place belongs to authenticated callers.
   */
  take(address: string, end: () => void): ConnectionPlace | undefined;
}

interface Stranger {
  address: string;
  since: number;
  end(): void;
}

/** Decides which connections of a listener stay open (docs/architecture.md#limits-by-address). It knows nothing of sockets. */
export function createConnections(
  limits: ConnectionLimits,
  { clock, metrics = {} }: { clock: Pick<Clock, 'now'>; metrics?: ConnectionMetrics },
): Connections {
  /** by address, the oldest first */
  const strangers = new Map<string, Set<Stranger>>();
  const callers = new Map<string, number>();
  let strange = 0;
  let authenticated = 0;

  const report = () => metrics.connections?.({ authenticated, strangers: strange });

  function remove(stranger: Stranger): boolean {
    const own = strangers.get(stranger.address);
    if (!own?.delete(stranger)) return false;
    strange--;
    if (own.size === 0) strangers.delete(stranger.address);
    return true;
  }

  function makeWay(stranger: Stranger, why: ConnectionEnd): void {
    remove(stranger);
    metrics.connectionEnded?.(why);
    stranger.end();
  }

  /** The oldest connection of the address with the most. A walk over all addresses, which costs less than one TLS handshake. */
  function mostCommon(): Stranger | undefined {
    let most: Set<Stranger> | undefined;
    for (const own of strangers.values()) if (own.size > (most?.size ?? 0)) most = own;
    return first(most);
  }

  return {
    take(address, end) {
      const since = clock.now();
      for (let oldest = first(strangers.get(address)); oldest; oldest = first(strangers.get(address))) {
        const count = strangers.get(address)?.size ?? 0;
        if (count < limits.address || since - oldest.since < limits.graceMs) break;
        makeWay(oldest, 'address');
      }
      const isFull = () => strange + authenticated >= limits.all;
      while (strange >= limits.strangers || isFull()) {
        const other = mostCommon();
        if (!other) {
          metrics.connectionEnded?.('all');
          return undefined;
        }
        makeWay(other, isFull() ? 'all' : 'strangers');
      }
      const stranger: Stranger = { address, since, end };
      const own = strangers.get(address) ?? new Set();
      strangers.set(address, own.add(stranger));
      strange++;
      report();
      let known: string | undefined;
      let isOver = false;
      return {
        authenticated(caller) {
          const count = callers.get(caller) ?? 0;
          if (known !== undefined || isOver || count >= limits.caller || !remove(stranger)) return;
          known = caller;
          callers.set(caller, count + 1);
          authenticated++;
          report();
        },
        leave() {
          if (isOver) return;
          isOver = true;
          remove(stranger);
          if (known !== undefined) {
            const left = (callers.get(known) ?? 1) - 1;
            if (left > 0) callers.set(known, left);
            else callers.delete(known);
            authenticated--;
          }
          report();
        },
      };
    },
  };
}

function first<T>(all: Set<T> | undefined): T | undefined {
  for (const one of all ?? []) return one;
  return undefined;
}
