import type { Clock } from '../clock.ts';
import type { RawSocket } from './handshake.ts';

/** One end of a connection over which messages pass in order, or not at all. */
export interface MessageSocket {
  /** A message is lost when the socket is closed already. */
  send(message: Uint8Array): void;
  /**
   * What was sent before is still passed on, also to a peer that reads slowly, for `lingerMs`. With 0 the peer is disconnected when it
   * has not answered in time. Does nothing when the socket is closed already.
   */
  close(code: number, reason: string, lingerMs?: number): void;
  /** Stops reading, so that the peer has to stop sending. */
  pause(): void;
  resume(): void;
  /** Called before anything can arrive; a later listener takes the place of the former one. */
  listen(listener: MessageListener): void;
}

export interface MessageListener {
  message(data: Buffer, isBinary: boolean): void;
  /** More bytes wait to be sent than the bound allows; `drained` follows. */
  full(): void;
  drained(): void;
  /** Last of all, once; without a close frame the code is absent, or 1006 with what went wrong. */
  closed(code?: number, reason?: string): void;
}

export interface WebSocketOptions {
  clock: Clock;
  /** bytes that may wait to be sent before the socket counts as full, until half of them is sent */
  fullBytes: number;
  /** ms between two looks at the connection */
  lookMs: number;
  /** A peer is disconnected at that many looks without a message, ping or pong. */
  silentLooks: number;
  /** whether each look sends a ping; else the peer does */
  sendsPings: boolean;
  /**
   * What a look sends while reading is stopped, when no sign of the peer can be read: with a pong the peer sees that this end exists.
   * `nothing` is for a peer that may end the connection right behind its last message: the system would discard on a ping what has
   * arrived and is not read yet.
   */
  whilePaused: 'ping' | 'pong' | 'nothing';
  /** ms until the peer has answered a close frame */
  answerMs: number;
  /** ms until the peer has taken what was sent before a close frame */
  lingerMs: number;
}

/** Bytes of the reason in a close frame (RFC 6455, section 5.5). */
const REASON_BYTES = 123;
/** The close code of a connection that ended without a close frame (RFC 6455, section 7.4.1). */
export const ABNORMAL = 1006;

/** One end of a WebSocket that is open, or opens: finds a lost peer, says when it takes no more, and ends within a time. */
export class WebSocketEnd implements MessageSocket {
  readonly #ws: RawSocket;
  readonly #options: WebSocketOptions;
  #listener: MessageListener | undefined;
  #isFull = false;
  #isOver = false;
  /** looks since the last sign of the peer */
  #silent = 0;
  #pongAt = Number.NEGATIVE_INFINITY;
  #cancelLook = () => {};
  #cancelEnd = () => {};

  constructor(ws: RawSocket, options: WebSocketOptions) {
    this.#ws = ws;
    this.#options = options;
    this.#lookLater();
    ws.on('message', (data: Buffer, isBinary: boolean) => {
      this.#silent = 0;
      if (this.isOpen) this.#listener?.message(data, isBinary);
    });
    ws.on('ping', () => {
      this.#silent = 0;
    });
    ws.on('pong', () => {
      this.#silent = 0;
      this.#pongAt = options.clock.now();
    });
    // After a message that breaks the protocol, ws has sent the right close code and reads no more: it would not see the answer.
    ws.on('error', (error) => {
      this.#over(ABNORMAL, error.message);
      this.#end(Math.min(options.answerMs, options.lookMs), 0);
    });
    ws.on('close', (code: number, reason: Buffer) => {
      this.#over(code, String(reason));
      this.#cancelEnd();
    });
  }

  /** whether a message that is sent now can arrive */
  get isOpen(): boolean {
    return this.#ws.readyState === this.#ws.OPEN;
  }

  /** A string is a text message. */
  send(message: Uint8Array | string): void {
    if (!this.isOpen) return;
    this.#ws.send(message, { binary: typeof message !== 'string' }, () => this.#sent());
    if (this.#isFull || this.#ws.bufferedAmount <= this.#options.fullBytes) return;
    this.#isFull = true;
    this.#listener?.full();
  }

  close(code: number, reason: string, lingerMs = this.#options.lingerMs): void {
    if (this.#isOver) return;
    // A socket that is not read would never get the answer.
    this.#ws.resume();
    this.#ws.close(code, shortened(reason));
    // After a close frame no ping is sent, so that none is answered.
    this.#cancelLook();
    this.#end(this.#options.answerMs, lingerMs);
  }

  /** Ends the connection without a close frame. */
  terminate(): void {
    this.#ws.terminate();
  }

  pause(): void {
    this.#ws.pause();
  }

  resume(): void {
    this.#silent = 0;
    this.#ws.resume();
  }

  listen(listener: MessageListener): void {
    this.#listener = listener;
    if (this.#isFull) listener.full();
  }

  #sent(): void {
    if (!this.#isFull || this.#ws.bufferedAmount > this.#options.fullBytes / 2) return;
    this.#isFull = false;
    this.#listener?.drained();
  }

  #over(code: number, reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelLook();
    this.#listener?.closed(code, reason);
  }

  #lookLater(): void {
    this.#cancelLook = this.#options.clock.after(this.#options.lookMs, () => this.#look());
  }

  #look(): void {
    const { answerMs, lookMs } = this.#options;
    if (this.#ws.readyState === this.#ws.CLOSING) {
      // The peer has closed the socket and keeps the connection.
      this.#end(Math.min(answerMs, lookMs), 0);
      return;
    }
    this.#lookLater();
    if (this.isOpen) this.#probe();
  }

  #probe(): void {
    const { silentLooks, sendsPings, whilePaused } = this.#options;
    const { isPaused } = this.#ws;
    if (isPaused && whilePaused !== 'ping') {
      if (whilePaused === 'pong') this.#ws.pong();
      return;
    }
    this.#silent += 1;
    // While reading is stopped, no answer can be read.
    if (this.#silent >= silentLooks && !isPaused) this.terminate();
    else if (sendsPings) this.#ws.ping();
  }

  /**
   * Disconnects the peer after `ms`; while it takes what was sent before the close frame, only after `lingerMs`. A peer that has stopped
   * reading sends pongs: what the system keeps for it would be lost.
   */
  #end(ms: number, lingerMs: number): void {
    const { clock, lookMs } = this.#options;
    const until = clock.now() + lingerMs;
    const endLater = () => {
      this.#cancelEnd();
      this.#cancelEnd = clock.after(ms, () => {
        const isSlow = this.#ws.bufferedAmount > 0 || clock.now() - this.#pongAt < lookMs;
        if (isSlow && clock.now() < until) endLater();
        else this.terminate();
      });
    };
    endLater();
  }
}

/** As much of a reason as a close frame can have. */
function shortened(reason: string): string {
  if (Buffer.byteLength(reason) <= REASON_BYTES) return reason;
  const room = Buffer.from(reason).subarray(0, REASON_BYTES - 3);
  return `${new TextDecoder().decode(room, { stream: true })}...`;
}
