import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../../engine-port/error.ts';
import type { ExecOptions, ExecProcess, StartedProgram } from '../../engine-port/exec.ts';
import { drained } from '../../machine/drained.ts';
import { endProgram } from '../../machine/process-session.ts';
import type { InspectAnswer } from './answers.ts';
import type { DockerApi } from './api.ts';
import { readExecFrames, type Written } from './exec-frames.ts';

interface ExecAnswer {
  Running: boolean;
  ExitCode: number | null;
  /** as the machine numbers it; 0 while it is not known */
  Pid: number;
}

/** How long the engine may take to notice that a program has ended, after its output has. */
const NOTICED = 10_000;
/** How long a program may take to start, after its connection was made. */
const STARTED = 5_000;
const LOOK_EVERY = 50;
/** Ctrl-D: how the input of a terminal ends. */
const END_OF_TRANSMISSION = '\x04';

/** Starts a program in a container over the Docker API: made, then started on a connection that carries bytes both ways. */
export async function startExec(
  api: DockerApi,
  container: string,
  { command, tty, env = [], made: announce }: ExecOptions,
  signal?: AbortSignal,
): Promise<ExecProcess> {
  const made = { AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: tty, Cmd: command, Env: env };
  const { Id: id } = await api.call<{ Id: string }>('POST', `/containers/${container}/exec`, { body: made, signal });
  announce?.({ container, id });
  const body = { Detach: false, Tty: tty };
  const { socket, head } = await api.upgrade('POST', `/exec/${id}/start`, { body, signal });
  // Errors are those of whoever reads or writes; without a listener they would end the process.
  socket.on('error', () => {});
  if (head.length > 0) socket.unshift(head);
  return {
    output: () => (tty ? terminalOutput(socket) : readExecFrames(piecesOf(socket))),
    async write(data) {
      if (socket.writable && !socket.write(data)) await drained(socket);
    },
    // An engine that loses the input of a terminal shows no more of its output.
    closeStdin: () => void (tty ? socket.write(END_OF_TRANSMISSION) : socket.end()),
    async isRunning() {
      const answer = await inspect(api, id);
      return answer?.Running === true && answer.Pid > 0;
    },
    async resize(columns, rows) {
      const query = { h: String(rows), w: String(columns) };
      for (let waited = 0; ; waited += LOOK_EVERY)
        try {
          return await api.call('POST', `/exec/${id}/resize`, { query });
        } catch (error) {
          // The connection is there before the terminal is.
          if (!isEarly(error) || waited >= STARTED) throw error;
          await sleep(LOOK_EVERY);
        }
    },
    async exitCode() {
      for (let waited = 0; waited < NOTICED; waited += LOOK_EVERY) {
        const answer = await inspect(api, id);
        if (!answer?.Running) return answer?.ExitCode ?? undefined;
        await sleep(LOOK_EVERY);
      }
      return undefined;
    },
    async end() {
      try {
        await endExec(api, { container, id });
      } finally {
        socket.destroy();
      }
    },
  };
}

/** Ends a program, and what it has started. */
export async function endExec(api: DockerApi, { container, id }: StartedProgram): Promise<void> {
  try {
    const pid = await pidOf(api, id);
    if (pid === undefined) return;
    const { State } = await api.call<InspectAnswer>('GET', `/containers/${container}/json`);
    await endProgram(pid, State.Pid);
  } catch (error) {
    // The container is gone, and the program with it.
    if (!(error instanceof EngineError && error.code === 'NotFound')) throw error;
  }
}

/** The process of a program; undefined when it does not run. docker passes output on before it knows the process. */
async function pidOf(api: DockerApi, id: string): Promise<number | undefined> {
  for (let waited = 0; waited < STARTED; waited += LOOK_EVERY) {
    const answer = await inspect(api, id);
    if (!answer?.Running) return undefined;
    if (answer.Pid) return answer.Pid;
    await sleep(LOOK_EVERY);
  }
  throw new EngineError('Unavailable', `the engine does not say which process program ${id} is`);
}

const inspect = (api: DockerApi, id: string) =>
  api.call<ExecAnswer | undefined>('GET', `/exec/${id}/json`, { tolerate: [404] });

const isEarly = (error: unknown) =>
  error instanceof EngineError && error.code !== 'Unavailable' && error.code !== 'NotFound';

async function* terminalOutput(socket: Duplex): AsyncGenerator<Written> {
  for await (const data of piecesOf(socket)) yield { stream: 'stdout', data };
}

/** A connection that breaks is the end of the output: the exit code says whether the program has ended. */
async function* piecesOf(socket: Duplex): AsyncGenerator<Buffer> {
  try {
    yield* socket as AsyncIterable<Buffer>;
  } catch {
    // see above
  }
}
