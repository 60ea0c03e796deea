import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { BusConnection } from './connection.ts';

export interface ConfigDeliveryOptions {
  /** the tag of the configuration that the server is to have; undefined: whatever it has */
  wanted(): string | undefined;
  /** Called whenever `unread` is another text. */
  report(): void;
  clock: Clock;
  random: () => number;
  log: Log;
}

/** The files of a pod follow their Secret within a minute or two. */
const AGAIN: Backoff = { baseMs: 1_000, factor: 2, maxMs: 15_000, jitter: 0.5 };

/**
 * Has a running server read its configuration until it is the wanted one, which the server says by a tag. A server that has it is
 * asked nothing further.
 */
export class ConfigDelivery implements Disposable {
  readonly #options: ConfigDeliveryOptions;
  #connection: BusConnection | undefined;
  #reading = new AbortController();
  #unread: string | undefined;

  constructor(options: ConfigDeliveryOptions) {
    this.#options = options;
  }

  /** Why the server does not have the wanted configuration; undefined when it has it, and while nobody is connected. */
  get unread(): string | undefined {
    return this.#unread;
  }

  /** A connection to the server has been made. */
  connected(connection: BusConnection): void {
    this.#connection = connection;
    void connection.closed.then(() => {
      if (this.#connection !== connection) return;
      this.#connection = undefined;
      this.#reading.abort();
      this.#show(undefined);
    });
    this.changed();
  }

  /** The wanted configuration is another one. */
  changed(): void {
    this.#reading.abort();
    this.#reading = new AbortController();
    if (this.#connection) void this.#read(this.#connection, this.#reading.signal);
  }

  [Symbol.dispose](): void {
    this.#connection = undefined;
    this.#reading.abort();
  }

  async #read(connection: BusConnection, signal: AbortSignal): Promise<void> {
    const { wanted, clock, random, log } = this.#options;
    for (let failures = 1; !signal.aborted; failures++) {
      const tag = wanted();
      if (tag === undefined) return this.#show(undefined);
      try {
        if ((await connection.tags(signal)).includes(tag)) return this.#show(undefined);
        await connection.reload(signal);
        if ((await connection.tags(signal)).includes(tag)) return this.#show(undefined);
        this.#show('its files are those of a former configuration');
      } catch (error) {
        if (signal.aborted) return;
        const text = (error as Error).message;
        if (text !== this.#unread)
          log.warn({ err: error }, 'A server of the message bus did not read its configuration');
        this.#show(text);
      }
      await sleep(backoffDelay(AGAIN, failures, random), signal, clock);
    }
  }

  #show(text: string | undefined): void {
    if (text === this.#unread) return;
    this.#unread = text;
    this.#options.report();
  }
}
