import { type Backoff, backoffDelay, jittered } from '../../../lib/backoff.ts';
import type { Clock } from '../../../lib/clock.ts';
import { createDueHeap } from '../../../lib/due-heap.ts';
import type { DialOptions, DialResult } from '../../../router-client/dial.ts';
import type { Finding } from '../../../rules/conditions.ts';
import { reachableOf } from '../rules/links.ts';

/** Where the port of a service is dialed. */
export interface DialTarget {
  host: string;
  port: number;
  /** what may change the result of a dial: another text has the service dialed at once */
  because: string;
}

interface Dialed {
  target: DialTarget;
  finding?: Finding;
  /** dials in a row that found no server */
  failures: number;
  isRunning: boolean;
}

const CONNECT_MS = 5_000;
/** A router learns within this time that a backend refuses; a host that answers nothing at all takes it minutes. */
const STAYS_MS = 3_000;
const MOST_AT_ONCE = 16;
/** Between the begin of two dials: at most so many dials a second. */
const BETWEEN_MS = 20;
/** Between two dials of a service that is reached. */
const AGAIN_MS = 300_000;
const AGAIN_SPREAD = 0.2;
/** Between two dials of a service that is not. */
const FAILED: Backoff = { baseMs: 10_000, factor: 2, maxMs: 300_000, jitter: 0.3 };

export interface DialsOptions {
  dial(options: DialOptions): Promise<DialResult>;
  /** Called with the name of a service whose result is another one now. */
  changed(name: string): void;
  clock: Clock;
  random: () => number;
}

/** Dials the bridge ports of services again and again, a bounded number at once, and keeps what the last dial of each found. */
export class ServiceDials implements Disposable {
  readonly #options: DialsOptions;
  readonly #abort = new AbortController();
  readonly #services = new Map<string, Dialed>();
  readonly #due = createDueHeap();
  #running = 0;
  #notBefore = Number.NEGATIVE_INFINITY;
  #cancelTimer = () => {};

  constructor(options: DialsOptions) {
    this.#options = options;
  }

  /** Has a service dialed at this target from now on, or never. Resolves with what the last dial of the target found. */
  of(name: string, target: DialTarget | undefined): Finding | undefined {
    if (!target) {
      this.forget(name);
      return undefined;
    }
    const known = this.#services.get(name);
    if (known && isSame(known.target, target)) return known.finding;
    const isMoved = known?.target.host !== target.host || known.target.port !== target.port;
    const next: Dialed = { target, failures: 0, isRunning: known?.isRunning ?? false };
    if (known?.finding && !isMoved) next.finding = known.finding;
    this.#services.set(name, next);
    if (!next.isRunning) this.#due.set(name, this.#options.clock.now());
    this.#wake();
    return next.finding;
  }

  forget(name: string): void {
    this.#services.delete(name);
    this.#due.delete(name);
  }

  [Symbol.dispose](): void {
    this.#abort.abort(new Error('nothing dials services any more'));
    this.#cancelTimer();
    this.#services.clear();
  }

  /** Begins the dials that are due, as far as the bounds allow, and sets the timer for the next. */
  #wake(): void {
    const { clock } = this.#options;
    this.#cancelTimer();
    if (this.#abort.signal.aborted || this.#running >= MOST_AT_ONCE) return;
    const first = this.#due.peek();
    if (!first) return;
    const at = Math.max(first.due, this.#notBefore);
    if (at > clock.now()) {
      this.#cancelTimer = clock.after(at - clock.now(), () => this.#wake());
      return;
    }
    this.#due.delete(first.key);
    const service = this.#services.get(first.key);
    if (service) {
      this.#notBefore = clock.now() + BETWEEN_MS;
      void this.#dial(first.key, service);
    }
    this.#wake();
  }

  async #dial(name: string, begun: Dialed): Promise<void> {
    const { dial, changed } = this.#options;
    const { signal } = this.#abort;
    begun.isRunning = true;
    this.#running++;
    const { host, port } = begun.target;
    const result = await dial({ host, port, connectMs: CONNECT_MS, staysMs: STAYS_MS, signal }).catch(() => undefined);
    this.#running--;
    if (result && !signal.aborted) this.#take(name, begun, result, changed);
    this.#wake();
  }

  #take(name: string, begun: Dialed, result: DialResult, changed: (name: string) => void): void {
    const { clock, random } = this.#options;
    begun.isRunning = false;
    const service = this.#services.get(name);
    if (!service) return;
    if (service !== begun) {
      // Meanwhile it is dialed for another reason, or elsewhere: this dial may have been too early.
      service.isRunning = false;
      this.#due.set(name, clock.now());
      return;
    }
    const finding = reachableOf(begun.target, result);
    service.failures = finding.status === 'True' ? 0 : service.failures + 1;
    const pause =
      service.failures === 0
        ? jittered(AGAIN_MS, AGAIN_SPREAD, random)
        : backoffDelay(FAILED, service.failures, random);
    this.#due.set(name, clock.now() + pause);
    const isOther = JSON.stringify(service.finding) !== JSON.stringify(finding);
    service.finding = finding;
    if (isOther) changed(name);
  }
}

const isSame = (one: DialTarget, other: DialTarget): boolean =>
  one.host === other.host && one.port === other.port && one.because === other.because;
