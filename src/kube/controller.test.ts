import { describe, expect, onTestFinished, test } from 'vitest';
import type { Log } from '../lib/log.ts';
import { CONFIG_MAPS, type ConfigMap, createVirtualClock, makeConfigMap, settle } from './_util.ts';
import { ApiError } from './api-error.ts';
import { both, type ControllerOptions, createController, type ReconcileContext, watching } from './controller.ts';
import { done, type Outcome, requeueAfter } from './outcome.ts';
import { createStore } from './store.ts';

/** A controller of one store; the test gives the result of each run by `reconcile`. */
function makeController(
  reconcile: (key: string, context: ReconcileContext) => Promise<Outcome> = async () => done(),
  options: Partial<ControllerOptions> = {},
) {
  const clock = createVirtualClock();
  const store = createStore<ConfigMap>({ resource: CONFIG_MAPS });
  const runs: { key: string; at: number; attempt: number }[] = [];
  const outcomes: string[] = [];
  const logged: string[] = [];
  const write = (level: string) => (_fields: object, message: string) => logged.push(`${level} ${message}`);
  const log: Log = {
    debug: () => {},
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    child: () => log,
  };
  const controller = createController({
    name: 'test',
    watches: [watching(store)],
    clock,
    log,
    random: () => 0,
    backoff: { baseMs: 100, factor: 2, maxMs: 10_000, jitter: 0 },
    metrics: { reconciled: ({ outcome }) => outcomes.push(outcome) },
    reconcile: (key, context) => {
      runs.push({ key, at: clock.now(), attempt: context.attempt });
      return reconcile(key, context);
    },
    ...options,
  });
  const stop = new AbortController();
  const running = controller.run(stop.signal);
  onTestFinished(() => controller[Symbol.asyncDispose]());
  const keys = () => runs.map((run) => run.key);
  const end = () => {
    stop.abort();
    return running;
  };
  return { controller, clock, store, runs, outcomes, logged, keys, stop: end };
}

