import type { Clock } from '../lib/clock.ts';
import { FRAME_LIMITS } from '../wire/frames.ts';
import { CLOSE_CODES, CLOSE_REASON_BYTES, CLOSE_TIMEOUT, SESSION_TIMES } from '../wire/sessions.ts';
import { type WebSocket, WebSocketServer } from '../wire/web-socket.ts';

/** One end of a session: an open WebSocket that says when it takes no more, and ends when its other side is gone. */
export interface Socket {
  send(message: Uint8Array): void;
  /** Does nothing when it is closed already. A client that has taken everything and does not answer is disconnected. */
  close(code: number, reason: string): void;
  pause(): void;
  resume(): void;
  /** Called before anything can arrive; again, the listener takes the place of the former one. */
  listen(listener: SocketListener): void;
}

/** The end of a client that may be told that it gets no session. */
export interface ClientSocket extends Socket {
  /**
   * Closes a socket that never had a session: its client is disconnected when it has not answered in time, whatever it sends
   * meanwhile, since what it has to take is one short message.
   */
  dismiss(code: number, reason: string): void;
}

export interface SocketListener {
  message(data: Buffer, isBinary: boolean): void;
  /** more bytes wait to be sent than the bound allows; `drained` follows */
  full(): void;
  drained(): void;
  /** Last of all, once; without a code when the other side is gone without a word. */
  closed(code?: number, reason?: string): void;
}

export interface SocketOptions {
  clock: Clock;
  /** bytes that may wait to be sent before the socket counts as full */
  fullBytes: number;
  /** until the other side has answered a close frame; 5 s when absent */
  answerMs?: number;
  /**
   * No pings while reading is stopped: for another side that may end the connection right behind its last message. The ping would
   * have the system discard what has arrived and is not read yet.
   */
  isQuietWhilePaused?: boolean;
}

/** Ends the handshakes of WebSockets. */
export function createSocketServer(): WebSocketServer {
  return new WebSocketServer({
    noServer: true,
    maxPayload: FRAME_LIMITS.bytes,
    perMessageDeflate: false,
    clientTracking: false,
    ...CLOSE_TIMEOUT,
  });
}

/** Wraps an open WebSocket. Pings find a connection whose other side is gone without a word. */
export function createSocket(
  ws: WebSocket,
  { clock, fullBytes, answerMs = SESSION_TIMES.close, isQuietWhilePaused = false }: SocketOptions,
): ClientSocket {
  let listener: SocketListener | undefined;
  let isFull = false;
  let isAlive = true;
  let pongAt = Number.NEGATIVE_INFINITY;
  let isOver = false;
  let cancelPing = clock.after(SESSION_TIMES.ping, ping);
  let cancelClose = () => {};

  function ping() {
    // While reading is stopped, no answer can be read.
    if (!isAlive && !ws.isPaused) return ws.terminate();
    const isQuiet = isQuietWhilePaused && ws.isPaused;
    if (!isQuiet) {
      isAlive = false;
      ws.ping();
    }
    cancelPing = clock.after(SESSION_TIMES.ping, ping);
  }

  function over(code?: number, reason?: string) {
    if (isOver) return;
    isOver = true;
    cancelPing();
    listener?.closed(code, reason);
  }

  /**
   * What was sent before the close frame waits for a client that reads slowly, until a time. Also what waits in the system: a
   * client that has stopped reading says from time to time that it lives, and would lose it if that were refused.
   */
  function terminateLater(until: number) {
    cancelClose();
    cancelClose = clock.after(answerMs, () => {
      const isSlow = ws.bufferedAmount > 0 || clock.now() - pongAt < SESSION_TIMES.ping;
      if (isSlow && clock.now() < until) terminateLater(until);
      else ws.terminate();
    });
  }

  function sent() {
    if (!isFull || ws.bufferedAmount > fullBytes / 2) return;
    isFull = false;
    listener?.drained();
  }

  ws.on('message', (data: Buffer, isBinary: boolean) => {
    isAlive = true;
    if (ws.readyState === ws.OPEN) listener?.message(data, isBinary);
  });
  ws.on('pong', () => {
    isAlive = true;
    pongAt = clock.now();
  });
  // A message that is no WebSocket frame, or too long: ws has sent the right code and reads nothing any more, so that it would
  // not see the answer of the client.
  ws.on('error', () => {
    over();
    cancelClose = clock.after(SESSION_TIMES.close, () => ws.terminate());
  });
  ws.on('close', (code: number, reason: Buffer) => {
    over(code, String(reason));
    cancelClose();
  });

  function beginClose(code: number, reason: string) {
    // A socket that is not read would never get the answer.
    ws.resume();
    ws.close(code, shortened(reason));
    // After a close frame no ping is sent, so that none is answered.
    cancelPing();
  }

  return {
    send(message) {
      if (ws.readyState !== ws.OPEN) return;
      ws.send(message, { binary: true }, sent);
      if (isFull || ws.bufferedAmount <= fullBytes) return;
      isFull = true;
      listener?.full();
    },
    close(code, reason) {
      if (isOver) return;
      beginClose(code, reason);
      terminateLater(clock.now() + SESSION_TIMES.linger);
    },
    dismiss(code, reason) {
      if (isOver) return;
      beginClose(code, reason);
      cancelClose();
      cancelClose = clock.after(answerMs, () => ws.terminate());
    },
    pause: () => ws.pause(),
    resume: () => ws.resume(),
    listen(given) {
      listener = given;
      if (isFull) given.full();
    },
  };
}

/** As much of a reason as a close frame can have. */
function shortened(reason: string): string {
  if (Buffer.byteLength(reason) <= CLOSE_REASON_BYTES) return reason;
  const room = Buffer.from(reason).subarray(0, CLOSE_REASON_BYTES - 3);
  return `${new TextDecoder().decode(room, { stream: true })}...`;
}

/** Closes a socket that has no session, once its client has the reason as a whole. */
export function refuse(socket: Pick<ClientSocket, 'send' | 'dismiss'>, message: Uint8Array, reason: string): void {
  socket.send(message);
  socket.dismiss(CLOSE_CODES.refused, reason);
}
