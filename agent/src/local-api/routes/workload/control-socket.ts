import { systemClock } from '../../../../../src/lib/clock.ts';
import { createAccept, type UpgradeRequest } from '../../../../../src/lib/web-socket/handshake.ts';
import {
  type MessageListener,
  type MessageSocket,
  WebSocketEnd,
  type WebSocketOptions,
} from '../../../../../src/lib/web-socket/socket.ts';

/** ms for a client to answer a close frame */
const CLOSE_MS = 2_000;

/** Clients send messages of one byte, and no subprotocol is agreed on. */
const accept = createAccept({ maxBytes: 4096, closeMs: CLOSE_MS, isPlain: true });

const BOUNDS: Omit<WebSocketOptions, 'clock'> = {
  /** A client that leaves more unread is disconnected. */
  fullBytes: 64 * 1024,
  ...{ lookMs: 30_000, silentLooks: 2, sendsPings: true },
  whilePaused: 'nothing',
  ...{ answerMs: CLOSE_MS, lingerMs: 0 },
};

/** The WebSocket of a control channel whose handshake was accepted; the call has to follow at once. */
export type AcceptedControl = (listener: Pick<MessageListener, 'message' | 'closed'>) => MessageSocket;

/**
 * Accepts a handshake that was checked; undefined where it was refused all the same. A client that does not read, or that violates
 * the protocol, is disconnected.
 */
export function acceptControlSocket(upgrade: UpgradeRequest, clock = systemClock): AcceptedControl | undefined {
  const ws = accept(upgrade);
  return (
    ws &&
    ((listener) => {
      const socket = new WebSocketEnd(ws, { ...BOUNDS, clock });
      socket.listen({ ...listener, full: () => socket.terminate(), drained() {} });
      return socket;
    })
  );
}
