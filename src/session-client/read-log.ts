import { FRAME_TYPES, type Frame } from '../wire/frames.ts';
import { writeControl } from '../wire/sessions.ts';
import { type FrameSocketRequest, openSocket, type SocketEnd } from './socket.ts';

export interface TextLine {
  text: string;
  /** Unix ms */
  at: number | undefined;
}

export interface LogReader {
  /** Reading stops until what it returns is resolved. */
  line(line: TextLine): Promise<void> | undefined;
  /** lines are missing, or there are none */
  problem(text: string): void;
  notice(text: string): void;
  /** A former run is wanted: a controller that does not know it would show the present one. */
  isPrevious?: boolean;
}

/** How a log ended. */
export interface LogEnd extends SocketEnd {
  /** all lines have come */
  isComplete: boolean;
  /** the last thing that came was a problem */
  isProblem: boolean;
  /** problems came, each of which may be about lines that are missing */
  hasGaps: boolean;
}

/** The server ends a session in which nothing was sent for hours; a log may be as quiet as that. */
const KEEPALIVE = 5 * 60_000;
const T = FRAME_TYPES;

/** The user's end of a log session. */
export async function readLog(request: FrameSocketRequest, reader: LogReader, signal: AbortSignal): Promise<LogEnd> {
  signal.throwIfAborted();
  const closed = Promise.withResolvers<SocketEnd>();
  let isComplete = false;
  let isEnded = false;
  let problem = '';
  let hasGaps = false;
  let waiting = 0;
  const socket = openSocket(request, { frame: received, closed: closed.resolve });

  function received({ type, data, notice, timestamp }: Frame): void {
    if (isEnded) return;
    const text = Buffer.from(data).toString('utf8');
    if (type === T.LOG_START && reader.isPrevious && !saysPrevious(text)) {
      refuse();
      return;
    }
    if (notice) reader.notice(text);
    if (type === T.LOG_STOP) isComplete = true;
    if (type === T.LOG_ERROR) {
      problem = text;
      hasGaps = true;
      reader.problem(text);
    }
    if (notice || type !== T.LOG_LINE) return;
    problem = '';
    const room = reader.line({ text, at: timestamp });
    if (!room) return;
    waiting += 1;
    socket.pause();
    void room.then(() => {
      waiting -= 1;
      if (waiting === 0) socket.resume();
    });
  }

  function refuse(): void {
    [isEnded, isComplete, hasGaps] = [true, true, true];
    problem = 'this controller does not know --previous: update it, or leave --previous out';
    reader.problem(problem);
    stop();
  }

  const keepalive = setInterval(() => {
    void socket.send({ type: T.CONTROL, data: writeControl({ keepalive: true }) });
  }, KEEPALIVE);
  keepalive.unref();
  const stop = () => {
    void socket.send({ type: T.LOG_STOP, data: new Uint8Array(0) });
    socket.leave();
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    const end = await closed.promise;
    return { ...end, reason: problem || end.reason, isComplete, isProblem: problem !== '', hasGaps };
  } finally {
    signal.removeEventListener('abort', stop);
    clearInterval(keepalive);
  }
}

/** Whether LOG_START says that the former run was asked for. */
function saysPrevious(text: string): boolean {
  try {
    return (JSON.parse(text) as { tailConfig?: { previous?: boolean } }).tailConfig?.previous === true;
  } catch {
    return false;
  }
}
