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

/** What was sent at 1, 2, 3 and so on: a revision, or a list without the microservice. */
const histories: [string, (string | undefined)[], { revision: string; at: number } | undefined][] = [
  ['the same list again', ['a', 'a', 'a'], { revision: 'a', at: 1 }],
  ['an edit', ['a', 'b', 'b'], { revision: 'b', at: 2 }],
  ['a list of a replica that lags behind', ['b', 'a', 'b'], { revision: 'b', at: 3 }],
  ['an edit that is taken back', ['a', 'b', 'b', 'a'], { revision: 'a', at: 4 }],
  ['a microservice that is added', [undefined, 'a', 'a'], { revision: 'a', at: 2 }],
  ['a microservice that is removed', ['a', undefined], undefined],
  ['a microservice that is added again', ['a', undefined, 'a'], { revision: 'a', at: 3 }],
];
const listsOf = (sent: (string | undefined)[]) => sent.map((revision, i) => list(i + 1, revision));

test.each(histories)(
  'in every order and grouping, what was sent last and since when is the same: %s',
  (_, sent, want) => {
    for (const order of orders(listsOf(sent)))
      for (const joined of joins(order)) {
        expect(joined.listedAt).toBe(sent.length);
        const { revision, at } = joined.sentRevisions.m ?? {};
        expect({ order, ...(want ? { revision, at } : { revision }) }).toEqual({ order, ...want });
      }
  },
);

test('a list that is joined again changes nothing', () => {
  for (const [, sent] of histories) {
    const lists = listsOf(sent);
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
