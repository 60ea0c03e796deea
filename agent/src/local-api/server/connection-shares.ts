import type { Server, Socket } from 'node:net';

/** Bounds of the connections of one listener. */
export interface ShareLimits {
  /** all connections of the listener */
  total: number;
  /** of one peer address; absent: addresses tell nothing, as on the loopback interface, where all users have the same */
  perPeer?: number;
  /** connections with a valid token that are never closed in favour of others: of one holder, and of all together */
  kept: { perHolder: number; total: number };
}

/** Containers have an address each. Kept are half of all, so that a connection that may be closed is always found. */
export const BRIDGE_LIMITS: ShareLimits = { total: 256, perPeer: 32, kept: { perHolder: 32, total: 128 } };
export const LOOPBACK_LIMITS: ShareLimits = { total: 256, kept: { perHolder: 32, total: 128 } };

interface Entry {
  peer: string;
  /** whose token it showed, where it is kept */
  holder?: string;
}

/** What to do with a new connection. `displaced`: the connection that has to be closed for it. */
export type Admission<C> = { admitted: false } | { admitted: true; displaced?: C };

/**
 * Who may have the connections of a listener: one peer has at most its share, and when all are taken a new connection
 * takes the place of the one without a token that was quiet for longest. So neither a container nor a user of the machine
 * keeps the others, or the probes, from the local API.
 */
export class ConnectionShares<C> {
  readonly #limits: ShareLimits;
  /** the one that was quiet for longest first */
  readonly #entries = new Map<C, Entry>();

  constructor(limits: ShareLimits) {
    this.#limits = limits;
  }

  /** Decides about a new connection, and counts it when it is admitted. */
  admit(connection: C, peer: string): Admission<C> {
    const { total, perPeer = total } = this.#limits;
    if (this.#count((entry) => entry.peer === peer) >= perPeer && perPeer < total) return { admitted: false };
    let displaced: C | undefined;
    if (this.#entries.size >= total) {
      displaced = [...this.#entries].find(([, { holder }]) => holder === undefined)?.[0];
      if (displaced === undefined) return { admitted: false };
      this.#entries.delete(displaced);
    }
    this.#entries.set(connection, { peer });
    return { admitted: true, displaced };
  }

  /** A request came over a connection; `holder`: whose valid token it showed. */
  used(connection: C, holder?: string): void {
    const entry = this.#entries.get(connection);
    if (!entry) return;
    this.#entries.delete(connection);
    this.#entries.set(connection, entry);
    const { perHolder, total } = this.#limits.kept;
    if (holder === undefined || entry.holder !== undefined) return;
    const isFree = this.#count((each) => each.holder === holder) < perHolder;
    if (isFree && this.#count((each) => each.holder !== undefined) < total) entry.holder = holder;
  }

  closed(connection: C): void {
    this.#entries.delete(connection);
  }

  #count(matches: (entry: Entry) => boolean): number {
    let count = 0;
    for (const entry of this.#entries.values()) if (matches(entry)) count++;
    return count;
  }
}

/** Takes note of a request over a connection; `holder`: whose valid token it showed. */
export type NoteUse = (socket: Socket, holder?: string) => void;

/** Applies shares to a server. `onClosed` is called for each connection that was refused, or closed for another one. */
export function shareConnections(server: Server, limits: ShareLimits, onClosed: () => void): NoteUse {
  const shares = new ConnectionShares<Socket>(limits);
  // Requests over TLS have a socket of their own around the one of the connection.
  const sockets = new Map<string, Socket>();
  server.on('connection', (socket) => {
    const admission = shares.admit(socket, socket.remoteAddress ?? '');
    const unwanted = admission.admitted ? admission.displaced : socket;
    if (unwanted) {
      unwanted.destroy();
      onClosed();
    }
    if (!admission.admitted) return;
    const name = nameOf(socket);
    sockets.set(name, socket);
    socket.once('close', () => {
      shares.closed(socket);
      sockets.delete(name);
    });
  });
  return (socket, holder) => {
    const connection = sockets.get(nameOf(socket));
    if (connection) shares.used(connection, holder);
  };
}

const nameOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;
