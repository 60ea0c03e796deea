import { connect } from 'node:net';

/** What a client of a port finds. */
export type DialResult =
  /** the connection stays open, or the server has sent something */
  | { is: 'open' }
  /** accepted, and closed before the server has sent anything */
  | { is: 'closed' }
  | { is: 'refused' }
  /** nothing answers */
  | { is: 'timeout' }
  /** in the words of the system, such as a name that does not exist */
  | { is: 'failed'; message: string };

export interface DialOptions {
  host: string;
  port: number;
  /** the longest wait for the connection, ms */
  connectMs: number;
  /** how long a connection stays open until it counts as open, ms: a router accepts a client before it has reached the backend */
  staysMs: number;
  signal: AbortSignal;
}

const TIMEOUTS: ReadonlySet<string | undefined> = new Set(['ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH']);

/** Connects to a port as a client, sends nothing, and closes the connection. Rejects with the reason of the signal alone. */
export function dialPort({ host, port, connectMs, staysMs, signal }: DialOptions): Promise<DialResult> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    let isConnected = false;
    const finish = (settle: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      socket.destroy();
      settle();
    };
    const found = (result: DialResult) => finish(() => resolve(result));
    const abort = () => finish(() => reject(signal.reason));
    let timer = setTimeout(() => found({ is: 'timeout' }), connectMs);
    signal.addEventListener('abort', abort);
    socket.on('connect', () => {
      isConnected = true;
      clearTimeout(timer);
      timer = setTimeout(() => found({ is: 'open' }), staysMs);
    });
    // The first byte is enough, so that no server can send more than one chunk.
    socket.once('data', () => found({ is: 'open' }));
    socket.on('end', () => found({ is: 'closed' }));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (isConnected || error.code === 'ECONNRESET') found({ is: 'closed' });
      else if (error.code === 'ECONNREFUSED') found({ is: 'refused' });
      else if (TIMEOUTS.has(error.code)) found({ is: 'timeout' });
      else found({ is: 'failed', message: error.code ?? error.message });
    });
  });
}
