import { randomBytes } from 'node:crypto';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../../engine-port/error.ts';
import type { ExecOptions, ExecProcess, StartedProgram } from '../../engine-port/exec.ts';
import type { LogLine } from '../../engine-port/logs.ts';
import { drained } from '../../machine/drained.ts';
import { endProgram } from '../../machine/process-session.ts';
import type { Containerd } from './client.ts';
import { isCode } from './errors.ts';
import { makeFifos, readingEnd, removeFifos, writingEnd } from './fifo.ts';
import { type RuntimeSpec, readSpec, specBytes } from './runtime-spec.ts';
import { CONTAINERD, TASK_STATES } from './wire/containerd.ts';

/** Ctrl-D: how the input of a terminal ends. */
const END_OF_TRANSMISSION = '\x04';
const PROCESS_TYPE = 'types.containerd.io/opencontainers/runtime-spec/1/Process';

/** ms until a program that ignores a hangup is ended by force, and between looks whether it has ended. */
const GRACE = 2000;
const LOOK_EVERY = 50;
/** ms until a containerd that is away is asked again for the end of a program. */
const ASK_AGAIN = 250;

export interface ExecContext {
  containerd: Containerd;
  /** for the pipes of programs */
  directory: string;
  /** id of the container in CRI */
  container: string;
}

/** Starts a program in a container, over pipes between the agent and the shim: containerd itself carries none of its bytes. */
export async function startContainerExec(
  { containerd, directory, container }: ExecContext,
  { command, tty, env = [] }: ExecOptions,
  made: (id: string) => void,
  signal?: AbortSignal,
): Promise<ExecProcess> {
  const id = randomBytes(16).toString('hex');
  const target = { containerId: container, execId: id };
  const spec = await processSpec(containerd, container, { command, tty, env }, signal);
  const [stdin, stdout, stderr] = ['in', 'out', 'err'].map((name) => join(directory, `${id}-${name}`)) as [
    string,
    string,
    string,
  ];
  const pipes = tty ? [stdin, stdout] : [stdin, stdout, stderr];
  await makeFifos(pipes);
  const input = writingEnd(stdin);
  // Who reads or writes gets the error; without a listener it would end the process.
  input.on('error', () => {});
  const outputs = pipes.slice(1).map(readingEnd);
  let isOpen = true;
  const release = () => {
    isOpen = false;
    input.destroy();
    for (const output of outputs) output.close();
    removeFifos(pipes);
  };
  let ended: Promise<number | undefined>;
  try {
    made(id);
    await containerd.call(
      CONTAINERD.exec,
      {
        ...target,
        ...{ stdin, stdout, ...(!tty && { stderr }), terminal: tty },
        spec: { type: PROCESS_TYPE, value: specBytes(spec) },
      },
      { signal },
    );
    ended = exitOf(containerd, target, () => isOpen);
    await containerd.call(CONTAINERD.startProcess, target, { signal });
  } catch (error) {
    release();
    // It may have started when the answer was not awaited any more.
    await endContainerExec(containerd, target).catch(() => {});
    await containerd.call(CONTAINERD.deleteProcess, target).catch(() => {});
    throw error;
  }
  void ended.finally(() => containerd.call(CONTAINERD.deleteProcess, target).catch(() => {}));
  let hasEnded = false;
  void ended.finally(() => {
    hasEnded = true;
  });
  return {
    async *output() {
      try {
        yield* merged(outputs.map((each) => each.read()));
      } finally {
        release();
      }
    },
    async write(data) {
      if (input.writable && !hasEnded && !input.write(data)) await Promise.race([drained(input), ended]);
    },
    closeStdin() {
      if (tty) return void input.write(END_OF_TRANSMISSION);
      input.end(() => {
        input.destroy();
        // The shim holds the pipe open as well, until it is asked to close it.
        containerd.call(CONTAINERD.closeIo, { ...target, stdin: true }).catch(() => {});
      });
    },
    isRunning: async () => (await processOf(containerd, target)) !== undefined,
    async resize(width, height) {
      await containerd.call(CONTAINERD.resize, { ...target, width, height });
    },
    exitCode: () => ended,
    async end() {
      await endContainerExec(containerd, target);
      await ended;
    },
  };
}

