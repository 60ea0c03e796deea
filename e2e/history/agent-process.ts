/**
 * The agent as a process of its own that can be killed at any moment: its real code and disk, and a container engine in
 * another process, which outlives it. `agents.ts` starts it and exchanges messages with it.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { testDependencies } from '../../agent/src/_agent.ts';
import { createAgent } from '../../agent/src/app.ts';
import { parseConfig } from '../../agent/src/domain/config.ts';
import type { EngineEvent } from '../../agent/src/engine-port/connection.ts';
import type { Container } from '../../agent/src/engine-port/container.ts';
import { ALL_CAPABILITIES, type CompleteEngine } from '../../agent/src/engine-port/engine.ts';
import { EngineError, type EngineErrorCode } from '../../agent/src/engine-port/error.ts';
import type { ExecOptions } from '../../agent/src/engine-port/exec.ts';
import type { LogOptions } from '../../agent/src/engine-port/logs.ts';
import { MemoryProgram } from '../../agent/src/engines/memory/_program.ts';
import { systemClock } from '../../agent/src/machine/clock.ts';
import { makeDirectory } from '../../agent/src/machine/disk.ts';
import { exchange } from '../../agent/src/machine/http.ts';
import { createLog, errorText } from '../../agent/src/machine/log.ts';
import { localMachine } from '../../agent/src/machine/machine.ts';
import { filesOnDisk } from '../../agent/src/machine/mounted-files.ts';
import { identityFile } from '../../agent/src/state/identity.ts';
import { openSqliteDatabase } from '../../agent/src/state/sqlite-database.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { FromAgent, Settings, ToAgent } from './agents.ts';

const settings = JSON.parse(process.argv[2] ?? '') as Settings;
let skew = settings.skewMs;
const send = (message: FromAgent) => void process.send?.(message);
// Without the runner the engine's operations are not recorded, so the process ends.
process.on('disconnect', () => process.exit());

const steady = systemClock();
const clock: Clock = { ...steady, now: () => steady.now() + settings.skewMs, wall: () => Date.now() + skew };

let last = 0;
const calls = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
const streams = new Map<number, (event: EngineEvent | Error) => void>();

/** Short long polls, so that silence is noticed soon: the limit follows from the agent's `waitSeconds`. */
const HOLD_SECONDS = 5;

function call<T>(method: string, args: unknown[], signal?: AbortSignal): Promise<T> {
  const id = ++last;
  return new Promise<T>((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    calls.set(id, { resolve: resolve as never, reject });
    signal?.addEventListener('abort', () => {
      if (!calls.delete(id)) return;
      send({ abort: id });
      reject(signal.reason);
    });
    send({ call: id, method, args });
  });
}

function remoteEngine(instance: string): CompleteEngine {
  const simple =
    (method: string, count: number) =>
    (...args: unknown[]) =>
      call<never>(method, args.slice(0, count), args[count] as AbortSignal | undefined);
  return {
    url: 'history:',
    capabilities: ALL_CAPABILITIES,
    connect: (signal) => call('connect', [instance], signal),
    async containers(signal) {
      const found = await call<Container[]>('containers', [], signal);
      const present = new Set(found.flatMap(({ id, state }) => (state === 'running' ? [id] : [])));
      for (const id of running) if (!present.has(id)) ended(id);
      for (const id of present) running.add(id);
      return found;
    },
    foreignContainers: simple('foreignContainers', 0),
    containersOfOtherAgents: simple('containersOfOtherAgents', 0),
    allBinds: simple('allBinds', 0),
    become: () => {},
    network: simple('network', 0),
    ensureNetwork: simple('ensureNetwork', 0),
    removeNetwork: simple('removeNetwork', 0),
    image: simple('image', 1),
    pull: ({ onProgress: _, ...request }, signal) => call('pull', [request], signal),
    removeImage: simple('removeImage', 1),
    imageBytes: async () => 0,
    tag: simple('tag', 2),
    imageNames: simple('imageNames', 0),
    listImages: async () => [],
    imageUses: async () => [],
    loadImages: async () => {},
    resume: simple('resume', 1),
    create: simple('create', 1),
    async start(id, signal) {
      if (!startedAt.has(id)) startedAt.set(id, Date.now());
      endedAt.delete(id);
      await call('start', [id], signal);
      running.add(id);
    },
    processOf: simple('processOf', 1),
    async stop(id, grace, signal) {
      ended(id);
      await call('stop', [id, grace], signal);
    },
    async kill(id, posixSignal, signal) {
      ended(id);
      await call('kill', [id, posixSignal], signal);
    },
    rename: simple('rename', 2),
    remove: simple('remove', 1),
    checkHealth: simple('checkHealth', 2),
    logs: numbers,
    exec: async (id, options) => echo(id, options),
    endProgram: async () => {},
    async *events(signal) {
      const id = ++last;
      const waiting: (EngineEvent | Error)[] = [];
      let wake = () => {};
      streams.set(id, (event) => {
        waiting.push(event);
        wake();
      });
      signal.addEventListener('abort', () => wake(), { once: true });
      send({ listen: id });
      try {
        while (!signal.aborted) {
          const event = waiting.shift();
          if (event instanceof Error) throw event;
          if (event) yield event;
          else
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
        }
      } finally {
        streams.delete(id);
        send({ abort: id });
      }
    },
  };
}

