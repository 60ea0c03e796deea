import { describe, expect, test } from 'vitest';
import type { Trial, UpdateState } from './program.ts';
import { decideStart, endLateTrial, MAX_STARTS, type UpdateStep } from './trial.ts';

const trial = (change: Partial<Trial> = {}): Trial => ({
  version: '2.0.0',
  from: '1.0.0',
  digest: 'd2',
  action: 'a1',
  starts: 0,
  ...change,
});
const BOTH = ['1.0.0', '2.0.0'];

/** What a step leaves on the disk. */
function apply(steps: readonly UpdateStep[], disk: { state: UpdateState; current: string | undefined }) {
  for (const step of steps) {
    if ('save' in step) disk.state = step.save;
    else disk.current = step.switchTo;
  }
  return disk;
}

describe('decideStart', () => {
  test('without a trial the release that the link names is started', () => {
    expect(decideStart({ bad: {} }, '1.0.0', BOTH)).toEqual({ steps: [], version: '1.0.0', isTrial: false });
  });

  test.each([
    ['there is no link', undefined],
    ['the link names a release that is not complete', '3.0.0'],
  ])('when %s, the release before it is started', (_, current) => {
    const decision = decideStart({ bad: {}, previous: '1.0.0' }, current, BOTH);
    expect(decision).toEqual({ steps: [{ switchTo: '1.0.0' }], version: '1.0.0', isTrial: false });
  });

  test('without a link and a former release, the newest release that has not failed is started', () => {
    const complete = ['1.0.0', '1.10.0', '1.9.0', '2.0.0'];
    const bad = { '2.0.0': { digest: 'd', reason: 'r' } };
    expect(decideStart({ bad }, undefined, complete).version).toBe('1.10.0');
    expect(decideStart({ bad }, undefined, ['2.0.0']).version).toBe('2.0.0');
    expect(decideStart({ bad }, undefined, []).version).toBeUndefined();
  });

  test('each start of a trial is counted before it happens', () => {
    const decision = decideStart({ bad: {}, trial: trial({ starts: 1 }) }, '2.0.0', BOTH);
    expect(decision).toMatchObject({ version: '2.0.0', isTrial: true });
    expect(decision.steps).toEqual([{ save: { bad: {}, trial: trial({ starts: 2 }) } }]);
  });

  test('a trial whose switch did not happen is forgotten, and its action is not done', () => {
    const decision = decideStart({ bad: {}, trial: trial() }, '1.0.0', BOTH);
    expect(decision).toEqual({ steps: [{ save: { bad: {} } }], version: '1.0.0', isTrial: false });
  });

  test('after three starts the former release runs again, and the release is remembered as bad', () => {
    const disk = { state: { bad: {}, trial: trial({ starts: MAX_STARTS }) }, current: '2.0.0' };
    const { version, isTrial, steps } = decideStart(disk.state, disk.current, BOTH);
    expect({ version, isTrial }).toEqual({ version: '1.0.0', isTrial: false });
    const reason = 'it ended 3 times before a report of it was confirmed';
    expect(apply(steps, disk)).toEqual({
      current: '1.0.0',
      state: {
        bad: { '2.0.0': { digest: 'd2', reason } },
        failure: { version: '2.0.0', reason, runs: '1.0.0' },
        finished: 'a1',
      },
    });
  });

  test('a release that took too long gives way to another one, and is not remembered as bad', () => {
    const late = endLateTrial({ bad: {}, trial: trial({ starts: MAX_STARTS }) });
    for (const [complete, next] of [
      [BOTH, '1.0.0'],
      [['2.0.0', '1.9.0'], '1.9.0'],
    ] as const) {
      const { version, steps } = decideStart(late, '2.0.0', complete);
      const { current, state } = apply(steps, { state: late, current: '2.0.0' });
      expect({ version, current }).toEqual({ version: next, current: next });
      const reason = 'no report of it was confirmed within 10 minutes';
      expect(state).toEqual({ bad: {}, failure: { version: '2.0.0', reason, runs: next }, finished: 'a1' });
    }
  });

  test.each([
    ['a trial that is out of starts', { bad: {}, trial: trial({ starts: MAX_STARTS }) }, ['2.0.0']],
    ['a trial that took too long', endLateTrial({ bad: {}, trial: trial({ starts: 1 }) }), []],
  ])('a loss of power at any moment while %s is given up ends at the former release', (_, state, bad) => {
    const { steps } = decideStart(state, '2.0.0', BOTH);
    for (let done = 0; done <= steps.length; done++) {
      const disk = apply(steps.slice(0, done), { state, current: '2.0.0' });
      const next = decideStart(disk.state, disk.current, BOTH);
      expect(next).toMatchObject({ version: '1.0.0', isTrial: false });
      const end = apply(next.steps, disk);
      expect(end.current).toBe('1.0.0');
      expect(Object.keys(end.state.bad)).toEqual(bad);
      expect(end.state).toMatchObject({ finished: 'a1' });
      expect(end.state.trial).toBeUndefined();
    }
  });
});
