import { once } from 'node:events';
import { dial } from '../../src/lib/web-socket/handshake.ts';
import {
  decodeFrame,
  encodeFrame,
  FRAME_TYPES,
  type Frame,
  type FrameType,
  SOCKET_BOUNDS,
} from '../../src/wire/frames.ts';

/** One end of a session: the socket of a user or of an agent. */
export interface End {
  send(type: FrameType, data?: Uint8Array | string): void;
  /** The next frame that passes; rejects when the socket is closed before. Of those that came before, the first few count. */
  next(passes: (frame: Frame) => boolean): Promise<Frame>;
  /** Called with each frame from when it is set. */
  onFrame: ((frame: Frame) => void) | undefined;
  close(): Promise<void>;
}

interface Waiting {
  passes(frame: Frame): boolean;
  resolve(frame: Frame): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout;
}

const WAIT_MS = 60_000;
/** Frames that arrived before they were waited for, such as those right after the upgrade. */
const MOST_EARLY = 16;

/** Opens a socket; `url` leads to the controller. Rejects with the status when it is refused. */
export async function openEnd(url: string, path: string, headers: Record<string, string>): Promise<End> {
  const ws = dial(`${url.replace(/^http/, 'ws')}/api/v3${path}`, { ...SOCKET_BOUNDS, headers });
  let waiting: Waiting[] = [];
  const early: Frame[] = [];
  const end: End = {
    send: (type, data = '') =>
      ws.send(encodeFrame({ type, data: typeof data === 'string' ? Buffer.from(data) : data })),
    next(passes) {
      const at = early.findIndex(passes);
      if (at >= 0) return Promise.resolve(early.splice(0, at + 1)[at] as Frame);
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`${path}: no frame within ${WAIT_MS} ms`)), WAIT_MS);
        waiting.push({ passes, resolve, reject, timer });
      });
    },
    onFrame: undefined,
    async close() {
      if (ws.readyState === ws.CLOSED) return;
      const closed = once(ws, 'close');
      ws.close(1000);
      await closed;
    },
  };
  ws.on('message', (message: Buffer) => {
    const frame = decodeFrame(message);
    if (!frame) return;
    end.onFrame?.(frame);
    const [first] = waiting.filter(({ passes }) => passes(frame));
    if (!first) {
      if (!end.onFrame && early.length < MOST_EARLY) early.push(frame);
      return;
    }
    waiting = waiting.filter((one) => one !== first);
    clearTimeout(first.timer);
    first.resolve(frame);
  });
  ws.on('close', (code, reason) => {
    for (const { reject, timer } of waiting) {
      clearTimeout(timer);
      reject(new Error(`${path} was closed: ${code} ${reason}`));
    }
    waiting = [];
  });
  await new Promise<void>((resolve, reject) => {
    ws.once('open', resolve);
    ws.once('unexpected-response', (_, response) => reject(new Error(`${path}: ${response.statusCode}`)));
    ws.once('error', reject);
  });
  ws.on('error', () => {});
  return end;
}

/** The headers of a user, at one of many addresses, as users are. */
export const userHeaders = (token: string, i: number) => ({
  authorization: `Bearer ${token}`,
  'x-forwarded-for': addressOf(i),
});

export const addressOf = (i: number) => `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`;

/** The controller says to the user that the agent has connected. */
export const isPaired = ({ notice, data }: Frame): boolean => notice === true && /^connected/i.test(textOf(data));
export const isOutput = ({ type, notice }: Frame): boolean => type === FRAME_TYPES.STDOUT && !notice;

const textOf = (data: Uint8Array) => Buffer.from(data).toString();