describe('a controller', () => {
  test('starts no run before all stores that it watches are synced', async () => {
    const other = createStore<ConfigMap>({ resource: CONFIG_MAPS });
    const own = createStore<ConfigMap>({ resource: CONFIG_MAPS });
    const { keys } = makeController(async () => done(), {
      watches: [watching(own), watching(other, () => [])],
    });
    own.swap([makeConfigMap('a', 1)], '5');
    await settle();
    expect(keys()).toEqual([]);
    other.swap([], '5');
    await settle();
    expect(keys()).toEqual(['test/a']);
  });

  test('reconciles existing objects, then changed, added and removed ones', async () => {
    const { store, keys } = makeController();
    store.swap([makeConfigMap('a', 1)], '5');
    await settle();
    store.set(makeConfigMap('a', 6));
    await settle();
    store.set(makeConfigMap('b', 7));
    await settle();
    store.remove(makeConfigMap('a', 8));
    await settle();
    expect(keys()).toEqual(['test/a', 'test/a', 'test/b', 'test/a']);
  });

  test('reconciles changed objects before those that existed at the start', async () => {
    const { promise: gate, resolve: openGate } = Promise.withResolvers<void>();
    const { store, keys, controller } = makeController(
      async () => {
        await gate;
        return done();
      },
      { concurrency: 1 },
    );
    store.swap(
      ['a', 'b', 'c'].map((name) => makeConfigMap(name, 1)),
      '5',
    );
    await settle();
    store.set(makeConfigMap('changed', 6));
    openGate();
    await controller.whenIdle();
    expect(keys()).toEqual(['test/a', 'test/changed', 'test/b', 'test/c']);
  });

  test('maps a change of another object to the keys of its former and its new state', async () => {
    const other = createStore<ConfigMap>({ resource: CONFIG_MAPS });
    const pointing = (at: number, to: string) => makeConfigMap('pointer', at, { labels: { to } });
    const { keys } = makeController(async () => done(), {
      watches: [
        watching(
          other,
          both((object) => [object.metadata.labels?.to ?? '']),
        ),
      ],
    });
    other.swap([pointing(1, 'x')], '5');
    await settle();
    other.set(pointing(6, 'y'));
    await settle();
    expect(keys().sort()).toEqual(['x', 'x', 'y']);
  });

  const outcomes: Record<string, { outcome: Outcome; want: number[] }> = {
    'schedules no run after done': { outcome: done(), want: [0] },
    'schedules a run after the delay of requeue': { outcome: requeueAfter(20_000), want: [0, 20_000, 40_000, 60_000] },
  };
  test.each(Object.entries(outcomes))('%s', async (_name, { outcome, want }) => {
    const { store, clock, runs, outcomes } = makeController(async () => outcome);
    const start = clock.now();
    store.swap([makeConfigMap('a', 1)], '5');
    await clock.advance(60_000);
    expect(runs.map((run) => run.at - start)).toEqual(want);
    expect(new Set(outcomes)).toEqual(new Set([outcome.type]));
  });

  test('retries a run that throws with growing delays and a count of attempts, which a success resets', async () => {
    let failing = true;
    const { store, clock, runs } = makeController(async () => {
      if (failing) throw new Error('no');
      return done();
    });
    store.swap([makeConfigMap('a', 1)], '5');
    await clock.advance(700);
    expect(runs.map((run) => run.at - 1_000)).toEqual([0, 100, 300, 700]);
    expect(runs.map((run) => run.attempt)).toEqual([1, 2, 3, 4]);
    failing = false;
    await clock.advance(800);
    expect(runs.at(-1)).toMatchObject({ at: 2_500, attempt: 5 });
    store.set(makeConfigMap('a', 6));
    await settle();
    expect(runs.at(-1)).toMatchObject({ attempt: 1 });
  });

  const failures: Record<string, { error: Error; kind: string; logs: string[] }> = {
    'logs nothing for a conflict': {
      error: new ApiError(409, { reason: 'Conflict' }, 'patch'),
      kind: 'conflict',
      logs: [],
    },
    'logs a warning for a failure': { error: new Error('no'), kind: 'error', logs: ['warn Reconcile failed'] },
    'logs an error for a bug': {
      error: new TypeError('x is undefined'),
      kind: 'bug',
      logs: ['error Reconcile has a bug'],
    },
  };
  test.each(Object.entries(failures))('%s', async (_name, { error, kind, logs }) => {
    const { store, outcomes, logged } = makeController(async () => {
      throw error;
    });
    store.swap([makeConfigMap('a', 1)], '5');
    await settle();
    expect(outcomes).toEqual([kind]);
    expect(logged.filter((line) => !line.startsWith('info'))).toEqual(logs);
  });

  test('aborts the signal of a run at its deadline, and counts as overdue a run that does not end', async () => {
    const { promise: never, resolve: end } = Promise.withResolvers<void>();
    const signals: AbortSignal[] = [];
    const { store, clock, keys, controller } = makeController(
      async (_key, { signal }) => {
        signals.push(signal);
        await never;
        return done();
      },
      { deadlineMs: 10_000 },
    );
    store.swap([makeConfigMap('a', 1)], '5');
    await clock.advance(9_999);
    expect(signals[0]?.aborted).toBe(false);
    await clock.advance(1);
    expect(signals[0]?.aborted).toBe(true);
    store.set(makeConfigMap('a', 6));
    await clock.advance(10_000);
    expect([keys(), controller.overdue]).toEqual([['test/a'], 1]);
    end();
    await settle();
    expect([keys(), controller.overdue]).toEqual([['test/a', 'test/a'], 0]);
  });

  test('ends after its last run when its signal aborts, and can start again', async () => {
    const { store, keys, stop, controller } = makeController(
      (_key, { signal }) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    );
    store.swap([makeConfigMap('a', 1)], '5');
    await settle();
    await stop();
    store.set(makeConfigMap('a', 6));
    await settle();
    expect(keys()).toEqual(['test/a']);
    const again = new AbortController();
    const running = controller.run(again.signal);
    await settle();
    expect(keys()).toEqual(['test/a', 'test/a']);
    again.abort();
    await running;
  });

  test('runs a key that was enqueued, after its delay', async () => {
    const { store, clock, keys, controller } = makeController();
    store.swap([], '5');
    await settle();
    controller.enqueue('x', { afterMs: 1_000 });
    await clock.advance(999);
    expect(keys()).toEqual([]);
    await clock.advance(1);
    expect(keys()).toEqual(['x']);
  });
});
