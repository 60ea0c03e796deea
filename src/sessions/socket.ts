import type { Clock } from '../lib/clock.ts';
import { createAccept, type RawSocket } from '../lib/web-socket/handshake.ts';
import { type MessageSocket, WebSocketEnd } from '../lib/web-socket/socket.ts';
import { SOCKET_BOUNDS } from '../wire/frames.ts';
import { CLOSE_CODES, SESSION_TIMES } from '../wire/sessions.ts';

export interface SessionSocketOptions {
  clock: Clock;
  /** bytes that may wait to be sent before the socket counts as full */
  fullBytes: number;
  /** until the peer has answered a close frame */
  answerMs?: number;
  /** no pings while reading is stopped, for a peer that may end the connection right behind its last message */
  isQuietWhilePaused?: boolean;
}

/** Accepts the sockets of users, of agents and of other replicas. */
export const acceptUpgrade = createAccept(SOCKET_BOUNDS);

/** The controller's end of a session. Pings find a connection whose peer has disappeared. */
export const sessionSocket = (
  ws: RawSocket,
  { clock, fullBytes, answerMs = SESSION_TIMES.close, isQuietWhilePaused = false }: SessionSocketOptions,
): WebSocketEnd =>
  new WebSocketEnd(ws, {
    ...{ clock, fullBytes, answerMs, lingerMs: SESSION_TIMES.linger },
    ...{ lookMs: SESSION_TIMES.ping, silentLooks: 2, sendsPings: true },
    whilePaused: isQuietWhilePaused ? 'nothing' : 'ping',
  });

/**
 * Closes a socket that never had a session: its peer is disconnected when it has not answered in time, whatever it sends
 * meanwhile, since what it has to take is one short message.
 */
export function refuse(socket: MessageSocket, message: Uint8Array, reason: string): void {
  socket.send(message);
  socket.close(CLOSE_CODES.refused, reason, 0);
}
