import type { MessageListener, MessageSocket } from '../lib/web-socket/socket.ts';
import { decodeFrame, encodeFrame, FRAME_TYPES, type FrameType } from '../wire/frames.ts';

const NAMES = Object.fromEntries(Object.entries(FRAME_TYPES).map(([name, type]) => [type, name]));

/** A socket of a test: what was done to it, and a hand to make things happen. */
export interface FakeSocket extends MessageSocket {
  /** `STDOUT hello`, `close 1000`, `pause` */
  readonly seen: string[];
  readonly listener: MessageListener;
  frame(type: FrameType, text?: string): void;
}

export function createFakeSocket(): FakeSocket {
  const seen: string[] = [];
  let listener: MessageListener | undefined;
  return {
    seen,
    get listener() {
      if (!listener) throw new Error('nothing listens');
      return listener;
    },
    frame: (type, text = '') => listener?.message(Buffer.from(encodeFrame({ type, data: Buffer.from(text) })), true),
    send(message) {
      const frame = decodeFrame(message);
      seen.push(frame ? `${NAMES[frame.type]} ${Buffer.from(frame.data)}`.trim() : 'unknown');
    },
    close: (code) => void seen.push(`close ${code}`),
    pause: () => void seen.push('pause'),
    resume: () => void seen.push('resume'),
    listen(given) {
      listener = given;
    },
  };
}
