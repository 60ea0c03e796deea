import { isDeepStrictEqual } from 'node:util';
import { whenAborted } from '../../../src/lib/aborted.ts';
import { type Backoff, backoffDelay } from '../../../src/lib/backoff.ts';
import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { StatusReport } from '../../../src/wire/agent.ts';
import type { TunnelReport, TunnelView } from '../../../src/wire/tunnel.ts';
import type { Sent, SentTunnel } from '../domain/desired.ts';
import type { Random } from '../domain/jitter.ts';
import type { Part } from '../domain/part.ts';
import { errorText } from '../machine/log.ts';
import type { SshClient } from './ssh-client.ts';

export interface TunnelDependencies {
  client: SshClient;
  clock: Clock;
  random: Random;
  log: Log;
  /** whether the policy of this machine allows a tunnel */
  isAllowed(): boolean;
  /** What the report says of the tunnel has changed. */
  changed(): void;
}

const RETRY: Backoff = { baseMs: 2000, factor: 2, maxMs: 300_000, spread: 0.3 };
/** Milliseconds after which a tunnel has worked: its end begins a new row of attempts. */
const STEADY = 60_000;
/** Characters of a reason in a report. */
const MESSAGE = 256;

/** What the agent does about its tunnel: open it, or not, with what it then says. */
type Decision = { open: TunnelView } | { report: TunnelReport | undefined };

/** The tunnel of this machine: an ssh client that is started again until the controller closes the tunnel, or the policy forbids it. */
export class Tunnel implements Part<'tunnel'> {
  readonly #deps: TunnelDependencies;
  #decision: Decision = { report: undefined };
  #report: TunnelReport | undefined;
  #changed = new AbortController();

  constructor(deps: TunnelDependencies) {
    this.#deps = deps;
  }

  look({ tunnel }: Pick<Sent, 'tunnel'>): void {
    const decision = decide(tunnel, this.#deps.isAllowed());
    if (isDeepStrictEqual(decision, this.#decision)) return;
    this.#decision = decision;
    this.#changed.abort();
  }

  /** The state of the tunnel; undefined without one. */
  get state(): TunnelReport | undefined {
    return this.#report;
  }

  get problems(): string[] {
    return this.#report?.status === 'failed' ? [`tunnel: ${this.#report.message}`] : [];
  }

  report(): StatusReport {
    return { tunnelStatus: JSON.stringify(this.#report ?? {}) };
  }

  async run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      this.#changed = new AbortController();
      const until = AbortSignal.any([signal, this.#changed.signal]);
      const decision = this.#decision;
      if ('report' in decision) {
        this.#clear();
        this.#become(decision.report);
        await whenAborted(until);
        failures = 0;
        continue;
      }
      // A reason stays readable while the next attempt is made.
      if (failures === 0) this.#become({ status: 'opening' });
      const { message, steady } = await this.#open(decision.open, until);
      if (until.aborted) {
        failures = 0;
        continue;
      }
      failures = steady ? 1 : failures + 1;
      this.#become({ status: 'failed', message: message.slice(0, MESSAGE) });
      await sleep(backoffDelay(RETRY, failures, this.#deps.random), until, this.#deps.clock);
      if (until.aborted) failures = 0;
    }
    this.#clear();
  }

  /** Keeps the tunnel open as long as it lasts; returns why it ended, and whether it had worked for a while. */
  async #open(view: TunnelView, signal: AbortSignal): Promise<{ message: string; steady: boolean }> {
    const { client, clock, log } = this.#deps;
    const { host, remotePort } = view;
    let openedAt: number | undefined;
    const opened = () => {
      openedAt = clock.now();
      log.info({ host, remotePort }, 'The tunnel is open');
      this.#become({ status: 'open' });
    };
    const message = await client.open(view, { signal, opened }).catch(errorText);
    const steady = openedAt !== undefined && clock.now() - openedAt >= STEADY;
    if (!signal.aborted) log.warn({ host, remotePort, error: message }, 'The tunnel is not open');
    return { message, steady };
  }

  #become(report: TunnelReport | undefined): void {
    if (isDeepStrictEqual(report, this.#report)) return;
    this.#report = report;
    this.#deps.changed();
  }

  #clear(): void {
    try {
      this.#deps.client.clear();
    } catch (error) {
      this.#deps.log.warn({ error: errorText(error) }, 'The files of the tunnel could not be removed');
    }
  }
}

function decide(sent: SentTunnel | undefined, isAllowed: boolean): Decision {
  if (sent === undefined) return { report: undefined };
  if ('problem' in sent) return failed(sent.problem);
  if (sent.closed) return { report: { status: 'closed' } };
  if (!isAllowed) return failed('the policy of this machine forbids tunnels (tunnel: false)');
  if (sent.knownHosts.trim() === '')
    return failed(
      `the controller sent no host keys of ${sent.host} (knownHosts), and a server that is not known is refused`,
    );
  if (sent.rsaKey === '' && sent.password === '') return failed('the controller sent neither a key nor a password');
  return { open: sent };
}

const failed = (message: string): Decision => ({ report: { status: 'failed', message } });
