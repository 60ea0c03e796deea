import type { Agent, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { decodeFrame, encodeFrame, FRAME_LIMITS, type Frame } from '../wire/frames.ts';
import { CLOSE_CODES, CLOSE_TIMEOUT, SESSION_TIMES } from '../wire/sessions.ts';
import { WebSocket, WebSocketServer } from '../wire/web-socket.ts';

/** One WebSocket of a session: of an agent or a user to the controller, or between a command line and its agent. */
export interface Socket {
  /** Resolves once there is room for more. What is sent over a closed one is lost. */
  send(frame: Frame): Promise<void>;
  /** whether what is sent now can arrive */
  readonly isOpen: boolean;
  /** Stops reading: the other side stops sending in turn. */
  pause(): void;
  resume(): void;
  /** What was sent before is still passed on, also to another side that reads slowly: for 10 minutes, or `linger` ms. */
  close(linger?: number): void;
  /** Closes it, and passes on only what the other side takes at once. */
  leave(): void;
  /** Ends it without a word, since the other side is gone. */
  drop(): void;
}

export interface SocketListener {
  frame(frame: Frame): void;
  /** Last of all, once. */
  closed(end: SocketEnd): void;
}

/** A close code, or the status of a refused upgrade. */
export interface SocketEnd {
  code: number;
  status?: number;
  reason: string;
  /** of a refused upgrade: seconds until it may be tried again */
  retryAfter?: number;
}

export interface SocketRequest {
  url: string;
  headers: Record<string, string>;
  /** PEM of the authority */
  ca?: string;
  /** turns certificate verification off */
  insecure?: boolean;
  /** a connection that stands already */
  through?: Duplex;
  /** connections that stand already, one of which is taken */
  connections?: Agent;
}

/** Bytes that may wait to be sent before senders wait. */
const FULL = 128 * 1024;
const HANDSHAKE = 15_000;
const TOO_LATE = 'there was no answer to the opening of the session within 15 s';
/** Of the body of a refused upgrade, what is read. */
const REFUSAL_BYTES = 16 * 1024;

export function openSocket(
  { url, headers, ca, insecure, through, connections }: SocketRequest,
  listener: SocketListener,
  opened?: () => void,
): Socket {
  const ws = new WebSocket(url, {
    ...{ headers, handshakeTimeout: HANDSHAKE, maxPayload: FRAME_LIMITS.bytes, perMessageDeflate: false },
    ...CLOSE_TIMEOUT,
    ...(ca !== undefined && { ca }),
    ...(insecure && { rejectUnauthorized: false }),
    ...(connections && { agent: connections }),
    ...(through && { createConnection: () => through as never }),
  });
  let refused: { status?: number; message?: string; retryAfter?: number } | undefined;
  ws.on('unexpected-response', (_request, response) => {
    refused = { status: response.statusCode };
    void refusalOf(response).then((more) => {
      refused = { status: response.statusCode, ...more };
      ws.terminate();
    });
  });
  if (opened) ws.on('open', opened);
  // Only connections that are made for the request have the time limit of the handshake.
  const late = through && setTimeout(() => through.destroy(new Error(TOO_LATE)), HANDSHAKE);
  for (const event of ['upgrade', 'unexpected-response', 'close']) ws.on(event, () => clearTimeout(late));
  return frameSocket(ws, {
    frame: listener.frame,
    closed: ({ code, reason }) =>
      listener.closed({
        ...{ code, reason: refused?.message ?? reason },
        ...(refused?.status !== undefined && { status: refused.status }),
        ...(refused?.retryAfter !== undefined && { retryAfter: refused.retryAfter }),
      }),
  });
}

/** A request for a WebSocket that a server has received. */
export interface UpgradeRequest {
  incoming: IncomingMessage;
  socket: Duplex;
  /** what came behind the request already */
  head: Buffer;
}

/**
 * The other end of `openSocket`, where there is no controller in between: answers the handshake, and returns what gives the
 * socket its listener, which has to follow at once. Undefined for a request that was refused.
 */
export function acceptSocket({
  incoming,
  socket,
  head,
}: UpgradeRequest): ((listener: SocketListener) => Socket) | undefined {
  let accepted: WebSocket | undefined;
  const options = { noServer: true, clientTracking: false, maxPayload: FRAME_LIMITS.bytes, perMessageDeflate: false };
  new WebSocketServer({ ...options, ...CLOSE_TIMEOUT }).handleUpgrade(incoming, socket, head, (ws) => {
    accepted = ws;
  });
  const ws = accepted as WebSocket | undefined;
  return ws && ((listener) => frameSocket(ws, listener, true));
}

/** What a refusal says: the message of its body, and when to come again. */
async function refusalOf(response: IncomingMessage): Promise<{ message?: string; retryAfter?: number }> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    response.setTimeout(HANDSHAKE, () => response.destroy());
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > REFUSAL_BYTES) break;
      chunks.push(chunk);
    }
  } catch {
    // the status alone is known
  }
  const seconds = Number(response.headers['retry-after']);
  const text = Buffer.concat(chunks).toString('utf8');
  const message = /"message"\s*:\s*("(?:[^"\\]|\\.)*")/.exec(text)?.[1];
  return {
    ...(message !== undefined && { message: parsed(message) }),
    ...(seconds > 0 && { retryAfter: seconds }),
  };
}

