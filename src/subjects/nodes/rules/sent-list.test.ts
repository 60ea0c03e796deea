import { expect, test } from 'vitest';
import { joinSent, joinSentLists, type SentList } from './sent-list.ts';

const list = (listedAt: number, revision?: string): SentList => ({
  sentRevisions: revision ? { m: { revision, imageId: `app:${revision}`, rebuildCount: 0, at: listedAt } } : {},
  listedAt,
});
const NOTHING: SentList = { sentRevisions: {} };

/** All orders of some items. */
function* orders<T>(items: readonly T[]): Generator<T[]> {
  if (items.length === 0) yield [];
  for (const [i, item] of items.entries()) for (const rest of orders(items.toSpliced(i, 1))) yield [item, ...rest];
}

/** One join after the other, and two replicas that join their own part first. */
function* joins(lists: readonly SentList[]): Generator<SentList> {
  const all = (some: readonly SentList[]) => some.reduce(joinSentLists, NOTHING);
  yield all(lists);
  for (let i = 1; i < lists.length; i++) yield joinSentLists(all(lists.slice(0, i)), all(lists.slice(i)));
}

const histories: [string, [number, string | undefined][], { revision: string; at: number } | undefined][] = [
  [
    'the same list again',
    [
      [1, 'a'],
      [2, 'a'],
      [3, 'a'],
    ],
    { revision: 'a', at: 1 },
  ],
  [
    'an edit',
    [
      [1, 'a'],
      [2, 'b'],
      [3, 'b'],
    ],
    { revision: 'b', at: 2 },
  ],
  [
    'a list of a replica that lags behind',
    [
      [1, 'b'],
      [2, 'a'],
      [3, 'b'],
    ],
    { revision: 'b', at: 3 },
  ],
  [
    'an edit that is taken back',
    [
      [1, 'a'],
      [2, 'b'],
      [3, 'b'],
      [4, 'a'],
    ],
    { revision: 'a', at: 4 },
  ],
  [
    'a microservice that is added',
    [
      [1, undefined],
      [2, 'a'],
      [3, 'a'],
    ],
    { revision: 'a', at: 2 },
  ],
  [
    'a microservice that is removed',
    [
      [1, 'a'],
      [2, undefined],
    ],
    undefined,
  ],
  [
    'a microservice that is added again',
    [
      [1, 'a'],
      [2, undefined],
      [3, 'a'],
    ],
    { revision: 'a', at: 3 },
  ],
];

test.each(histories)(
  'in every order and grouping, what was sent last and since when is the same: %s',
  (_, sent, want) => {
    for (const order of orders(sent))
      for (const joined of joins(order.map(([at, revision]) => list(at, revision)))) {
        expect(joined.listedAt).toBe(Math.max(...sent.map(([at]) => at)));
        const { revision, at } = joined.sentRevisions.m ?? {};
        expect({ order, ...(want ? { revision, at } : { revision }) }).toEqual({ order, ...want });
      }
  },
);

test('a list that is joined again changes nothing', () => {
  for (const [, sent] of histories) {
    const lists = sent.map(([at, revision]) => list(at, revision));
    const joined = lists.reduce(joinSentLists, NOTHING);
    for (const one of [...lists, joined]) expect(joinSentLists(joined, one)).toEqual(joined);
  }
});

test('two lists of one millisecond give the same in both orders', () => {
  const [a, b] = [list(5, 'a'), list(5, 'b')];
  expect(joinSentLists(a, b)).toEqual(joinSentLists(b, a));
});

test('what a former leader stored stays when only an older list is known', () => {
  const stored = { revision: 'b', imageId: 'app:b', rebuildCount: 0, at: 10 };
  expect(joinSent(stored, NOTHING, 'm')).toEqual(stored);
  expect(joinSent(stored, list(5, 'a'), 'm')).toEqual(stored);
  expect(joinSent(stored, list(12, 'b'), 'm')).toEqual(stored);
  expect(joinSent(stored, list(9, 'b'), 'm')).toEqual({ ...stored, at: 9 });
  expect(joinSent(stored, list(12, 'a'), 'm')).toMatchObject({ revision: 'a', at: 12 });
  expect(joinSent(undefined, list(12, 'a'), 'm')).toEqual({ revision: 'a', imageId: 'app:a', rebuildCount: 0, at: 12 });
});