/**
 * Ends a program, and what it has started. containerd sends the signals beside the agent: a unit may not let the agent signal
 * processes of other users.
 */
export async function endContainerExec(
  containerd: Containerd,
  { containerId, execId }: { containerId: string; execId: StartedProgram['id'] },
  grace = GRACE,
): Promise<void> {
  const target = { containerId, execId };
  const pid = await processOf(containerd, target);
  if (pid === undefined) return;
  await signalProgram(containerd, target, constants.signals.SIGHUP);
  const neighbour = await processOf(containerd, { containerId, execId: '' });
  if (neighbour !== undefined) await endProgram(pid, neighbour);
  for (let waited = 0; waited < grace; waited += LOOK_EVERY) {
    if ((await processOf(containerd, target)) === undefined) return;
    await sleep(LOOK_EVERY);
  }
  await signalProgram(containerd, target, constants.signals.SIGKILL);
}

async function signalProgram(
  containerd: Containerd,
  target: { containerId: string; execId: string },
  signal: number,
): Promise<void> {
  try {
    await containerd.call(CONTAINERD.kill, { ...target, signal });
  } catch (error) {
    // It has ended meanwhile.
    if (!isCode(error, 'NotFound')) throw error;
  }
}

/** The process of a program as the machine numbers it; undefined when it does not run. */
async function processOf(
  containerd: Containerd,
  target: { containerId: string; execId: string },
): Promise<number | undefined> {
  try {
    const { process } = await containerd.call(CONTAINERD.getProcess, target);
    return process && process.status !== TASK_STATES.stopped && process.pid > 0 ? process.pid : undefined;
  } catch (error) {
    if (isCode(error, 'NotFound')) return undefined;
    throw error;
  }
}

/**
 * The exit code of a program, when it has ended. A containerd that starts again is asked again while the pipes of the
 * program are open, which do not go through it; undefined where it does not know the program.
 */
export async function exitOf(
  containerd: Containerd,
  target: { containerId: string; execId: string },
  isOpen: () => boolean,
): Promise<number | undefined> {
  for (;;) {
    try {
      return (await containerd.call(CONTAINERD.wait, target, { deadline: 0 })).exitStatus;
    } catch (error) {
      if (!isCode(error, 'Unavailable') || !isOpen()) return undefined;
    }
    await sleep(ASK_AGAIN, undefined, { ref: false });
  }
}

/** The program as the runtime wants it: as the container's own, with another command. */
async function processSpec(
  containerd: Containerd,
  container: string,
  { command, tty, env }: { command: readonly string[]; tty: boolean; env: readonly string[] },
  signal?: AbortSignal,
): Promise<NonNullable<RuntimeSpec['process']>> {
  const answer = await containerd.call(CONTAINERD.getContainer, { id: container }, { signal });
  const own = answer.container?.spec && readSpec(answer.container.spec.value).process;
  if (!own) throw new EngineError('Failed', `the engine does not say how container ${container} was made`);
  return { ...own, args: [...command], terminal: tty, env: [...(own.env ?? []), ...env] };
}

/** What several pipes have, as it comes; the next piece of each is read when the last one was taken. */
async function* merged(sockets: readonly Readable[]): AsyncGenerator<{ stream: LogLine['stream']; data: Uint8Array }> {
  const ready: { stream: LogLine['stream']; data: Buffer; taken: () => void }[] = [];
  let open = sockets.length;
  let wake = () => {};
  const pump = async (socket: Readable, stream: LogLine['stream']) => {
    for await (const data of piecesOf(socket))
      await new Promise<void>((taken) => {
        ready.push({ stream, data, taken });
        wake();
      });
    open--;
    wake();
  };
  for (const [at, socket] of sockets.entries()) void pump(socket, at === 0 ? 'stdout' : 'stderr');
  for (;;) {
    const next = ready.shift();
    if (next) {
      yield { stream: next.stream, data: next.data };
      next.taken();
    } else if (open === 0) return;
    else
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
  }
}

/** A pipe that breaks is the end of the output: the exit code says whether the program has ended. */
async function* piecesOf(socket: Readable): AsyncGenerator<Buffer> {
  try {
    yield* socket as AsyncIterable<Buffer>;
  } catch {
    // see above
  }
}
