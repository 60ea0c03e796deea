import { BOUNDS } from '../../../src/api/bounds.ts';
import { type BusClientOptions, type BusConnection, connectBus } from '../../../src/bus-client/connection.ts';
import { TokenDelivery } from '../../../src/bus-client/delivery.ts';
import { whenAborted } from '../../../src/lib/aborted.ts';
import { type Backoff, backoffDelay } from '../../../src/lib/backoff.ts';
import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { StatusReport } from '../../../src/wire/agent.ts';
import { BUS_SETS } from '../../../src/wire/bus.ts';
import type { Sent } from '../domain/desired.ts';
import type { Random } from '../domain/jitter.ts';
import type { Part } from '../domain/part.ts';
import { errorText } from '../machine/log.ts';
import { ReadSets, type SystemSets } from '../machine/system-sets.ts';
import { type BusFiles, busPortOf, issuedAt, readBusFiles } from './bus-files.ts';

export interface BusServerDependencies extends SystemSets {
  clock: Clock;
  random: Random;
  log: Log;
  /** What the report says of the server has changed. */
  changed(): void;
  /** connects to a server; absent: as all clients of the bus do */
  dial?(options: BusClientOptions): Promise<BusConnection>;
}

const RELOAD_AGAIN: Backoff = { baseMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0.5 };

/** A server as this agent tells it. */
interface Told {
  port: number;
  creds: string;
  ca: string | undefined;
  delivery: TokenDelivery;
}

/**
 * Tells the server of the message bus on this machine what has changed in its files: it is sent each token, and reads the rest when
 * the agent asks it to. A token counts once the running server has it: the server reads its files at the start alone.
 */
export class BusServer implements Part<'microservices'> {
  readonly #deps: BusServerDependencies;
  readonly #files: ReadSets<BusFiles>;
  #told: Told | undefined;
  #connection: BusConnection | undefined;
  /** the process of the server and the configuration that it has read */
  #loaded = { server: '', config: '' };
  /** accounts whose tokens it refuses */
  #refused = 0;
  /** why it has not read its present configuration */
  #unread: string | undefined;
  /** nothing that was announced is left to be pushed */
  #isDelivered = false;
  #shown = '';
  #reloads = new AbortController();
  #isEnded = false;

  constructor(deps: BusServerDependencies) {
    this.#deps = deps;
    this.#files = new ReadSets(deps, Object.values(BUS_SETS), readBusFiles);
  }

  get problems(): string[] {
    const refused = this.#refused > 0 ? [`it refuses the tokens of ${this.#refused} accounts`] : [];
    return [...refused, ...(this.#unread ? [this.#unread] : [])].map(
      (text) => `the server of the message bus: ${text}`,
    );
  }

  report(): StatusReport {
    if (!this.#told) return {};
    const [problem] = this.problems;
    const isCurrent = this.#isDelivered && this.#refused === 0 && this.#isLoaded();
    return { busServer: { isCurrent, ...(problem && { problem: problem.slice(0, BOUNDS.message) }) } };
  }

  look({ microservices }: Pick<Sent, 'microservices'>): void {
    if (this.#isEnded) return;
    const port = busPortOf(microservices?.views.values() ?? []);
    const before = this.#files.value;
    if (port !== undefined) this.#files.refresh();
    const files = port === undefined ? undefined : this.#files.value;
    if (port === undefined || !files) this.#forget();
    else if (this.#told && isSameDoor(this.#told, { port, ...files }))
      this.#announce(this.#told.delivery, files, before);
    else this.#tell(port, files);
    this.#show();
  }

  #announce(delivery: TokenDelivery, files: BusFiles, before: BusFiles | undefined): void {
    for (const account of new Set([...files.tokens.keys(), ...(before?.tokens.keys() ?? [])]))
      if (files.tokens.get(account) !== before?.tokens.get(account)) {
        this.#isDelivered = false;
        delivery.changed(account);
      }
    if (files.config !== before?.config) this.#reload();
  }

  async run(signal: AbortSignal): Promise<void> {
    await whenAborted(signal);
    this.#isEnded = true;
    const { delivery } = this.#told ?? {};
    this.#forget();
    await delivery?.[Symbol.asyncDispose]();
  }

  #tell(port: number, { creds, ca }: BusFiles): void {
    const { clock, random, log, dial = connectBus } = this.#deps;
    this.#forget();
    const servers = [`${ca === undefined ? 'nats' : 'tls'}://127.0.0.1:${port}`];
    const tls = ca === undefined ? undefined : { ca };
    const delivery = new TokenDelivery({
      dial: async (signal) => {
        const connection = await dial({ servers, creds, name: 'skerry-agent', signal, ...(tls && { tls }) });
        this.#connection = connection;
        return connection;
      },
      wanted: {
        accounts: () => this.#files.value?.tokens.keys() ?? [],
        token: (account) => this.#files.value?.tokens.get(account),
      },
      settle: latestToken,
      report: ({ server, refused }) => {
        this.#refused = refused;
        if (!server) this.#isDelivered = false;
        if (server) this.#reload();
        this.#show();
      },
      settled: () => {
        this.#isDelivered = true;
        this.#show();
      },
      clock,
      random,
      log,
    });
    this.#told = { port, creds, ca, delivery };
  }

  #forget(): void {
    this.#reloads.abort();
    void this.#told?.delivery[Symbol.asyncDispose]();
    this.#told = undefined;
    this.#connection = undefined;
    this.#refused = 0;
    this.#isDelivered = false;
    this.#unread = undefined;
  }

  /** Whether this process of the server has read the present configuration. */
  #isLoaded(): boolean {
    const { server, config } = this.#loaded;
    return this.#connection?.server.id === server && this.#files.value?.config === config;
  }

  #show(): void {
    const shown = JSON.stringify(this.report());
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#deps.changed();
  }

  /** Makes the running server read its configuration, unless this process of it has read the present one. */
  #reload(): void {
    this.#reloads.abort();
    this.#reloads = new AbortController();
    void this.#reloadUntil(this.#reloads.signal);
  }

  async #reloadUntil(signal: AbortSignal): Promise<void> {
    const { clock, random, log } = this.#deps;
    for (let failures = 1; !signal.aborted; failures++) {
      const [connection, config] = [this.#connection, this.#files.value?.config];
      // The next connection leads here again.
      if (!connection || config === undefined) return;
      const { id: server } = connection.server;
      if (this.#isLoaded()) return;
      try {
        await connection.reload(signal);
        this.#loaded = { server, config };
        this.#unread = undefined;
        this.#show();
        return;
      } catch (error) {
        if (signal.aborted) return;
        this.#unread = errorText(error);
        this.#show();
        log.warn({ error: this.#unread }, 'The server of the message bus did not read its configuration');
        await sleep(backoffDelay(RELOAD_AGAIN, failures, random), signal, clock);
      }
    }
  }
}

/** Whether the server is reached in the same way: another way is another connection. */
const isSameDoor = (told: Told, { port, creds, ca }: Pick<BusFiles, 'creds' | 'ca'> & { port: number }) =>
  told.port === port && told.creds === creds && told.ca === ca;

/** The token that counts: of the files, unless the server has a later token. */
function latestToken(wanted: string | undefined, found: readonly string[]): { token: string | undefined } {
  const best = [wanted, ...found].reduce(
    (latest, one) =>
      one !== undefined && (latest === undefined || (issuedAt(one) ?? 0) > (issuedAt(latest) ?? 0)) ? one : latest,
    undefined,
  );
  return { token: best };
}
