import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  formatHistory,
  formatMark,
  type History,
  hasGivenOut,
  isAccepted,
  type Mark,
  markOf,
  parseHistory,
  parseMark,
  termName,
  withBeat,
  withTerm,
} from './history.ts';

const id = (n: number) => n.toString(16).padStart(8, '0');
const mark = (text: string) => parseMark(text) as Mark;

test.each([
  ['of the running term', '2.bbbbbbbb.3', true],
  ['of the running term, from before', '2.bbbbbbbb.0', true],
  ['ahead of the running term', '2.bbbbbbbb.4', false],
  ['of a former term', '1.aaaaaaaa.7', true],
  ['ahead of a former term', '1.aaaaaaaa.8', false],
  ['of a term that another store counted on with', '2.cccccccc.1', false],
  ['of a term that is not there yet', '3.cccccccc.1', false],
])('a mark %s', (_, text, is) => {
  expect(hasGivenOut(parseHistory('1.aaaaaaaa.7\n2.bbbbbbbb.3'), mark(text))).toBe(is);
});

test('an empty store has given out nothing; terms that were forgotten are believed', () => {
  expect(hasGivenOut([], mark('1.aaaaaaaa.0'))).toBe(false);
  let history: History = [];
  for (let i = 1; i <= 300; i++) history = withTerm(history, id(i));
  expect(history).toHaveLength(200);
  expect(hasGivenOut(history, mark(`5.${id(5)}.9`))).toBe(true);
  expect(hasGivenOut(history, mark(`250.${id(9)}.0`))).toBe(false);
});

test('an empty store that goes on above the terms of another one believes none of its marks', () => {
  const history = withTerm([], 'dddddddd', 7);
  expect(markOf(history)).toEqual({ n: 8, id: 'dddddddd', beat: 0 });
  for (const text of ['7.0123abcd.1', '3.0123abcd.0', '1.0123abcd.0'])
    expect(hasGivenOut(history, mark(text))).toBe(false);
});

test.each(['', '1', '1.aaaaaaaa', '0.aaaaaaaa.1', '1.AAAAAAAA.1', '1.aaaaaaaa.-1', `1.aaaaaaaa.${'9'.repeat(30)}`])(
  'what no store gave out is no mark: %j',
  (text) => expect(parseMark(text)).toBeUndefined(),
);

test('an operator accepts a store by a term that it began after the mark', () => {
  const restored = withTerm(parseHistory('1.aaaaaaaa.7'), 'dddddddd', 4);
  const lost = mark('4.cccccccc.2');
  expect(termName(restored)).toBe('5.dddddddd');
  expect(isAccepted(restored, lost, '5.dddddddd')).toBe(true);
  // Restored once more, to a state that still has the word of the operator: he meant another restore.
  const again = withTerm(restored, 'eeeeeeee', 6);
  expect(isAccepted(again, mark('6.ffffffff.0'), '5.dddddddd')).toBe(false);
  expect(isAccepted(restored, lost, '1.aaaaaaaa')).toBe(false);
  expect(isAccepted(restored, lost, undefined)).toBe(false);
  expect(isAccepted(restored, lost, '9.dddddddd')).toBe(false);
});

/**
 * A store that is changed, taken over, saved and restored in any order, with agents that poll: a mark is in doubt
 * exactly when it was given out after the snapshot that the store was restored to.
 */
test('no restore goes unnoticed, and nothing else is taken for one', () => {
  const step = fc.constantFrom('beat', 'term', 'give', 'save', 'restore');
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let count = 0;
      let history = withTerm([], id(count++));
      let saved = history;
      let epoch = 0;
      let savedEpoch = 0;
      /** in the order in which they were given out; those after the snapshot go with a restore */
      let given: { mark: Mark; lost: boolean; fresh: boolean }[] = [];
      for (const what of steps) {
        if (what === 'beat') {
          history = withBeat(history);
          epoch++;
        }
        if (what === 'term') {
          history = withTerm(history, id(count++));
          epoch++;
        }
        if (what === 'give') given.push({ mark: markOf(history) as Mark, lost: false, fresh: epoch > savedEpoch });
        if (what === 'save') {
          saved = history;
          savedEpoch = epoch;
          given = given.map((one) => ({ ...one, fresh: false }));
        }
        if (what === 'restore') {
          given = given.map((one) => ({ ...one, lost: one.lost || one.fresh, fresh: false }));
          // Whoever starts on the restored store, or notices, begins a term.
          history = withTerm(saved, id(count++));
          epoch = savedEpoch + 1;
        }
      }
      for (const one of given) expect(hasGivenOut(history, one.mark)).toBe(!one.lost);
    }),
    { numRuns: 500 },
  );
});

test('history and marks are read as they were written', () => {
  const history = withBeat(withTerm(withTerm([], id(1)), id(2)));
  expect(parseHistory(formatHistory(history))).toEqual(history);
  expect(parseMark(formatMark(markOf(history) as Mark))).toEqual(markOf(history));
});
