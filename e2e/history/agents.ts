import { type ChildProcess, fork } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { EngineError } from '../../agent/src/engine-port/error.ts';
import type { TestEngine } from '../../agent/src/engines/_outside.ts';
import { createEngineHost, type EngineHost, type EngineMethod } from './engine-host.ts';
import type { EngineRecord } from './history.ts';

/** What an agent's process gets at its start. */
export interface Settings {
  dir: string;
  /** offset of its clock at its start */
  skewMs: number;
}

export type FromAgent =
  | { call: number; method: string; args: unknown[] }
  | { listen: number }
  | { abort: number }
  | { step: string; subject: string; reason: string }
  | { provisioned: boolean; error?: string }
  | { ready: true };

export type ToAgent =
  | { answer: number; value?: unknown; error?: { code: string; message: string } }
  | { event: number; value?: unknown; error?: { code: string; message: string } }
  | { skewMs: number }
  | { provision: string };

/** One machine of a story: an engine that keeps running, and an agent that is killed and started again. */
export interface Machine extends AsyncDisposable {
  readonly name: string;
  readonly engine: EngineHost;
  readonly runs: boolean;
  start(): Promise<void>;
  /** Kills the agent's process, as a power cut would. */
  kill(): void;
  /** Deletes its database, as if it were damaged; only while the agent does not run. */
  forget(): void;
  provision(joinString: string): Promise<void>;
  /** Sets the offset of the machine's clock. */
  setClock(skewMs: number): void;
}

export interface MachineOptions {
  name: string;
  dir: string;
  /** in memory when absent */
  real?: TestEngine;
  record(entry: Omit<EngineRecord, 'at' | 'node'>): void;
  /** called when the fault that kills the agent at a step has done so */
  onKilledAtStep(): void;
  colourOf(reference: string): string;
}

export function createMachine(options: MachineOptions): Machine {
  const { name, dir } = options;
  let child: ChildProcess | undefined;
  let skewMs = 0;
  mkdirSync(dir, { recursive: true });
  const engine = createEngineHost({
    node: name,
    real: options.real,
    record: options.record,
    colourOf: options.colourOf,
    killAgent: () => {
      kill();
      options.onKilledAtStep();
    },
  });
  let said: { resolve: () => void; reject: (error: Error) => void } | undefined;

  function kill(): void {
    child?.kill('SIGKILL');
    child = undefined;
  }

  async function start(): Promise<void> {
    if (child) return;
    const log = openSync(join(dir, 'agent.log'), 'a');
    const settings: Settings = { dir, skewMs };
    const own = fork(join(import.meta.dirname, 'agent-process.ts'), [JSON.stringify(settings)], {
      execArgv: [],
      serialization: 'advanced',
      stdio: ['ignore', log, log, 'ipc'],
    });
    closeSync(log);
    child = own;
    const pending = new Map<number, AbortController>();
    const streams = new Set<AbortController>();
    const send = (message: ToAgent) => {
      if (own === child && own.connected) own.send(message, () => {});
    };
    own.on('exit', () => {
      if (child === own) child = undefined;
      // What it had requested of the engine is carried out all the same, and recorded.
      for (const each of streams) each.abort();
    });
    own.on('message', (message: FromAgent) => {
      // Messages that a killed process still sent are ignored.
      if (own !== child) return;
      if ('call' in message) void answer(message);
      else if ('listen' in message) void stream(message.listen);
      else if ('abort' in message) pending.get(message.abort)?.abort();
      else if ('step' in message) engine.announce(message.step, message.subject, message.reason);
      else if ('provisioned' in message) {
        if (message.provisioned) said?.resolve();
        else said?.reject(new Error(message.error));
      }
    });

    async function answer({ call, method, args }: { call: number; method: string; args: unknown[] }): Promise<void> {
      const abort = new AbortController();
      pending.set(call, abort);
      try {
        const value = await engine.call(method as EngineMethod, args, abort.signal);
        send({ answer: call, value });
      } catch (error) {
        send({ answer: call, error: plainError(error) });
      } finally {
        pending.delete(call);
      }
    }

    async function stream(id: number): Promise<void> {
      const abort = new AbortController();
      pending.set(id, abort);
      streams.add(abort);
      try {
        for await (const value of engine.events(abort.signal)) send({ event: id, value });
      } catch (error) {
        if (!abort.signal.aborted) send({ event: id, error: plainError(error) });
      } finally {
        streams.delete(abort);
        pending.delete(id);
      }
    }

    await new Promise<void>((resolve, reject) => {
      own.once('exit', (code, signal) => {
        if (own === child && !signal)
          reject(new Error(`the agent of ${name} ended with ${code}; see ${dir}/agent.log`));
        else resolve();
      });
      own.on('message', (message: FromAgent) => 'ready' in message && resolve());
    });
  }

  return {
    name,
    engine,
    get runs() {
      return child !== undefined;
    },
    start,
    kill,
    forget() {
      for (const suffix of ['', '-wal', '-shm']) rmSync(join(dir, `agent.db${suffix}`), { force: true });
    },
    provision: (joinString) =>
      new Promise((resolve, reject) => {
        said = { resolve, reject };
        child?.send({ provision: joinString } satisfies ToAgent);
      }),
    setClock(next) {
      skewMs = next;
      child?.send({ skewMs } satisfies ToAgent);
    },
    async [Symbol.asyncDispose]() {
      kill();
      await engine.leave();
    },
  };
}

function plainError(error: unknown): { code: string; message: string } {
  const { message } = error as Error;
  return { code: error instanceof EngineError ? error.code : 'Failed', message };
}
