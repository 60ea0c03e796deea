import { once } from 'node:events';
import type { IncomingHttpHeaders } from 'node:http';
import { json } from 'node:stream/consumers';
import { WebSocket } from 'ws';
import { decodeFrame, encodeFrame, FRAME_TYPES, type Frame, type FrameType } from '../wire/frames.ts';

/** Less than a test may take, so that it is known what was waited for. */
const WAIT_MS = 45_000;
const NAMES = Object.fromEntries(Object.entries(FRAME_TYPES).map(([name, type]) => [type, name]));

/** One end of a socket: the frames that have arrived, and how it was closed. */
export interface Client {
  readonly ws: WebSocket;
  readonly frames: Frame[];
  /** `STDOUT hello` */
  readonly seen: string[];
  readonly closed: Promise<{ code: number; reason: string }>;
  send(type: FrameType, data?: string | Uint8Array): void;
  /** Waits until a frame has this beginning in `seen`. */
  until(beginning: string, ms?: number): Promise<Frame>;
}

interface Refusal {
  status: number;
  headers: IncomingHttpHeaders;
  body: { code: string; message: string };
}

export type Opened = Client | Refusal;

function clientOf(ws: WebSocket): Client {
  const frames: Frame[] = [];
  const seen: string[] = [];
  // Not `once`, which rejects at an error: a socket that is refused closes as well, and often nothing waits for its end.
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    ws.once('close', (code, reason) => resolve({ code, reason: String(reason) }));
  });
  ws.on('message', (data: Buffer) => {
    const frame = decodeFrame(data);
    if (!frame) return;
    frames.push(frame);
    seen.push(`${NAMES[frame.type]} ${Buffer.from(frame.data)}`.trim());
    ws.emit('frame');
  });
  return {
    ws,
    frames,
    seen,
    closed,
    send: (type, data = '') =>
      ws.send(encodeFrame({ type, data: typeof data === 'string' ? Buffer.from(data) : data })),
    async until(beginning, ms = WAIT_MS) {
      const signal = AbortSignal.timeout(ms);
      for (;;) {
        const at = seen.findIndex((one) => one.startsWith(beginning));
        if (at >= 0) return frames[at] as Frame;
        await once(ws, 'frame', { signal });
      }
    },
  };
}

/** Opens a socket; or the response that refused it. Without `autoPong` it answers no ping, as one that is gone. */
export async function openClient(url: string, headers: Record<string, string>, autoPong = true): Promise<Opened> {
  const ws = new WebSocket(url, { headers, autoPong });
  const client = clientOf(ws);
  return new Promise((resolve, reject) => {
    ws.once('open', () => resolve(client));
    ws.on('error', reject);
    ws.once('unexpected-response', (_, response) => {
      const { statusCode: status = 0, headers } = response;
      json(response).then((body) => resolve({ status, headers, body: body as Refusal['body'] }), reject);
    });
  });
}

export function socketOf(opened: Opened): Client {
  if ('ws' in opened) return opened;
  throw new Error(`the socket was refused: ${opened.status} ${opened.body.message}`);
}
