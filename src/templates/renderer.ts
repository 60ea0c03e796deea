import type { ChildProcess } from 'node:child_process';
import type { Renderer, Rendering, RenderOptions } from '../rules/renderer.ts';
import { renderInChild, startChild } from './child.ts';

type Json = Record<string, unknown>;

export interface RendererOptions {
  /** for one document, from its turn on */
  timeMs?: number;
  heapMiB?: number;
  /** documents of one caller that may wait */
  queue?: number;
  /** after which an idle child ends */
  idleMs?: number;
  /** the error for a caller with a full queue */
  refuse?: () => Error;
}

const DEFAULTS = {
  timeMs: 3_000,
  heapMiB: 64,
  queue: 16,
  idleMs: 60_000,
  refuse: () => new Error('too many documents of this caller are waiting'),
};

interface Job {
  rendering: Rendering;
  options: RenderOptions;
  resolve(document: Json): void;
  reject(error: unknown): void;
}

/**
 * Renders documents in a child process, since no limit within a process holds against every expression: a text can need any
 * time and memory. The child has a limited heap, no environment and no access to files, and is killed when a document takes too
 * long. It renders one document at a time, callers in turn, so that one of them delays another by one document.
 */
export function createRenderer(given: RendererOptions = {}): Renderer & Disposable {
  const { timeMs, heapMiB, queue, idleMs, refuse } = { ...DEFAULTS, ...given };
  /** waiting jobs by caller, in the order of their turns */
  const waiting = new Map<string, Job[]>();
  let child: ChildProcess | undefined;
  let isBusy = false;
  let idle: NodeJS.Timeout | undefined;

  function take(): Job | undefined {
    for (const [caller, [job, ...rest]] of waiting) {
      waiting.delete(caller);
      if (rest.length > 0) waiting.set(caller, rest);
      return job;
    }
    return undefined;
  }

  async function run({ rendering, options }: Job): Promise<Json> {
    options.signal.throwIfAborted();
    if (!child?.connected || child.killed) child = await startChild(heapMiB);
    return renderInChild(child, rendering, options, Math.min(timeMs, options.timeMs ?? timeMs));
  }

  async function runAll(): Promise<void> {
    if (isBusy) return;
    isBusy = true;
    clearTimeout(idle);
    for (let job = take(); job; job = take()) await run(job).then(job.resolve, job.reject);
    isBusy = false;
    idle = setTimeout(end, idleMs).unref();
  }

  function end(): void {
    child?.kill('SIGKILL');
    child = undefined;
  }

  return {
    async render(rendering, options) {
      const own = waiting.get(options.caller) ?? [];
      if (own.length >= queue) throw refuse();
      return new Promise((resolve, reject) => {
        waiting.set(options.caller, [...own, { rendering, options, resolve, reject }]);
        void runAll();
      });
    },
    [Symbol.dispose]() {
      clearTimeout(idle);
      end();
    },
  };
}
