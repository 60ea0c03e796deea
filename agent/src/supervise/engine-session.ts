import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import { jitter, type Random } from '../domain/jitter.ts';
import type { ConnectionPort } from '../engine-port/connection.ts';
import { EngineError } from '../engine-port/error.ts';
import type { EngineFacts } from '../engine-port/facts.ts';
import type { EngineNetwork, NetworkPort } from '../engine-port/networks.ts';
import { errorText } from '../machine/log.ts';

const SECOND = 1000;

/** How the engine is reached. */
export type EngineState =
  | { state: 'connecting' | 'lost'; error?: string; since: number }
  | { state: 'connected'; facts: EngineFacts; since: number };

/** A time without the engine, on the machine's clock. */
export interface Outage {
  from: number;
  to: number;
}

export interface EngineSessionDependencies {
  engine: ConnectionPort & NetworkPort;
  clock: Clock;
  random: Random;
  log: Log;
  metrics: { add(name: 'engineLosses'): void };
}

/** What is done with a connection. */
export interface SessionHandlers {
  /** The engine answers; nothing has been read from it in this session. */
  prepare(signal: AbortSignal): Promise<void>;
  /** The session begins. `outage` is set when the engine was lost before. */
  connected(facts: EngineFacts, network: EngineNetwork | undefined, outage: Outage | undefined): void;
  /** One turn of work; called again and again until the session ends. Throws when the engine does not answer. */
  turn(signal: AbortSignal): Promise<void>;
  /** Something has happened at the engine, or the session is about to end: the present turn should not wait any longer. */
  wake(): void;
  /** The session is over; nothing is known of the engine any more. */
  ended(): void;
  /** The state of the engine is another one now. */
  changed(): void;
}

/** Events of a signal or a call that ends a container. */
const ENDINGS: ReadonlySet<string> = new Set(['kill', 'stop']);
/** After this time a signal no longer counts as the cause of an end. */
const ENDING_LASTS = 15 * SECOND;

/**
 * The connection to the engine: connects, listens to events, and connects again, at growing intervals, when it is lost.
 */
export class EngineSession {
  readonly #deps: EngineSessionDependencies;
  readonly #handlers: SessionHandlers;
  #state: EngineState;
  #unreachable: string | undefined;
  /** when a container was last asked to end, by this agent or by another program */
  readonly #endings = new Map<string, number>();
  #current = new AbortController();

  constructor(deps: EngineSessionDependencies, handlers: SessionHandlers) {
    this.#deps = deps;
    this.#handlers = handlers;
    this.#state = { state: 'connecting', since: deps.clock.now() };
  }

  get state(): EngineState {
    return this.#state;
  }

  get facts(): EngineFacts | undefined {
    return this.#state.state === 'connected' ? this.#state.facts : undefined;
  }

  /** Why the engine cannot be read: what was read last may no longer be true. Undefined before the first attempt. */
  get unreachable(): string | undefined {
    return this.#unreachable;
  }

  /** The engine has been read. */
  reached(): void {
    this.#unreachable = undefined;
  }

  /** Containers that were recently asked to end. */
  endedByHand(): ReadonlySet<string> {
    const now = this.#deps.clock.now();
    for (const [id, at] of this.#endings) if (now - at > ENDING_LASTS) this.#endings.delete(id);
    return new Set(this.#endings.keys());
  }

  /** Ends the present session and begins another one at once. */
  renew(): void {
    this.#current.abort();
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#deps;
    for (let attempt = 0; !signal.aborted; attempt++) {
      const session = new AbortController();
      let isRenewed = false;
      this.#current = session;
      const stop = () => session.abort();
      signal.addEventListener('abort', stop, { once: true });
      try {
        const reason = await this.#session(session.signal, () => {
          attempt = 0;
        });
        // Engines sometimes end their event streams; the next attempt shows whether the engine is down.
        if (!session.signal.aborted) this.#lost(reason);
      } catch (error) {
        if (!session.signal.aborted) {
          this.#unreachable = errorText(error);
          this.#lost(error);
        }
      } finally {
        isRenewed = session.signal.aborted;
        session.abort();
        signal.removeEventListener('abort', stop);
        this.#handlers.ended();
      }
      if (isRenewed) continue;
      const delay = Math.min(500 * 2 ** Math.min(attempt, 6), 15 * SECOND);
      await sleep(jitter(delay, random), signal, clock);
    }
  }

  /** One connection, from the engine's first response to the end of its events. Returns why these ended. */
  async #session(signal: AbortSignal, onConnected: () => void): Promise<unknown> {
    const { engine, clock, log } = this.#deps;
    const { prepare, connected, turn, wake } = this.#handlers;
    const facts = await engine.connect(signal);
    await prepare(signal);
    const network = await engine.network(signal);
    const lost = new AbortController();
    let reason: unknown;
    const events = this.#listen(signal).catch((error: unknown) => {
      reason = error ?? new Error('the engine ended the event stream');
      lost.abort();
      wake();
    });
    const before = this.#state;
    log.info({ url: engine.url, engine: facts.kind, version: facts.version }, 'Connected to the container engine');
    this.#state = { state: 'connected', facts, since: clock.now() };
    const isBack = before.state === 'lost';
    connected(
      facts,
      network,
      isBack ? { from: clock.wall() - (clock.now() - before.since), to: clock.wall() } : undefined,
    );
    onConnected();
    while (!signal.aborted && !lost.signal.aborted) await turn(signal);
    if (lost.signal.aborted) await events;
    return reason;
  }

  async #listen(signal: AbortSignal): Promise<never> {
    const { engine, clock, log } = this.#deps;
    for await (const { action, containerId } of engine.events(signal)) {
      if (ENDINGS.has(action)) this.#endings.set(containerId, clock.now());
      log.debug({ action }, 'Event of the container engine');
      this.#handlers.wake();
    }
    throw new EngineError('Unavailable', 'the engine ended the event stream');
  }

  #lost(error: unknown): void {
    const { clock, log, engine, metrics } = this.#deps;
    const text = errorText(error);
    const before = this.#state;
    if (before.state === 'connected') metrics.add('engineLosses');
    if (before.state !== 'lost' || before.error !== text)
      log.warn({ url: engine.url, error: text }, 'Lost the container engine');
    this.#state = { state: 'lost', error: text, since: before.state === 'lost' ? before.since : clock.now() };
    this.#handlers.changed();
  }
}
