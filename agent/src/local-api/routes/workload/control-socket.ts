import type { UpgradeRequest } from '../../../../../src/session-client/socket.ts';
import type { CloseCode } from '../../../../../src/wire/sessions.ts';
import { type WebSocket, WebSocketServer } from '../../../../../src/wire/web-socket.ts';

const BOUNDS = {
  /** the longest message, in bytes; a client that sends a longer one is disconnected */
  maxPayload: 4096,
  /** ms for a client to answer a close frame */
  closeTimeout: 2_000,
};
/** What a client may leave unread, in bytes. */
const BACKLOG_LIMIT = 64 * 1024;

/** The WebSocket of a control channel. A client that does not read, or that violates the protocol, is disconnected. */
export interface ControlSocket {
  send(payload: Uint8Array): void;
  /** Asks whether the client is still there; one that sent nothing since the last call is disconnected. */
  ping(): void;
  close(code: CloseCode): void;
  onMessage(listener: (data: Buffer) => void): void;
  onClosed(listener: () => void): void;
}

/** Accepts a handshake that was checked. Undefined where it was refused all the same. */
export function acceptControlSocket({ incoming, socket, head }: UpgradeRequest): ControlSocket | undefined {
  let accepted: WebSocket | undefined;
  // No subprotocol is agreed on, whatever the client offers.
  const options = {
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    handleProtocols: () => false as const,
  };
  new WebSocketServer({ ...options, ...BOUNDS }).handleUpgrade(incoming, socket, head, (ws) => {
    accepted = ws;
  });
  return accepted && controlSocket(accepted);
}

function controlSocket(ws: WebSocket): ControlSocket {
  let isAlive = true;
  const alive = () => {
    isAlive = true;
  };
  for (const event of ['message', 'ping', 'pong']) ws.on(event, alive);
  // Followed by `close`.
  ws.on('error', () => {});
  /** Whether the client reads what it is sent. */
  const hasRoom = () => {
    if (ws.bufferedAmount > BACKLOG_LIMIT) ws.terminate();
    return ws.readyState === ws.OPEN;
  };
  return {
    send: (payload) => {
      if (hasRoom()) ws.send(payload);
    },
    ping: () => {
      if (!isAlive) ws.terminate();
      isAlive = false;
      if (hasRoom()) ws.ping();
    },
    close: (code) => ws.close(code),
    onMessage: (listener) => void ws.on('message', (data: Buffer) => listener(data)),
    onClosed: (listener) => void ws.on('close', listener),
  };
}
