import type { Clock } from '../lib/clock.ts';
import type { MessageListener, MessageSocket } from '../lib/web-socket/socket.ts';
import { decodeFrame, FRAME_LIMITS, FRAME_TYPES } from '../wire/frames.ts';
import { SESSION_TIMES } from '../wire/sessions.ts';
import type { Envelope } from './broker.ts';

/**
 * One connection of an agent to a session over a broker, seen from either replica. It is a socket as a WebSocket between the
 * replicas is: in order and without gaps or over, with a bound of what may be on the way, and over when the other side is
 * silent. So what passes through a broker is neither more nor less than what passes directly.
 */
export interface BrokerLink {
  readonly socket: MessageSocket;
  /** whether the other side has been heard */
  readonly isHeard: boolean;
  receive(said: Envelope): void;
  /** The broker has lost messages, or may have: the end, unless everything has arrived. */
  lost(): void;
}

export interface LinkOptions {
  link: string;
  send(said: Envelope): void;
  /** bytes of one message of the broker */
  maxBytes: number;
  clock: Clock;
}

export const LINK_TIMES = {
  /** between two signs of life, and until their absence means that the other side is gone */
  sign: 5_000,
  silent: 15_000,
} as const;

/** Bytes that may be on the way, and that wait here when nothing takes them. */
const WINDOW_BYTES = 256 * 1024;
/** The bound of a side that does not keep to the window. */
const HELD_BYTES = WINDOW_BYTES + 8 * FRAME_LIMITS.bytes;
/** The bound of one message that arrives in parts, each of which has bytes; a broker may take small parts only. */
const PARTS_BYTES = 2 * FRAME_LIMITS.bytes;
/** What a message counts besides its bytes. */
const MESSAGE_BYTES = 256;

type Ordered = Extract<Envelope, { op: 'frame' | 'close' }>;

export function createLink({ link, send, maxBytes, clock }: LinkOptions): BrokerLink {
  let listener: MessageListener | undefined;
  let isOver = false;
  let isClosing = false;
  let isHeard = false;
  let heardAt = clock.now();
  /** of this side: the next message, and how much was sent and not taken */
  let seq = 0;
  let sent = 0;
  let takenThere = 0;
  let isFull = false;
  /** of the other side */
  let expected = 0;
  let taken = 0;
  let said = 0;
  let held: Ordered[] = [];
  let heldBytes = 0;
  let isPaused = false;
  let parts: Uint8Array[] = [];
  let partsBytes = 0;
  let cancelSign = clock.after(LINK_TIMES.sign, sign);
  let cancelClose = () => {};

  function over(code?: number, reason?: string) {
    if (isOver) return;
    isOver = true;
    cancelSign();
    cancelClose();
    held = [];
    parts = [];
    listener?.closed(code, reason);
  }

  /** The peer has sent its close frame and reads no more; the received frames wait for the listener alone. */
  const hasAll = () => held.at(-1)?.op === 'close';

  function sayTaken() {
    said = taken;
    if (!hasAll()) send({ link, op: 'taken', seq, taken });
  }

  function sign() {
    if (clock.now() - heardAt >= (hasAll() ? SESSION_TIMES.linger : LINK_TIMES.silent)) return over();
    sayTaken();
    cancelSign = clock.after(LINK_TIMES.sign, sign);
  }

  function take(one: Ordered) {
    if (one.op === 'close') {
      send({ link, op: 'close', seq, closeAck: true, code: one.code, reason: '' });
      return over(one.code, one.reason);
    }
    taken += one.body.length + MESSAGE_BYTES;
    parts.push(one.body);
    partsBytes += one.body.length + MESSAGE_BYTES;
    if (partsBytes > PARTS_BYTES) return over();
    if (!one.hasMore) {
      const message = parts.length === 1 ? one.body : Buffer.concat(parts);
      parts = [];
      partsBytes = 0;
      listener?.message(Buffer.from(message.buffer, message.byteOffset, message.length), true);
    }
    if (!isOver && taken - said >= WINDOW_BYTES / 4) sayTaken();
  }

  function takeHeld() {
    while (!isPaused && !isOver) {
      const one = held.shift();
      if (!one) return;
      if (one.op === 'frame') heldBytes -= one.body.length + MESSAGE_BYTES;
      take(one);
    }
  }

  function receiveOrdered(one: Ordered) {
    if (one.seq < expected || hasAll()) return;
    if (one.seq > expected) return over();
    expected++;
    held.push(one);
    if (one.op === 'frame') heldBytes += one.body.length + MESSAGE_BYTES;
    if (heldBytes > HELD_BYTES) return over();
    takeHeld();
  }

  return {
    socket: {
      send(message) {
        if (isOver || isClosing || hasAll()) return;
        const messageType = typeOf(message);
        for (let at = 0; at === 0 || at < message.length; at += maxBytes) {
          const body = message.subarray(at, at + maxBytes);
          send({ link, op: 'frame', messageType, seq: seq++, hasMore: at + maxBytes < message.length, body });
          sent += body.length + MESSAGE_BYTES;
        }
        if (isFull || sent - takenThere <= WINDOW_BYTES) return;
        isFull = true;
        listener?.full();
      },
      close(code, reason) {
        if (isOver || isClosing) return;
        isClosing = true;
        send({ link, op: 'close', seq: seq++, closeAck: false, code, reason });
        // What still arrives is on its way to nothing.
        isPaused = false;
        takeHeld();
        cancelClose = clock.after(SESSION_TIMES.close, () => over(code, reason));
      },
      pause() {
        isPaused = true;
      },
      resume() {
        isPaused = false;
        takeHeld();
      },
      listen(given) {
        listener = given;
      },
    },
    get isHeard() {
      return isHeard;
    },
    receive(said) {
      if (isOver || said.link !== link || said.op === 'join') return;
      isHeard = true;
      // After its end, another side says nothing that could keep the link.
      if (!hasAll()) heardAt = clock.now();
      if (said.op === 'taken') {
        // Something before it has not arrived, and cannot any more; or it is about what was never sent.
        if (said.seq > expected || said.taken > sent) return over();
        takenThere = Math.max(takenThere, said.taken);
        if (!isFull || sent - takenThere > WINDOW_BYTES / 2) return;
        isFull = false;
        return listener?.drained();
      }
      // An answer is never answered.
      if (said.op === 'close' && said.closeAck) return over(said.code, said.reason);
      receiveOrdered(said);
    },
    lost: () => hasAll() || over(),
  };
}

/** For whoever watches the broker; what is no frame is judged by the replica with the session. */
export function typeOf(message: Uint8Array): number {
  try {
    return decodeFrame(message)?.type ?? FRAME_TYPES.CONTROL;
  } catch {
    return FRAME_TYPES.CONTROL;
  }
}
