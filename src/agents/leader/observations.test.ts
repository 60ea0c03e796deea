import { expect, test } from 'vitest';
import { mergeReport } from '../../subjects/nodes/rules/report.ts';
import type { ObservationDelta } from '../channel/dependencies.ts';
import { createObservations } from './observations.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const delta = (contactAt: number, extra: Partial<ObservationDelta> = {}): ObservationDelta => ({
  uuid: 'n',
  contactAt,
  waitSeconds: 0,
  ...extra,
});

function observe(...all: ObservationDelta[]) {
  const observations = createObservations(mergeReport);
  for (const one of all) observations.observe(one);
  return observations.get('n');
}

test('listeners get the state before and after, and no more once disposed', () => {
  const observations = createObservations(mergeReport);
  const observed: unknown[] = [];
  const subscription = observations.subscribe((uuid, now, before) =>
    observed.push([uuid, now.contactAt, before?.contactAt]),
  );
  observations.observe(delta(1));
  observations.observe(delta(2));
  subscription[Symbol.dispose]();
  observations.observe(delta(3));
  expect(observed).toEqual([
    ['n', 1, undefined],
    ['n', 2, 1],
  ]);
});

test('a report that comes late through another replica does not undo a later one', () => {
  const observed = observe(
    delta(20, { reportedAt: 20, report: { version: '2', cpuUsage: 2 } }),
    delta(10, { reportedAt: 10, report: { version: '1', diskUsage: 1 } }),
  );
  expect(observed).toMatchObject({
    reportedAt: 20,
    contactAt: 20,
    report: { version: '2', cpuUsage: 2, diskUsage: 1 },
  });
});

test('a long poll lasts until its end, whatever other replicas observe', () => {
  const armed = delta(100 * SECOND, { waitSeconds: 60 });
  const later = delta(130 * SECOND);
  expect(observe(armed, later)).toMatchObject({ contactAt: 130 * SECOND, waitSeconds: 30 });
  expect(observe(later, armed)).toMatchObject({ contactAt: 130 * SECOND, waitSeconds: 30 });
  expect(observe(armed, delta(170 * SECOND))).toMatchObject({ contactAt: 170 * SECOND, waitSeconds: 0 });
});

test('a newly provisioned agent inherits nothing of the former one', () => {
  const observed = observe(
    delta(10, { agent: '1', instance: 'old', reportedAt: 10, report: { version: '1' }, waitSeconds: 60 }),
    delta(20, { agent: '2', instance: 'new', isReset: true }),
  );
  expect(observed).toEqual({
    report: {},
    contactAt: 20,
    waitSeconds: 0,
    agent: '2',
    instances: { new: { seenAt: 20 } },
    sentRevisions: {},
  });
});

test('a revision that is sent again keeps the time of the first response', () => {
  const given = (revision: string, at: number) => ({
    sentRevisions: { m: { revision, imageId: 'i', at, rebuildCount: 0 } },
  });
  expect(observe(delta(1, given('a', 1)), delta(2, given('a', 2)))?.sentRevisions.m?.at).toBe(1);
  expect(observe(delta(1, given('a', 1)), delta(2, given('b', 2)))?.sentRevisions.m).toMatchObject({
    revision: 'b',
    at: 2,
  });
  expect(observe(delta(1, given('a', 1)), delta(2, { sentRevisions: {} }))?.sentRevisions).toEqual({});
});

const sequences: Record<string, { observed: [number, string, string][]; wants: string[] }> = {
  'one installation': {
    observed: [
      [0, 'i', 'a'],
      [1, 'i', 'a'],
    ],
    wants: ['i'],
  },
  'a restart': {
    observed: [
      [0, 'i', 'a'],
      [1, 'i', 'b'],
      [2, 'i', 'b'],
    ],
    wants: ['i'],
  },
  'two installations with one identity': {
    observed: [
      [0, 'i', 'a'],
      [1, 'j', 'b'],
      [2, 'i', 'a'],
    ],
    wants: ['i', 'j'],
  },
  'two machines from one disk image': {
    observed: [
      [0, 'i', 'a'],
      [1, 'i', 'b'],
      [2, 'i', 'a'],
      [3, 'i', 'b'],
    ],
    wants: ['i', 'i#a'],
  },
  'a former boot that comes late through another replica': {
    observed: [
      [0, 'i', 'a'],
      [2, 'i', 'b'],
      [1, 'i', 'a'],
      [3, 'i', 'b'],
    ],
    wants: ['i'],
  },
  'more boots than are remembered, of which the first returns': {
    observed: [
      ...Array.from({ length: 34 }, (_, i): [number, string, string] => [i / 60, 'i', `b${i}`]),
      [1, 'i', 'b0'],
    ],
    wants: ['i'],
  },
  'an installation without contact for a long time': {
    observed: [
      [0, 'i', 'a'],
      [11, 'j', 'b'],
    ],
    wants: ['j'],
  },
};

test.for(Object.entries(sequences))('instances of one node: %s', ([, { observed, wants }]) => {
  const observation = observe(...observed.map(([at, instance, boot]) => delta(at * MINUTE, { instance, boot })));
  expect(Object.keys(observation?.instances ?? {}).sort()).toEqual(wants);
});
