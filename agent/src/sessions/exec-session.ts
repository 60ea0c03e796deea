import { sleep } from '../../../src/lib/clock.ts';
import { FRAME_TYPES, type Frame, type FrameType } from '../../../src/wire/frames.ts';
import { readControl, SESSION_TIMES, writeControl } from '../../../src/wire/sessions.ts';
import type { ExecOptions, ExecProcess, StartedProgram } from '../engine-port/exec.ts';
import { errorText } from '../machine/log.ts';
import { withCapability } from './capability.ts';
import { SessionConnection } from './connection.ts';
import type { Listed } from './decide.ts';
import { ProgramRecord } from './program-record.ts';
import { type ExecRun, FRAME_BYTES, type SessionContext } from './session.ts';

type Size = { cols: number; rows: number };
type ExecSession = Extract<Listed, { kind: 'exec' }>;

/** Input that may wait for a program that does not read, before reading from the controller stops. */
const INPUT_BYTES = 256 * 1024;
/** A shell of the container: bash where it has one. */
const SHELL = ['sh', '-c', 'command -v bash >/dev/null 2>&1 && exec bash; exec sh'];
/** ms between two looks whether the program runs. */
const LOOK_EVERY = 50;
/** How engines and shells say that they have not found a program. */
const NOT_FOUND: ReadonlySet<number> = new Set([126, 127]);

/**
 * An exec session: starts the program once the controller is connected, and ends it when the session is over.
 */
