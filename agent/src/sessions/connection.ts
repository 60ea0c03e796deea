import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { FrameListener, FrameSocket } from '../../../src/session-client/socket.ts';
import { FRAME_TYPES, type Frame } from '../../../src/wire/frames.ts';
import { CLOSE_CODES, SESSION_TIMES, startSchema } from '../../../src/wire/sessions.ts';
import type { Random } from '../domain/jitter.ts';
import { delayAfterLoss } from '../link/backoff.ts';

export interface Attempt {
  /** the first one of a session: later ones trust no connection that stands already */
  isFirst: boolean;
}

export interface ConnectionOptions {
  kind: 'exec' | 'log';
  /** Begins to open a socket; throws while the agent has no controller. */
  dial(listener: FrameListener, attempt: Attempt): FrameSocket;
  clock: Clock;
  random: Random;
  /** The controller has sent the first frame: now the session may send. `resumed`: it was connected before. */
  started(resumed: boolean): void;
  /** any other frame */
  frame(frame: Frame): void;
}

/** Close codes after which no other attempt is of use. */
const FINAL: ReadonlySet<number> = new Set([
  CLOSE_CODES.ended,
  CLOSE_CODES.refused,
  CLOSE_CODES.protocol,
  CLOSE_CODES.tooBig,
]);

/**
 * The connection of one session to the controller: opened again when it is lost, until the session is over or the
 * connection has been lost for too long.
 */
export class SessionConnection {
  readonly #options: ConnectionOptions;
  readonly #over = new AbortController();
  #socket: FrameSocket | undefined;
  /** the first frame has come */
  #isReady = false;
  #isPaused = false;
  #connectedAt: number | undefined;
  /** what the session says last */
  #last: readonly Frame[] = [];
  #changed = Promise.withResolvers<void>();

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** Fires when the session is over for the controller, or the connection did not return. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** It only says its last, such as why it is refused. */
  get isEnding(): boolean {
    return this.#last.length > 0;
  }

  get connectedAt(): number | undefined {
    return this.#connectedAt;
  }

  /** Resolves when it is over. */
  async run(): Promise<void> {
    const { clock, random, kind } = this.#options;
    let lostAt = clock.now();
    let patience: number = SESSION_TIMES.pending[kind];
    let failures = 0;
    let isFirst = true;
    while (!this.over.aborted) {
      const { isFinal, wasReady } = await this.#connect({ isFirst });
      isFirst = false;
      if (isFinal) break;
      if (wasReady) {
        lostAt = clock.now();
        patience = SESSION_TIMES.resume;
        failures = 0;
      }
      failures += 1;
      if (clock.now() - lostAt >= patience) break;
      await sleep(delayAfterLoss(failures, random), this.over, clock);
    }
    this.end();
  }

  /** Sends a frame as soon as there is a connection, and resolves once there is room for more. */
  async send(frame: Frame): Promise<void> {
    while (!this.over.aborted) {
      // A socket that the other side has closed takes nothing any more: the next one does.
      if (this.#isReady && this.#socket?.isOpen) return this.#socket.send(frame);
      await this.#changed.promise;
    }
  }

  /**
   * Sends the last frames, also over a connection that takes the place of a lost one, and gives the controller the time to close: it
   * does so when its user has taken all that was sent before.
   */
  async finish(frames: readonly Frame[], linger: number = SESSION_TIMES.linger): Promise<void> {
    if (this.#last.length === 0) {
      this.#last = frames;
      if (this.#isReady) this.#sendLast();
    }
    while (!this.#isReady && !this.over.aborted) await this.#changed.promise;
    if (this.#isPaused) this.resume();
    await sleep(linger, this.over, this.#options.clock);
    // The time for a user who reads slowly is one, however it is spent.
    this.end(SESSION_TIMES.linger - linger);
  }

  pause(): void {
    this.#isPaused = true;
    if (this.#isReady) this.#socket?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#socket?.resume();
  }

  /** The controller has lost this connection: another is made. */
  reconnect(): void {
    this.#socket?.drop();
  }

  /** `linger`: ms in which what was sent before is still passed on. */
  end(linger: number = SESSION_TIMES.linger): void {
    if (this.over.aborted) return;
    this.#over.abort();
    this.#socket?.close(linger);
    this.#notify();
  }

  /** Ends it at once: what still waits to be sent is lost. */
  drop(): void {
    this.end();
    this.#socket?.drop();
  }

  async #connect(attempt: Attempt): Promise<{ isFinal: boolean; wasReady: boolean }> {
    const closed = Promise.withResolvers<{ code: number; status?: number }>();
    try {
      this.#socket = this.#options.dial({ frame: (frame) => this.#received(frame), closed: closed.resolve }, attempt);
    } catch {
      return { isFinal: false, wasReady: false };
    }
    const { code, status } = await closed.promise;
    const wasReady = this.#isReady;
    this.#socket = undefined;
    this.#isReady = false;
    this.#connectedAt = undefined;
    return { isFinal: FINAL.has(code) || status === 404, wasReady };
  }

  #received(frame: Frame): void {
    if (this.over.aborted) return;
    if (frame.type === FRAME_TYPES.ACTIVATION || frame.type === FRAME_TYPES.LOG_START) this.#begin(frame);
    else this.#options.frame(frame);
  }

  #begin(frame: Frame): void {
    if (this.#isReady) return;
    this.#isReady = true;
    this.#connectedAt = this.#options.clock.now();
    if (this.#isPaused) this.#socket?.pause();
    this.#options.started(isResumed(frame));
    // The controller does not have them yet, or it would have closed.
    this.#sendLast();
    this.#notify();
  }

  #sendLast(): void {
    for (const frame of this.#last) void this.#socket?.send(frame);
  }

  #notify(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

function isResumed({ data }: Frame): boolean {
  try {
    return startSchema.parse(JSON.parse(Buffer.from(data).toString('utf8'))).resumed === true;
  } catch {
    return false;
  }
}
