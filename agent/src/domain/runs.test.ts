import { expect, test } from 'vitest';
import type { Container } from '../engine-port/container.ts';
import { makeContainer, makeEntry } from '../supervise/plan/_util.ts';
import { ofFormerRun, type Runs, seenRun } from './runs.ts';

const created = (id: string): Container => makeContainer(makeEntry(), { id, state: 'created', finishedAt: 0 });
const running = (id: string, startedAt: number, endedBefore = 0): Container =>
  makeContainer(makeEntry(), { id, startedAt, finishedAt: endedBefore });
const ended = (id: string, startedAt: number, finishedAt: number): Container =>
  makeContainer(makeEntry(), { id, state: 'exited', startedAt, finishedAt });

/** Which lines the former run has, once a container was seen like this, one after the other. */
function former(...seen: readonly Container[]): object | string {
  const runs = seen.slice(0, -1).reduce<Runs | undefined>(seenRun, undefined);
  try {
    const { tail, ...bounds } = ofFormerRun({ tail: 5 }, seen.at(-1), runs);
    return bounds;
  } catch (error) {
    return (error as Error).message;
  }
}

const FIRST = 'no former run: none is known of this container; its whole log is there without previous';

test.each<[sentence: string, seen: Container[], bounds: object | string]>([
  ['a container that runs for the first time has none', [created('a'), running('a', 1000)], FIRST],
  [
    'of a container that has ended is its last run, the first one from its first line on',
    [created('a'), ended('a', 1000, 2000)],
    {},
  ],
  [
    'of a container that has ended again is its last run alone',
    [created('a'), ended('a', 1000, 2000), ended('a', 12_000, 13_000)],
    { since: 7000 },
  ],
  [
    'of a container that runs again is the run before',
    [created('a'), running('a', 1000), ended('a', 1000, 2000), running('a', 12_000, 2000)],
    { until: 6999 },
  ],
  [
    'of a third run begins and ends between two runs',
    [created('a'), ended('a', 1000, 2000), ended('a', 12_000, 13_000), running('a', 23_000, 13_000)],
    { since: 7000, until: 17_999 },
  ],
  [
    'is known though nobody saw the container between its runs',
    [created('a'), running('a', 1000), running('a', 3000, 2000)],
    { until: 2499 },
  ],
  ['of a container whose earlier runs nobody saw is not known while it runs', [running('a', 12_000, 2000)], FIRST],
  [
    'of a container whose earlier runs nobody saw is known once it has started again',
    [running('a', 12_000, 2000), ended('a', 12_000, 13_000), running('a', 23_000, 13_000)],
    { since: 7000, until: 17_999 },
  ],
  [
    'is the same after a look at the list alone, which has the time of creation for that of the start',
    [created('a'), ended('a', 1000, 2000), running('a', 12_000, 2000), running('a', 500), running('a', 12_000, 2000)],
    { until: 6999 },
  ],
  [
    'is never one of a container that was replaced',
    [created('a'), ended('a', 1000, 2000), { ...running('b', 3000), generation: 2 }],
    'no former run: none is known of this container, and the log of the one before went with it; the log of this one is there without previous',
  ],
])('the former run %s', (_, seen, bounds) => {
  expect(former(...seen)).toEqual(bounds);
});

test('what is asked for of a former run is within it', () => {
  const runs = [created('a'), ended('a', 1000, 2000), ended('a', 12_000, 13_000)].reduce<Runs | undefined>(
    seenRun,
    undefined,
  );
  const asked = (since: number, until: number) => ofFormerRun({ tail: 5, since, until }, running('a', 23_000), runs);
  expect(asked(0, 90_000)).toEqual({ tail: 5, since: 7000, until: 17_999 });
  expect(asked(12_100, 12_200)).toEqual({ tail: 5, since: 12_100, until: 12_200 });
});
