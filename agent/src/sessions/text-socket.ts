import type { Clock } from '../../../src/lib/clock.ts';
import { createAccept, type UpgradeRequest } from '../../../src/lib/web-socket/handshake.ts';
import { type MessageListener, WebSocketEnd } from '../../../src/lib/web-socket/socket.ts';

/** The socket of a client that gets JSON, one value in each text message. */
export interface TextSocket {
  /** Resolves once there is room for more. A value that is sent over a closed socket is lost. */
  send(value: object): Promise<void>;
  /** What was sent before is still passed on for a while. */
  close(code: number, reason?: string): void;
  /** Disconnects without a close frame. */
  drop(): void;
  /** Stops reading, so that the client has to stop sending. */
  pause(): void;
  resume(): void;
}

export type TextSocketListener = Pick<MessageListener, 'message' | 'closed'>;

/** Bytes that may wait for a client that reads slowly, before senders wait. */
const FULL = 128 * 1024;
/** Greatest length of a message of a client. */
const MESSAGE_BYTES = 1024 * 1024;
/** ms until a client has answered a close frame */
const ANSWER = 5_000;
/** ms until a client has taken what was sent before a close frame */
const LINGER = 60_000;

const accept = createAccept({ maxBytes: MESSAGE_BYTES, closeMs: LINGER + ANSWER, isPlain: true });

/**
 * Accepts a handshake that was checked; undefined where it was refused all the same. A client that answers no ping for 90 s, such as a
 * client without a reader, is disconnected.
 */
export function acceptTextSocket(
  upgrade: UpgradeRequest,
  clock: Clock,
  { message, closed }: TextSocketListener,
): TextSocket | undefined {
  const ws = accept(upgrade);
  if (!ws) return undefined;
  /** resolved once there is room */
  let room: PromiseWithResolvers<void> | undefined;
  const drained = () => {
    room?.resolve();
    room = undefined;
  };
  const socket = new WebSocketEnd(ws, {
    ...{ clock, fullBytes: FULL, sendsPings: true, whilePaused: 'pong' },
    ...{ lookMs: 30_000, silentLooks: 3, answerMs: ANSWER, lingerMs: LINGER },
  });
  socket.listen({
    message,
    drained,
    full: () => {
      room = Promise.withResolvers();
    },
    closed(code, reason) {
      drained();
      closed(code, reason);
    },
  });
  return {
    async send(value) {
      socket.send(JSON.stringify(value));
      await room?.promise;
    },
    close: (code, reason = '') => socket.close(code, reason),
    drop: () => socket.terminate(),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
  };
}
