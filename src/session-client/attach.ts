import type { Readable, Writable } from 'node:stream';
import { FRAME_TYPES, type Frame, type FrameType } from '../wire/frames.ts';
import { CLOSE_CODES, type Control, readControl, writeControl } from '../wire/sessions.ts';
import { type FrameSocket, type FrameSocketRequest, openSocket, type SocketEnd } from './socket.ts';

/** What a program is given and where its output goes. */
export interface Streams {
  /** absent: the program gets no standard input */
  input?: Readable & { isTTY?: boolean; setRawMode?(isRaw: boolean): unknown };
  output: Writable & { isTTY?: boolean; columns?: number; rows?: number };
  errors: Writable;
}

export interface AttachOptions extends Streams {
  /** the program has a terminal, and `input` is one: keys go to it as they are, and it gets the size of `output` */
  isTerminal: boolean;
  /** a text of the controller, which is no output of the program */
  notice(text: string): void;
  signal: AbortSignal;
}

/** How a program ended, or why nothing more is known of it. */
export type Attached = { exitCode: number } | { failed: SocketEnd } | { interrupted: true };

/** Data of one frame. */
const FRAME_BYTES = 32 * 1024;
const CTRL_C = 3;
const CUT = 'the connection to the node was lost, and what was on its way is missing';
const T = FRAME_TYPES;

/**
 * The user's end of an exec session: standard input to the program, its output back, until it has ended. A stream that takes
 * nothing stops the reading from the socket, and a socket that takes nothing the reading of the input.
 */
export async function attach(request: FrameSocketRequest, options: AttachOptions): Promise<Attached> {
  const { input, output, errors, isTerminal, notice, signal } = options;
  signal.throwIfAborted();
  const closed = Promise.withResolvers<SocketEnd>();
  const full = new Set<Writable>();
  let exitCode: number | undefined;
  let reason = '';
  let hasBegun = false;
  /** what is typed reaches no program, since the agent is not connected */
  let isAlone = true;
  let restore = () => {};
  let wasConnected = false;
  let isInterrupted = false;
  /** the agent was connected, and then was not: what was on its way is missing */
  let isCut = false;

  const socket: FrameSocket = openSocket(request, { frame: received, closed: closed.resolve });

  function received(frame: Frame): void {
    const { type, data } = frame;
    if (type === T.ACTIVATION) begin();
    if (frame.notice) {
      const text = Buffer.from(data).toString('utf8');
      const isConnected = text.startsWith('Connected');
      // A person sees that a terminal has a gap; a file or an archive must not have one without an error.
      isCut ||= wasConnected && !isConnected && !isTerminal;
      wasConnected ||= isConnected;
      isAlone = !isConnected;
      notice(text);
      if (isCut) interrupt();
      return;
    }
    if (type === T.CLOSE) reason = Buffer.from(data).toString('utf8');
    const control = type === T.CONTROL ? readControl(data) : undefined;
    if (control && 'exitCode' in control) exitCode = control.exitCode;
    if (type !== T.STDOUT && type !== T.STDERR) return;
    isAlone = false;
    write(socket, type === T.STDOUT ? output : errors, data, full);
  }

  function begin(): void {
    if (hasBegun || isInterrupted) return;
    hasBegun = true;
    // Until then Ctrl-C is a signal, since no key would be sent.
    if (isTerminal && input?.isTTY) restore = rawMode(input);
    if (isTerminal) {
      resize();
      output.on('resize', resize);
    }
    if (input) void feed(input).catch(() => {});
    else say({ stdinClosed: true });
  }

  async function feed(from: Readable): Promise<void> {
    for await (const chunk of from as AsyncIterable<Buffer>) {
      if (isTerminal && isAlone && chunk.includes(CTRL_C)) return interrupt();
      for (let at = 0; at < chunk.length; at += FRAME_BYTES)
        await socket.send(frameOf(T.STDIN, chunk.subarray(at, at + FRAME_BYTES)));
    }
    say({ stdinClosed: true });
  }

  function resize(): void {
    const { columns: cols, rows } = output;
    if (cols && rows) say({ resize: { cols, rows } });
  }

  const say = (control: Control) => void socket.send(frameOf(T.CONTROL, writeControl(control)));

  function interrupt(): void {
    isInterrupted = true;
    // The end may take a while, and a second signal end this process at once.
    restore();
    void socket.send(frameOf(T.CLOSE, Buffer.from('interrupted')));
    socket.leave();
  }

  signal.addEventListener('abort', interrupt, { once: true });
  try {
    const end = await closed.promise;
    if (isCut) return { failed: { code: CLOSE_CODES.tryAgainLater, reason: CUT } };
    if (exitCode !== undefined) return { exitCode };
    return isInterrupted ? { interrupted: true } : { failed: { ...end, reason: reason || end.reason } };
  } finally {
    signal.removeEventListener('abort', interrupt);
    output.off('resize', resize);
    restore();
    input?.destroy();
  }
}

const frameOf = (type: FrameType, data: Uint8Array): Frame => ({ type, data });

/** Writes, and stops reading from the socket until there is room. What has come already is still written. */
function write(socket: FrameSocket, to: Writable, data: Uint8Array, full: Set<Writable>): void {
  if (to.destroyed || to.writableEnded || to.write(data) || full.has(to)) return;
  full.add(to);
  socket.pause();
  const go = () => {
    to.off('drain', go);
    to.off('close', go);
    full.delete(to);
    if (full.size === 0) socket.resume();
  };
  to.once('drain', go);
  to.once('close', go);
}

/** Passes keys on as they are, also Ctrl-C; resolves with what restores the terminal, which is done at the latest on exit. */
function rawMode(input: NonNullable<Streams['input']>): () => void {
  let isRaw = true;
  const restore = () => {
    process.off('exit', restore);
    if (isRaw) input.setRawMode?.(false);
    isRaw = false;
  };
  process.once('exit', restore);
  input.setRawMode?.(true);
  return restore;
}
