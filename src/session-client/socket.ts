import type { Agent, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { systemClock } from '../lib/clock.ts';
import { createAccept, dial, type RawSocket, type UpgradeRequest } from '../lib/web-socket/handshake.ts';
import { ABNORMAL, WebSocketEnd } from '../lib/web-socket/socket.ts';
import { decodeFrame, encodeFrame, type Frame, SOCKET_BOUNDS } from '../wire/frames.ts';
import { CLOSE_CODES, SESSION_TIMES } from '../wire/sessions.ts';

/** The socket of a session: of an agent or a user to the controller, or between a command line and its agent. */
export interface FrameSocket {
  /** Resolves once there is room for more. A frame that is sent over a closed socket is lost. */
  send(frame: Frame): Promise<void>;
  /** whether a frame that is sent now can arrive */
  readonly isOpen: boolean;
  /** Stops reading: the other side stops sending in turn. */
  pause(): void;
  resume(): void;
  /** Frames that were sent before are still passed on, also to another side that reads slowly: for 10 minutes, or `linger` ms. */
  close(linger?: number): void;
  /** Closes it, and passes on only what the other side takes at once. */
  leave(): void;
  /** Disconnects without a close frame. */
  drop(): void;
}

export interface FrameListener {
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

export interface FrameSocketRequest {
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
  { url, headers, ca, insecure, through, connections }: FrameSocketRequest,
  listener: FrameListener,
  opened?: () => void,
): FrameSocket {
  const ws = dial(url, {
    ...{ ...SOCKET_BOUNDS, headers, handshakeTimeout: HANDSHAKE },
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
  return new WebSocketFrames(ws, {
    frame: listener.frame,
    closed: ({ code, reason }) =>
      listener.closed({
        ...{ code, reason: refused?.message ?? reason },
        ...(refused?.status !== undefined && { status: refused.status }),
        ...(refused?.retryAfter !== undefined && { retryAfter: refused.retryAfter }),
      }),
  });
}

const accept = createAccept(SOCKET_BOUNDS);

/**
 * The other end of `openSocket`, where there is no controller in between: answers the handshake, and returns what gives the
 * socket its listener, which has to follow at once. Undefined for a request that was refused.
 */
export function acceptSocket(upgrade: UpgradeRequest): ((listener: FrameListener) => FrameSocket) | undefined {
  const ws = accept(upgrade);
  return ws && ((listener) => new WebSocketFrames(ws, listener, { sendsPings: true }));
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

/** The frames of a WebSocket that is open, or opens. The end that accepted the handshake sends pings, as the controller does. */
class WebSocketFrames implements FrameSocket {
  readonly #socket: WebSocketEnd;
  /** resolved once there is room */
  #room: PromiseWithResolvers<void> | undefined;

  constructor(ws: RawSocket, listener: FrameListener, { sendsPings } = { sendsPings: false }) {
    this.#socket = new WebSocketEnd(ws, {
      ...{ clock: systemClock, fullBytes: FULL, sendsPings, whilePaused: 'pong' },
      // The peer sends a ping every 30 s, or gets two in that time.
      ...{ lookMs: SESSION_TIMES.ping / 2, silentLooks: 6 },
      ...{ answerMs: SESSION_TIMES.close, lingerMs: SESSION_TIMES.linger },
    });
    this.#socket.listen({
      message: (data, isBinary) => isBinary && this.#received(data, listener),
      full: () => {
        this.#room = Promise.withResolvers();
      },
      drained: () => this.#drained(),
      closed: (code = ABNORMAL, reason = '') => {
        this.#drained();
        listener.closed({ code, reason });
      },
    });
  }

  get isOpen(): boolean {
    return this.#socket.isOpen;
  }

  async send(frame: Frame): Promise<void> {
    if (!this.isOpen) return;
    this.#socket.send(encodeFrame(frame));
    await this.#room?.promise;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  close(linger?: number): void {
    this.#socket.close(CLOSE_CODES.ended, '', linger);
  }

  leave(): void {
    this.close(0);
  }

  drop(): void {
    this.#socket.terminate();
  }

  #received(data: Buffer, listener: FrameListener): void {
    let frame: Frame | undefined;
    try {
      frame = decodeFrame(data);
    } catch {
      this.#socket.close(CLOSE_CODES.protocol, 'the message is no frame', SESSION_TIMES.close);
    }
    if (frame) listener.frame(frame);
  }

  #drained(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }
}
