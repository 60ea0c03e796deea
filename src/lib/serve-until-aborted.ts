import { type Backoff, backoffDelay } from './backoff.ts';
import { type Clock, sleep } from './clock.ts';
import type { Log } from './log.ts';

interface Connection {
  /** resolves when the connection has ended, whoever ended it */
  readonly closed: Promise<unknown>;
  close(): Promise<void>;
}

/** A server that is connected to without end, and the work with each connection. */
export interface ServedOptions<C extends Connection> {
  /** Connects once. */
  dial(signal: AbortSignal): Promise<C>;
  /**
   * Works with a connection until the signal fires, which it does when the connection ends too; rejects when the server does not do what
   * it is asked. After `works` the next attempts are the first of a row again.
   */
  serve(connection: C, signal: AbortSignal, works: () => void): Promise<void>;
  /** There is no connection any more, or an attempt failed. */
  lost(): void;
  /** the line of the log about attempts in vain, of which one in sixty is written */
  failing: string;
  reconnect: Backoff;
  clock: Clock;
  random: () => number;
  log: Log;
}

/** One line for this many attempts in vain. */
const LOG_EACH = 60;

/** Connects, serves and connects again, until the signal fires. */
export async function serveUntilAborted<C extends Connection>(
  { dial, serve, lost, failing, reconnect, clock, random, log }: ServedOptions<C>,
  signal: AbortSignal,
): Promise<void> {
  for (let failures = 1; !signal.aborted; failures++) {
    try {
      const connection = await dial(signal);
      const ended = new AbortController();
      void connection.closed.then(() => ended.abort(new Error('the connection ended')));
      try {
        await serve(connection, AbortSignal.any([signal, ended.signal]), () => {
          failures = 0;
        });
      } finally {
        await connection.close();
      }
    } catch (error) {
      if (!signal.aborted && failures % LOG_EACH === 1) log.warn({ err: error, failures }, failing);
    }
    lost();
    await sleep(backoffDelay(reconnect, failures, random), signal, clock);
  }
}