export function runExec(session: ExecSession, refusal: string | undefined, context: SessionContext): ExecRun {
  const { engine, clock, random } = context;
  const ids = { sessionId: session.id, execId: session.id, microserviceUuid: session.microservice };
  const frame = (type: FrameType, data: string | Uint8Array): Frame => ({
    ...{ type, ...ids, timestamp: clock.wall() },
    data: typeof data === 'string' ? Buffer.from(data) : data,
  });
  const begun = Promise.withResolvers<{ refusal: string | undefined }>();
  const program = Promise.withResolvers<ExecProcess>();
  const started = Promise.withResolvers<string | undefined>();
  let hasBegun = false;
  /** what the program is to be given, in turn */
  let input: Promise<unknown> = program.promise;
  let waiting = 0;
  let hasInput = false;
  const record = new ProgramRecord(session.id, context);
  /** the size of the window that was asked for last, until the engine has it */
  let next: Size | undefined;

  const connection = new SessionConnection({
    ...{ kind: 'exec', clock, random },
    dial: (listener, attempt) => context.dial(session.path, listener, attempt),
    started(resumed) {
      if (hasBegun) return;
      hasBegun = true;
      const isLost = resumed && 'the agent was started again, and what ran in this session has ended';
      begun.resolve({ refusal: refusal ?? (isLost || undefined) });
    },
    frame: received,
  });

  function received({ type, data, execId = session.id }: Frame): void {
    if (execId !== session.id) return;
    if (type === FRAME_TYPES.CLOSE) connection.end();
    if (type === FRAME_TYPES.STDIN) take(data);
    const control = type === FRAME_TYPES.CONTROL ? readControl(data) : undefined;
    if (!control) return;
    if ('close' in control) connection.end();
    if ('stdinClosed' in control) inTurn((process) => process.closeStdin());
    // Not in turn: a program that does not read has a window, too.
    if ('resize' in control) void resize(control.resize);
  }

  /** One size after the other, since the engine may carry out two requests in any order; the last one counts. */
  async function resize(to: Size): Promise<void> {
    const isUnderWay = next !== undefined;
    next = to;
    if (isUnderWay) return;
    for (let size = to; ; size = next) {
      const { cols, rows } = size;
      await program.promise.then((process) => process.resize(cols, rows)).catch(() => {});
      if (next === size) break;
    }
    next = undefined;
  }

  function take(data: Uint8Array): void {
    hasInput = true;
    waiting += data.length;
    if (waiting > INPUT_BYTES) connection.pause();
    inTurn(async (process) => {
      await process.write(data);
      const wasFull = waiting > INPUT_BYTES / 2;
      waiting -= data.length;
      if (wasFull && waiting <= INPUT_BYTES / 2) connection.resume();
    });
  }

  /** What the program does not take, it has no use for any more. */
  function inTurn(act: (process: ExecProcess) => void | Promise<void>): void {
    input = input.then(() => program.promise.then(act)).catch(() => {});
  }

  async function work(): Promise<void> {
    const first = await Promise.race([begun.promise, aborted(connection.over)]);
    if (!first) return;
    if (first.refusal) return refused(first.refusal);
    // It was refused after it had begun to connect.
    if (connection.isEnding) return;
    let process: ExecProcess;
    try {
      const container = context.containerOf(session.microservice);
      if (container?.state !== 'running') throw new Error('the microservice does not run');
      const options = { ...optionsOf(session), made: (made: StartedProgram) => record.made(made) };
      process = await withCapability(engine, 'exec').exec(container.id, options, connection.over);
    } catch (error) {
      record.failed();
      return refused(`the program could not be started: ${errorText(error)}`);
    }
    program.resolve(process);
    const isOver = new AbortController();
    const over = () => record.end(process.end());
    connection.over.addEventListener('abort', over, { once: true, signal: isOver.signal });
    if (connection.over.aborted) over();
    try {
      for await (const { stream, data } of process.output()) {
        started.resolve(undefined);
        const type = stream === 'stdout' ? FRAME_TYPES.STDOUT : FRAME_TYPES.STDERR;
        for (let at = 0; at < data.length; at += FRAME_BYTES)
          await connection.send(frame(type, data.subarray(at, at + FRAME_BYTES)));
      }
      if (connection.over.aborted) return;
      const code = await process.exitCode();
      started.resolve(undefined);
      if (code === undefined) over();
      else record.over();
      await connection.finish(lastFrames(code));
    } catch (error) {
      // The engine may have ended, and the program not.
      over();
      await connection.finish([frame(FRAME_TYPES.CLOSE, errorText(error))]);
    } finally {
      isOver.abort();
    }
  }

  function refused(reason: string): Promise<void> {
    started.resolve(reason);
    return connection.finish([frame(FRAME_TYPES.CLOSE, reason)]);
  }

  /** An engine answers before the program runs, and its output may be long in coming. */
  async function lookUntilStarted(): Promise<void> {
    let isKnown = false;
    void started.promise.then(() => {
      isKnown = true;
    });
    const process = await program.promise;
    while (!isKnown && !connection.over.aborted) {
      if (await process.isRunning().catch(() => false)) started.resolve(undefined);
      await sleep(LOOK_EVERY, connection.over, clock);
    }
  }

  function lastFrames(code: number | undefined): Frame[] {
    if (code === undefined) return [frame(FRAME_TYPES.CLOSE, 'the program has ended, and the engine does not say how')];
    if (NOT_FOUND.has(code) && !session.command && !hasInput)
      return [frame(FRAME_TYPES.CLOSE, 'the container has no shell; name a program that it has')];
    const control = writeControl({ exitCode: code });
    return [frame(FRAME_TYPES.CONTROL, control), frame(FRAME_TYPES.CLOSE, `the program ended with exit code ${code}`)];
  }

  const connected = connection.run();
  return {
    connection,
    hasStarted() {
      void lookUntilStarted();
      return started.promise;
    },
    // The program ends with the connection: it does not run on for a user who reads nothing.
    refuse: (reason) => void connection.finish([frame(FRAME_TYPES.CLOSE, reason)], SESSION_TIMES.close),
    done: Promise.all([connected, work()]).then(() => record.ending),
  };
}

function optionsOf({ command, tty = command === undefined }: ExecSession): ExecOptions {
  return { command: command ?? SHELL, tty, ...(tty && { env: ['TERM=xterm-256color'] }) };
}

function aborted(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return Promise.resolve(undefined);
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(undefined), { once: true }));
}
