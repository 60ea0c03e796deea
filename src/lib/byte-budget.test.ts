import { expect, test } from 'vitest';
import { createByteBudget, isFull, type Share } from './byte-budget.ts';

const KIB = 1024;
const all = () => createByteBudget({ bytes: 1_000 * KIB, messages: 100 });
const open = (budget: ReturnType<typeof all>, caller: string) => budget.open(caller) as Share;

test('a message without bytes counts only against the limit of messages', () => {
  const budget = all();
  const shares = Array.from({ length: 100 }, (_, i) => open(budget, `${i}`));
  expect(shares.filter(isFull)).toEqual([]);
  expect(shares[0]?.take(500 * KIB)).toBe(true);
  expect(budget.open('101')).toEqual({ full: 'class' });
});

test('a caller at its own limit does not limit other callers, and may continue after a message of its own has ended', () => {
  const budget = createByteBudget({ bytes: 1_000, messages: 100, each: { bytes: 100, messages: 2 } });
  const [one, two] = [open(budget, 'a'), open(budget, 'a')];
  expect(budget.open('a')).toEqual({ full: 'caller' });
  expect([one.take(60), two.take(60), open(budget, 'b').take(60)]).toEqual([true, false, true]);
  one[Symbol.dispose]();
  expect([two.take(60), isFull(budget.open('a'))]).toEqual([true, false]);
});

test('large messages leave a part of the budget to small ones', () => {
  const budget = all();
  const large = open(budget, 'a');
  while (large.take(10 * KIB));
  expect(open(budget, 'b').take(300 * KIB)).toBe(false);
  expect(open(budget, 'b').take(10 * KIB)).toBe(true);
});

test('a class of callers at its limit does not limit another class', () => {
  const budget = all();
  const unauthenticated = createByteBudget({ bytes: 100, messages: 2, within: budget });
  const nodes = createByteBudget({ bytes: 1_000 * KIB, messages: 100, within: budget });
  const full = [open(unauthenticated, 'a'), open(unauthenticated, 'b')];
  expect(full.map((share) => share.take(50))).toEqual([true, true]);
  expect([full[0]?.take(1), unauthenticated.open('c')]).toEqual([false, { full: 'class' }]);
  expect(open(nodes, 'n').take(KIB)).toBe(true);
});

test('in a budget whose messages make room, the oldest message of the caller ends, then of the caller with the most', () => {
  const each = { bytes: 100, messages: 3 };
  const budget = createByteBudget({ bytes: 200, messages: 5, each, makesRoom: true });
  const ended: string[] = [];
  const begin = (caller: string, name: string) => budget.open(caller, () => ended.push(name)) as Share;
  const [first, second] = [begin('a', 'a1'), begin('a', 'a2'), begin('a', 'a3')];
  begin('a', 'a4');
  expect(ended).toEqual(['a1']);
  first?.[Symbol.dispose]();
  // No share is given back twice.
  begin('a', 'a5');
  expect(ended).toEqual(['a1', 'a2']);
  second?.[Symbol.dispose]();
  const other = begin('b', 'b1');
  begin('b', 'b2');
  begin('c', 'c1');
  expect(ended).toEqual(['a1', 'a2', 'a3']);
  expect([other.take(90), begin('b', 'b3').take(90), begin('d', 'd1').take(90)]).toEqual([true, true, true]);
  expect(ended).toEqual(['a1', 'a2', 'a3', 'a4', 'b1']);
  // A message that is too large for the budget ends none.
  expect(begin('e', 'e1').take(101)).toBe(false);
});
