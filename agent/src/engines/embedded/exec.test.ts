import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { EngineError } from '../../engine-port/error.ts';
import type { Containerd } from './client.ts';
import { endContainerExec, exitOf, startContainerExec } from './exec.ts';
import { specBytes } from './runtime-spec.ts';
import { CONTAINERD, TASK_STATES } from './wire/containerd.ts';

const target = { containerId: 'c', execId: 'e' };
const [HANGUP, KILL] = [1, 9];

/** A containerd with one program, which one signal ends. */
class OneProgram {
  readonly signals: number[] = [];
  isRunning = true;
  readonly #endsBy: number;

  constructor(endsBy: number) {
    this.#endsBy = endsBy;
  }

  async call(method: unknown, request: { execId?: string; signal?: number }, options?: { signal?: AbortSignal }) {
    if (method === CONTAINERD.kill) {
      this.signals.push(Number(request.signal));
      if (request.signal === this.#endsBy) this.isRunning = false;
      return {};
    }
    if (method === CONTAINERD.getContainer) return { container: { spec: { value: specBytes({ process: {} }) } } };
    if (method === CONTAINERD.startProcess) options?.signal?.throwIfAborted();
    if (method !== CONTAINERD.getProcess) return {};
    if (request.execId === '' || !this.isRunning) throw new EngineError('NotFound', 'no such process');
    return { process: { pid: 4_000_000, status: TASK_STATES.running } };
  }
}
const as = (containerd: { call: unknown }) => containerd as unknown as Containerd;

describe('a program that is to end', () => {
  test.each([
    ['with a hangup', HANGUP, [HANGUP]],
    ['by force where it ignores the hangup', KILL, [HANGUP, KILL]],
  ])('ends %s, through containerd', async (_how, endsBy, signals) => {
    const containerd = new OneProgram(endsBy);
    await endContainerExec(as(containerd), target, 100);
    expect([containerd.signals, containerd.isRunning]).toEqual([signals, false]);
  });

  test('is not left behind where its start was called off when it had started', async () => {
    const containerd = new OneProgram(HANGUP);
    const context = { containerd: as(containerd), directory: temporaryFolder(), container: 'c' };
    const stop = new AbortController();
    const made = () => stop.abort(new RangeError('called off'));
    const options = { command: ['sleep'], tty: false };
    await expect(startContainerExec(context, options, made, stop.signal)).rejects.toThrow('called off');
    expect(containerd.isRunning).toBe(false);
  });
});

describe('the exit code of a program', () => {
  const away = new EngineError('Unavailable', 'containerd is away');
  const answering = (...answers: (EngineError | number)[]) =>
    as({
      call: async () => {
        const next = answers.shift();
        if (typeof next === 'number') return { exitStatus: next };
        throw next;
      },
    });

  test('is known when containerd was away meanwhile', async () => {
    expect(await exitOf(answering(away, away, 7), target, () => true)).toBe(7);
  });

  test('is unknown where containerd is away and the pipes are closed, or does not know the program', async () => {
    expect(await exitOf(answering(away, 7), target, () => false)).toBeUndefined();
    expect(await exitOf(answering(new EngineError('NotFound', 'no'), 7), target, () => true)).toBeUndefined();
  });
});
