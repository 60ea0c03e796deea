import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { serveUntilAborted } from '../lib/serve-until-aborted.ts';
import { type BusConnection, TokenRefused } from './connection.ts';

/** What to do about the token of an account. */
interface Settlement {
  /** the token that counts, for servers that have another one */
  token: string | undefined;
  /** tokens of servers that say more than the wanted one: it has to take over what they say */
  adopts?: readonly string[];
}

export interface DeliveryOptions {
  /** Connects once. */
  dial(signal: AbortSignal): Promise<BusConnection>;
  /** accounts whose tokens the server is to have, and the token of each */
  wanted: { accounts(): Iterable<string>; token(account: string): string | undefined };
  /** The token that counts, of the wanted one and those that servers have; pure. */
  settle(wanted: string | undefined, found: readonly string[]): Settlement;
  /** Makes the wanted token of an account say what these say too; its change is then announced by `changed`. */
  adopt?(account: string, tokens: readonly string[], signal: AbortSignal): Promise<void>;
  /** Called at each change of the state, and when the server is another process. */
  report(state: DeliveryState): void;
  /** Called whenever nothing of what was announced is left to be done. */
  settled?(): void;
  clock: Clock;
  random: () => number;
  log: Log;
}

/** How far the delivery to one server is. */
export interface DeliveryState {
  /** absent: no connection */
  server?: { readonly name: string; readonly id: string };
  /** whether the server has every token that counts */
  isCurrent: boolean;
  /** accounts whose token the server does not take */
  refused: number;
}

/** The first attempts come fast, since a server that is away lets in whom it should not once it is back. */
const RECONNECT: Backoff = { baseMs: 200, factor: 2, maxMs: 2_000, jitter: 0.5 };
const RETRY: Backoff = { baseMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0.5 };
const PUSHES_AT_ONCE = 16;

/**
 * Keeps one running server at the tokens that count: compares all whenever it connects, pushes each that changes, and tries again
 * without end. A token that only the server has stays: nothing is removed because it is missing here.
 */
export class TokenDelivery implements AsyncDisposable {
  readonly #options: DeliveryOptions;
  readonly #abort = new AbortController();
  readonly #changed = new Set<string>();
  /** what the server has */
  readonly #found = new Map<string, string>();
  /** failures in a row, of accounts that the server refuses */
  readonly #refused = new Map<string, number>();
  readonly #running: Promise<void>;
  #wake = () => {};
  #state: DeliveryState = { isCurrent: false, refused: 0 };

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#running = this.#run(this.#abort.signal);
  }

  get state(): DeliveryState {
    return this.#state;
  }

  /** The token of an account is another one. */
  changed(account: string): void {
    this.#changed.add(account);
    this.#wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort(new Error('the delivery of tokens ends'));
    await this.#running;
  }

  #run(signal: AbortSignal): Promise<void> {
    const { dial, clock, random, log } = this.#options;
    return serveUntilAborted(
      {
        ...{ dial, clock, random, log, reconnect: RECONNECT, failing: 'A server of the message bus gets no tokens' },
        serve: (connection, here, compared) => this.#serve(connection, here, compared),
        lost: () => this.#report({ isCurrent: false, refused: this.#refused.size }),
      },
      signal,
    );
  }

  async #serve(connection: BusConnection, here: AbortSignal, compared: () => void): Promise<void> {
    const { wanted } = this.#options;
    const { server } = connection;
    here.addEventListener('abort', () => this.#wake(), { once: true });
    this.#changed.clear();
    this.#found.clear();
    this.#refused.clear();
    this.#report({ server, isCurrent: false, refused: 0 });
    const found = await connection.tokens(wanted.accounts(), here);
    await each(found, ([account, texts]) => this.#deliver(connection, account, texts, here));
    compared();
    while (!here.aborted) {
      const accounts = [...this.#changed];
      this.#changed.clear();
      await each(accounts, (account) => this.#deliver(connection, account, [this.#found.get(account)], here));
      if (this.#changed.size > 0) continue;
      this.#report({ server, isCurrent: this.#refused.size === 0, refused: this.#refused.size });
      this.#options.settled?.();
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (here.aborted) resolve();
      });
    }
  }

  /** `texts`: the tokens of the account that servers of the cluster have. */
  async #deliver(
    connection: BusConnection,
    account: string,
    texts: readonly (string | undefined)[],
    signal: AbortSignal,
  ): Promise<void> {
    const { wanted, settle, adopt } = this.#options;
    const found = [...new Set(texts.filter((text) => text !== undefined))];
    const { token, adopts } = settle(wanted.token(account), found);
    try {
      if (token !== undefined && texts.some((text) => text !== token)) await connection.push(token, signal);
      if (token !== undefined) this.#found.set(account, token);
      if (adopts) await adopt?.(account, adopts, signal);
      this.#refused.delete(account);
    } catch (error) {
      if (signal.aborted || (!adopts && !(error instanceof TokenRefused))) throw error;
      this.#retry(account, error, signal);
    }
  }

  #retry(account: string, error: unknown, signal: AbortSignal): void {
    const { clock, random, log } = this.#options;
    const failures = (this.#refused.get(account) ?? 0) + 1;
    this.#refused.set(account, failures);
    log.warn({ err: error, account, failures }, 'The token of an account does not reach a server of the message bus');
    void sleep(backoffDelay(RETRY, failures, random), signal, clock).then(() => {
      if (!signal.aborted) this.changed(account);
    });
  }

  #report(state: DeliveryState): void {
    const before = this.#state;
    if (
      before.isCurrent === state.isCurrent &&
      before.refused === state.refused &&
      before.server?.id === state.server?.id
    )
      return;
    this.#state = state;
    this.#options.report(state);
  }
}

async function each<T>(items: Iterable<T>, act: (item: T) => Promise<void>): Promise<void> {
  const next = items[Symbol.iterator]();
  const worker = async () => {
    for (let one = next.next(); !one.done; one = next.next()) await act(one.value);
  };
  await Promise.all(Array.from({ length: PUSHES_AT_ONCE }, worker));
}
