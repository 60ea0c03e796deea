import { describe, expect, test } from 'vitest';
import { silentLog } from '../../../../src/lib/log.ts';
import type { Step, StepOf } from '../../domain/step.ts';
import { VirtualClock } from '../../machine/_virtual-clock.ts';
import type { Ended } from './executors.ts';
import { StepScheduler } from './step-scheduler.ts';

const stop = (uuid: string): Step => ({ kind: 'stop', uuid, target: '', containerId: uuid, reason: 'NoLongerWanted' });
const pull = (uuid: string, reference = 'a:1'): StepOf<'image'> => ({
  kind: 'image',
  uuid,
  target: '',
  reference,
  registryId: 1,
  platform: '',
  rebuildCount: 0,
  policy: 'fresh',
  pull: { reference },
  instance: 'i',
});
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A scheduler whose steps the test ends. */
function createFixture() {
  const began: string[] = [];
  const ended: string[] = [];
  const counted: string[] = [];
  const endings = new Map<Step, (result: Ended) => void>();
  const clock = new VirtualClock();
  const aborted: string[] = [];
  let wakes = 0;
  const name = (step: Step) => `${step.kind} ${'uuid' in step ? step.uuid : ''}`;
  const scheduler = new StepScheduler({
    clock,
    random: () => 0.5,
    log: silentLog,
    metrics: { add: (metric, { outcome, reason }) => counted.push(`${metric} ${outcome ?? reason}`) },
    execute: (step, onProgress, signal) =>
      new Promise((resolve) => {
        onProgress(40);
        endings.set(step, resolve);
        signal.addEventListener('abort', () => {
          aborted.push(name(step));
          resolve('aborted');
        });
      }),
    begins: (step) => began.push(name(step)),
    ended: (step, { ok }) => ended.push(`${name(step)} ${ok}`),
    progressed: () => {},
    wake: () => void wakes++,
  });
  const end = async (step: Step, result: Ended = { ok: true }) => {
    endings.get(step)?.(result);
    await settled();
  };
  return {
    ...{ scheduler, clock, began, ended, counted, aborted, end, signal: new AbortController().signal },
    get wakes() {
      return wakes;
    },
  };
}

test('steps with one serial key are carried out one after another', async () => {
  const { scheduler, began, end, signal } = createFixture();
  const [first, again] = [stop('a'), stop('a')];
  scheduler.begin([first], signal);
  scheduler.begin([again], signal);
  expect(began).toEqual(['stop a']);
  await end(first);
  scheduler.begin([again], signal);
  expect(began).toEqual(['stop a', 'stop a']);
});

test('at most four steps are carried out at once, and pulls do not count', () => {
  const { scheduler, began, signal } = createFixture();
  scheduler.begin(
    [...'abcdef'].flatMap((uuid) => [pull(uuid), stop(uuid)]),
    signal,
  );
  expect(began.filter((name) => name.startsWith('image'))).toHaveLength(6);
  expect(began.filter((name) => name.startsWith('stop'))).toEqual(['stop a', 'stop b', 'stop c', 'stop d']);
});

test('an image is pulled while another step of its microservice is carried out', () => {
  const { scheduler, signal } = createFixture();
  scheduler.begin([pull('a'), stop('a')], signal);
  expect(scheduler.keys).toEqual(['a/image', 'a']);
  expect(scheduler.find('a/image')?.percentage).toBe(40);
});

test('a pull that is no longer in the plan is aborted, and one that still is continues', () => {
  const { scheduler, aborted, signal } = createFixture();
  scheduler.begin([pull('a'), pull('b')], signal);
  scheduler.begin([pull('a'), pull('b', 'a:2')], signal);
  expect(aborted).toEqual(['image b']);
  scheduler.begin([], signal);
  expect(aborted).toEqual(['image b', 'image a']);
});

test('the result of a step is recorded, unless the engine was unavailable', async () => {
  const { scheduler, clock, ended, counted, end, signal } = createFixture();
  const steps = [stop('a'), stop('b'), stop('c')] as const;
  scheduler.begin(steps, signal);
  await end(steps[0]);
  await end(steps[1], { ok: false, code: 'Failed', reason: 'StopFailed', message: 'no' });
  await end(steps[2], 'unavailable');
  await clock.advance(1000);
  expect(ended).toEqual(['stop a true', 'stop b false']);
  expect(counted).toEqual(['steps ok', 'steps failed', 'steps given-up']);
  expect(scheduler.ended).toBe(3);
});

describe('a step that the engine does not answer', () => {
  /** The step of the engine that answers looks alone. */
  async function unanswered(fixture: ReturnType<typeof createFixture>) {
    const step = stop('a');
    fixture.scheduler.begin([step], fixture.signal);
    await fixture.end(step, 'unavailable');
  }

  test('is tried again after pauses that grow, and has the look at once that finds a lost engine', async () => {
    const fixture = createFixture();
    const { scheduler, clock, signal } = fixture;
    const pauses: number[] = [];
    for (let attempt = 0; attempt < 5; attempt++) {
      await unanswered(fixture);
      expect([fixture.wakes, scheduler.keys]).toEqual([2 * attempt + 1, ['a']]);
      scheduler.begin([stop('a')], signal);
      const before = clock.now();
      while (scheduler.keys.length > 0) await clock.advance(100);
      pauses.push(clock.now() - before);
    }
    expect(fixture.began).toHaveLength(5);
    expect(pauses).toEqual([1000, 2000, 4000, 5000, 5000]);
  });

  test('is paused for the first time again once the engine answered it, and where it was out of the plan', async () => {
    for (const forget of ['answer', 'leave out'] as const) {
      const fixture = createFixture();
      const { scheduler, clock, signal, end } = fixture;
      await unanswered(fixture);
      await clock.advance(1000);
      if (forget === 'leave out') scheduler.begin([], signal);
      else {
        const step = stop('a');
        scheduler.begin([step], signal);
        await end(step);
      }
      await unanswered(fixture);
      await clock.advance(1000);
      expect(scheduler.keys, forget).toEqual([]);
    }
  });

  test('takes no turn from others while it is paused', async () => {
    const { scheduler, began, end, signal } = createFixture();
    const silent = [...'abcd'].map(stop);
    scheduler.begin(silent, signal);
    for (const step of silent) await end(step, 'unavailable');
    scheduler.begin([stop('e')], signal);
    expect(began.at(-1)).toBe('stop e');
  });

  test('is over at once when the session ends', async () => {
    const fixture = createFixture();
    await unanswered(fixture);
    fixture.scheduler.abort(() => true);
    await settled();
    expect(fixture.scheduler.keys).toEqual([]);
  });
});

test('the end of the session aborts its steps', async () => {
  const { scheduler, aborted } = createFixture();
  const session = new AbortController();
  scheduler.begin([stop('a')], session.signal);
  session.abort();
  await settled();
  expect(aborted).toEqual(['stop a']);
  expect(scheduler.keys).toEqual([]);
});

test('no step of a microservice begins during exclusive work on it, and steps begin again when that fails', async () => {
  const { scheduler, began, signal } = createFixture();
  let fail = (_error: Error) => {};
  const done = scheduler.exclusively('a', () => new Promise((_resolve, reject) => (fail = reject)));
  scheduler.begin([stop('a')], signal);
  expect(began).toEqual([]);
  fail(new Error('no engine'));
  await expect(done).rejects.toThrow('no engine');
  expect(scheduler.ended).toBe(1);
  scheduler.begin([stop('a')], signal);
  expect(began).toEqual(['stop a']);
});