function parsed(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

/** How often a socket looks whether its other side lives, and after how many looks without a sign it is given up. */
const LOOK = SESSION_TIMES.ping / 2;
const SILENT_LOOKS = 6;

/** The frames of a WebSocket that is open, or opens. The end that was asked sends pings, as the controller does. */
function frameSocket(ws: WebSocket, listener: SocketListener, sendsPings = false): Socket {
  let problem = '';
  let isPaused = false;
  let silent = 0;
  let closing: NodeJS.Timeout | undefined;
  const waiting = new Set<() => void>();
  const wake = () => {
    for (const resolve of waiting) resolve();
    waiting.clear();
  };
  const alive = () => {
    silent = 0;
  };
  // A connection over which nothing has come for long is dead, though nothing says so.
  const watch = setInterval(() => {
    // The peer closed, or we closed on a bad frame: nobody reads the rest of the queue.
    if (ws.readyState === ws.CLOSING && !closing) terminateLater(SESSION_TIMES.close);
    if (ws.readyState !== ws.OPEN) return;
    // While reading is stopped, pings arrive unread, and the other side would take this one for dead.
    if (isPaused) return ws.pong();
    if (sendsPings) ws.ping();
    silent += 1;
    if (silent >= SILENT_LOOKS) ws.terminate();
  }, LOOK);
  watch.unref();

  /** What was sent before the close frame waits for another side that reads slowly, until a time. */
  function terminateLater(linger: number) {
    clearInterval(closing);
    const until = performance.now() + linger;
    closing = setInterval(() => {
      if (ws.bufferedAmount === 0 || performance.now() >= until) ws.terminate();
    }, SESSION_TIMES.close);
  }

  function close(linger: number) {
    // One that is not read would never get the answer.
    ws.resume();
    ws.close(CLOSE_CODES.ended);
    terminateLater(linger);
  }

  ws.on('ping', alive);
  ws.on('pong', alive);
  ws.on('message', (data: Buffer, isBinary: boolean) => {
    silent = 0;
    if (!isBinary) return;
    let frame: Frame | undefined;
    try {
      frame = decodeFrame(data);
    } catch {
      return ws.close(CLOSE_CODES.protocol, 'the message is no frame');
    }
    if (frame) listener.frame(frame);
  });
  // Followed by `close`.
  ws.on('error', (error) => {
    problem ||= error.message;
  });
  ws.on('close', (code, reason) => {
    clearInterval(watch);
    clearInterval(closing);
    wake();
    listener.closed({ code, reason: String(reason) || problem });
  });

  return {
    get isOpen() {
      return ws.readyState === ws.OPEN;
    },
    send(frame) {
      if (ws.readyState !== ws.OPEN) return Promise.resolve();
      ws.send(encodeFrame(frame), { binary: true }, () => {
        if (ws.bufferedAmount <= FULL / 2) wake();
      });
      if (ws.bufferedAmount <= FULL) return Promise.resolve();
      return new Promise((resolve) => void waiting.add(resolve));
    },
    pause() {
      isPaused = true;
      ws.pause();
    },
    resume() {
      isPaused = false;
      silent = 0;
      ws.resume();
    },
    close: (linger = SESSION_TIMES.linger) => close(linger),
    leave: () => close(0),
    drop: () => ws.terminate(),
  };
}
