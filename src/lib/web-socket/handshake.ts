import type { ClientRequestArgs, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
// Where Node has no masks, ws takes ours, when they exist before it is loaded.
import './masks.ts';
import { type ClientOptions, WebSocket, WebSocketServer } from 'ws';

/** A WebSocket without bounds of its own. Once it is open it becomes a `WebSocketEnd`. */
export type RawSocket = WebSocket;

export interface HandshakeOptions {
  /** Greatest length of a message. A peer that sends a longer one is disconnected with 1009. */
  maxBytes: number;
  /** ms after a close frame in which the connection stays at most */
  closeMs: number;
}

/** `ws` knows the timeout of closing, its types do not. */
const common = ({ maxBytes, closeMs }: HandshakeOptions) => ({
  ...{ maxPayload: maxBytes, perMessageDeflate: false },
  ...{ closeTimeout: closeMs },
});

/** Begins to open a WebSocket to a server. Emits `open`; or `unexpected-response`, or `error` and `close`. */
export function dial(
  url: string,
  {
    maxBytes,
    closeMs,
    protocols = [],
    ...options
  }: HandshakeOptions & (ClientOptions | ClientRequestArgs) & { protocols?: string[] },
): RawSocket {
  return new WebSocket(url, protocols, { ...options, ...common({ maxBytes, closeMs }) });
}

/** A request for a WebSocket that a server has received. */
export interface UpgradeRequest {
  incoming: IncomingMessage;
  socket: Duplex;
  /** what came behind the request already */
  head: Buffer;
}

/** Accepts a handshake. Undefined for one that is not valid, which gets the status 400 or 405. */
export type Accept = (upgrade: UpgradeRequest) => RawSocket | undefined;

/** `isPlain`: no subprotocol is agreed on, whatever the client offers; else the first one that it offers. */
export function createAccept({ isPlain = false, ...bounds }: HandshakeOptions & { isPlain?: boolean }): Accept {
  const server = new WebSocketServer({
    ...{ noServer: true, clientTracking: false, ...common(bounds) },
    ...(isPlain && { handleProtocols: () => false }),
  });
  return ({ incoming, socket, head }) => {
    let accepted: RawSocket | undefined;
    // It calls back before it returns.
    server.handleUpgrade(incoming, socket, head, (ws) => {
      accepted = ws;
    });
    return accepted;
  };
}
