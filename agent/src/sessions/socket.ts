import { WebSocket } from 'ws';
import { decodeFrame, encodeFrame, FRAME_LIMITS, type Frame } from '../../../src/wire/frames.ts';
import { CLOSE_CODES, SESSION_TIMES } from '../../../src/wire/sessions.ts';
import type { SocketRequest } from '../controller/client.ts';

/** One WebSocket to the controller. */
export interface Socket {
  /** Resolves once there is room for more. What is sent over a closed one is lost. */
  send(frame: Frame): Promise<void>;
  /** Stops reading: the controller stops sending in turn. */
  pause(): void;
  resume(): void;
  close(): void;
  /** Ends it without a word, since the other side is gone. */
  drop(): void;
}

export interface SocketListener {
  frame(frame: Frame): void;
  /** Last of all, once: with a close code, or the status of a refused upgrade. */
  closed(end: { code: number; status?: number; reason: string }): void;
}

/** Bytes that may wait to be sent before senders wait. */
const FULL = 128 * 1024;
const HANDSHAKE = 15_000;

export function openSocket({ url, headers, ca, insecure }: SocketRequest, listener: SocketListener): Socket {
  const ws = new WebSocket(url, {
    ...{ headers, handshakeTimeout: HANDSHAKE, maxPayload: FRAME_LIMITS.bytes, perMessageDeflate: false },
    ...(ca !== undefined && { ca }),
    ...(insecure && { rejectUnauthorized: false }),
  });
  let status: number | undefined;
  let problem = '';
  let isPaused = false;
  let isAlive = true;
  let closing: NodeJS.Timeout | undefined;
  const waiting = new Set<() => void>();
  const wake = () => {
    for (const resolve of waiting) resolve();
    waiting.clear();
  };
  // The controller sends pings. A connection over which none has come twice is dead, though nothing says so.
  const watch = setInterval(() => {
    if (isPaused || ws.readyState !== ws.OPEN) return;
    if (!isAlive) return ws.terminate();
    isAlive = false;
  }, SESSION_TIMES.ping * 2);
  watch.unref();

  ws.on('ping', () => {
    isAlive = true;
  });
  ws.on('message', (data: Buffer, isBinary: boolean) => {
    isAlive = true;
    if (!isBinary) return;
    let frame: Frame | undefined;
    try {
      frame = decodeFrame(data);
    } catch {
      return ws.close(CLOSE_CODES.protocol, 'the message is no frame');
    }
    if (frame) listener.frame(frame);
  });
  ws.on('unexpected-response', (_request, response) => {
    status = response.statusCode;
    ws.terminate();
  });
  // Followed by `close`.
  ws.on('error', (error) => {
    problem ||= error.message;
  });
  ws.on('close', (code, reason) => {
    clearInterval(watch);
    clearTimeout(closing);
    wake();
    listener.closed({ code, status, reason: String(reason) || problem });
  });

  return {
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
      isAlive = true;
      ws.resume();
    },
    close() {
      // One that is not read would never get the answer.
      ws.resume();
      ws.close(CLOSE_CODES.ended);
      closing ??= setTimeout(() => ws.terminate(), SESSION_TIMES.close);
    },
    drop: () => ws.terminate(),
  };
}
