import { expect, test } from 'vitest';
import { mergeReport } from '../../domain/index.ts';
import type { NodeNews } from '../dependencies.ts';
import { createObservations } from './observations.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const news = (contactAt: number, extra: Partial<NodeNews> = {}): NodeNews => ({
  uuid: 'n',
  contactAt,
  holdSeconds: 0,
  ...extra,
});

function hearing(...all: NodeNews[]) {
  const observations = createObservations(mergeReport);
  for (const one of all) observations.hear(one);
  return observations.get('n');
}

test('listeners get the state before and after, and no more once disposed', () => {
  const observations = createObservations(mergeReport);
  const heard: unknown[] = [];
  const subscription = observations.subscribe((uuid, now, before) =>
    heard.push([uuid, now.contactAt, before?.contactAt]),
  );
  observations.hear(news(1));
  observations.hear(news(2));
  subscription[Symbol.dispose]();
  observations.hear(news(3));
  expect(heard).toEqual([
    ['n', 1, undefined],
    ['n', 2, 1],
  ]);
});

test('a report that comes late through another replica does not undo a later one', () => {
  const observed = hearing(
    news(20, { reportedAt: 20, report: { version: '2', cpuUsage: 2 } }),
    news(10, { reportedAt: 10, report: { version: '1', diskUsage: 1 } }),
  );
  expect(observed).toMatchObject({
    reportedAt: 20,
    contactAt: 20,
    report: { version: '2', cpuUsage: 2, diskUsage: 1 },
  });
});

test('a hold lasts until its end, whatever else is heard through other replicas', () => {
  const armed = news(100 * SECOND, { holdSeconds: 60 });
  const later = news(130 * SECOND);
  expect(hearing(armed, later)).toMatchObject({ contactAt: 130 * SECOND, holdSeconds: 30 });
  expect(hearing(later, armed)).toMatchObject({ contactAt: 130 * SECOND, holdSeconds: 30 });
  expect(hearing(armed, news(170 * SECOND))).toMatchObject({ contactAt: 170 * SECOND, holdSeconds: 0 });
});

test('an agent that took the identity anew is not taken for the former one', () => {
  const observed = hearing(
    news(10, { agent: '1', instance: 'old', reportedAt: 10, report: { version: '1' }, holdSeconds: 60 }),
    news(20, { agent: '2', instance: 'new', anew: true }),
  );
  expect(observed).toEqual({
    report: {},
    contactAt: 20,
    holdSeconds: 0,
    agent: '2',
    instances: { new: { seenAt: 20 } },
    handedOut: {},
  });
});

test('a revision that is handed out again keeps the time at which it first was', () => {
  const given = (revision: string, at: number) => ({
    handedOut: { m: { revision, imageId: 'i', at, rebuildOrder: 0 } },
  });
  expect(hearing(news(1, given('a', 1)), news(2, given('a', 2)))?.handedOut.m?.at).toBe(1);
  expect(hearing(news(1, given('a', 1)), news(2, given('b', 2)))?.handedOut.m).toMatchObject({ revision: 'b', at: 2 });
  expect(hearing(news(1, given('a', 1)), news(2, { handedOut: {} }))?.handedOut).toEqual({});
});

const speakers: Record<string, { heard: [number, string, string][]; wants: string[] }> = {
  'one installation': {
    heard: [
      [0, 'i', 'a'],
      [1, 'i', 'a'],
    ],
    wants: ['i'],
  },
  'a restart': {
    heard: [
      [0, 'i', 'a'],
      [1, 'i', 'b'],
      [2, 'i', 'b'],
    ],
    wants: ['i'],
  },
  'two installations with one identity': {
    heard: [
      [0, 'i', 'a'],
      [1, 'j', 'b'],
      [2, 'i', 'a'],
    ],
    wants: ['i', 'j'],
  },
  'two machines from one disk image': {
    heard: [
      [0, 'i', 'a'],
      [1, 'i', 'b'],
      [2, 'i', 'a'],
      [3, 'i', 'b'],
    ],
    wants: ['i', 'i#a'],
  },
  'a former boot that comes late through another replica': {
    heard: [
      [0, 'i', 'a'],
      [2, 'i', 'b'],
      [1, 'i', 'a'],
      [3, 'i', 'b'],
    ],
    wants: ['i'],
  },
  'an installation that fell silent long ago': {
    heard: [
      [0, 'i', 'a'],
      [11, 'j', 'b'],
    ],
    wants: ['j'],
  },
};

test.for(Object.entries(speakers))('who speaks for a node: %s', ([, { heard, wants }]) => {
  const observed = hearing(...heard.map(([at, instance, boot]) => news(at * MINUTE, { instance, boot })));
  expect(Object.keys(observed?.instances ?? {}).sort()).toEqual(wants);
});