/** Time between two lines of a log. */
const LINE_MS = 100;
const lineAt = (time: number) => Math.floor(time / LINE_MS);
const agentBegan = Date.now();
/** containers that run as far as is known here, and when each was started */
const running = new Set<string>();
const startedAt = new Map<string, number>();
/** when each was stopped: from then on the log of the next container of its microservice may have the lines */
const endedAt = new Map<string, number>();

function ended(id: string): void {
  if (running.delete(id)) endedAt.set(id, Date.now());
}

/** The log of a container has a line at each moment that it runs, and that is the number of the moment. */
async function* numbers(id: string, { tail, since = 0, until = Infinity, follow }: LogOptions, signal?: AbortSignal) {
  const first = lineAt(startedAt.get(id) ?? agentBegan) + 1;
  let next = Math.max(first, lineAt(Date.now()) - tail, Math.ceil(since / LINE_MS));
  while (!signal?.aborted && next * LINE_MS <= until) {
    if (next <= lineAt(Math.min(Date.now(), endedAt.get(id) ?? Infinity)))
      yield { ts: new Date(next * LINE_MS).toISOString(), stream: 'stdout' as const, line: String(next++) };
    else if (follow && running.has(id)) await sleep(LINE_MS);
    else return;
  }
}

/** A program that writes what it is given. */
function echo(id: string, options: ExecOptions): MemoryProgram {
  const program = new MemoryProgram(id, options);
  program.write = async (data) => program.print(Buffer.from(data));
  program.closeStdin = () => program.exit(0);
  return program;
}

const errorOf = ({ code, message }: { code: string; message: string }) =>
  new EngineError(code as EngineErrorCode, message);

process.on('message', (message: ToAgent) => {
  if ('answer' in message) {
    const waiting = calls.get(message.answer);
    calls.delete(message.answer);
    if (message.error) waiting?.reject(errorOf(message.error));
    else waiting?.resolve(message.value as never);
  } else if ('event' in message) {
    streams.get(message.event)?.(message.error ? errorOf(message.error) : (message.value as EngineEvent));
  } else if ('skewMs' in message) {
    skew = message.skewMs;
  } else if ('provision' in message) {
    agent.provision(message.provision).then(
      () => send({ provisioned: true }),
      (error: unknown) => send({ provisioned: false, error: errorText(error) }),
    );
  }
});

makeDirectory(settings.dir, 0o700);
const log = createLog(
  {
    level: 'INFO',
    write(entry) {
      process.stderr.write(`${JSON.stringify(entry)}\n`);
      const { step, reasonCode, containerId, name } = entry;
      if (typeof step === 'string' && typeof reasonCode === 'string')
        send({ step, subject: String(containerId ?? name), reason: reasonCode });
    },
  },
  () => clock.wall(),
);
const config = parseConfig(
  `statusFrequency: 5\nlocalApiPort: 0\ndiskDirectory: ${JSON.stringify(settings.dir)}\n`,
  join(settings.dir, 'config.yaml'),
);
const agent = createAgent(
  config,
  testDependencies({
    clock,
    log,
    engine: remoteEngine,
    database: openSqliteDatabase(join(settings.dir, 'agent.db'), clock.wall()).database,
    identity: identityFile(join(settings.dir, 'identity.json'), clock.wall, (path) =>
      log.error({ setAside: path }, 'The identity could not be read and was set aside'),
    ),
    machine: localMachine(settings.dir),
    mountedFiles: filesOnDisk(join(settings.dir, 'volumes')),
    transport: (request, limit) =>
      exchange({ ...request, path: request.path.replace(/\bwait=\d+/, `wait=${HOLD_SECONDS}`) }, limit),
  }),
);
send({ ready: true });
await agent.run(new AbortController().signal);
