import { expect, test } from 'vitest';
import { createBudget } from './budget.ts';

const makeBudget = () => {
  let now = 1_000_000;
  const budget = createBudget({ burst: 100, perSecond: 10 }, () => now);
  const pass = (ms: number) => {
    now += ms;
  };
  return { budget, pass };
};

test('a burst is free, and what is spent comes back at the rate', () => {
  const { budget, pass } = makeBudget();
  budget.spend('a', 100);
  expect(budget.waitMs('a')).toBe(100);
  pass(100);
  expect(budget.waitMs('a')).toBe(0);
});

test('a dear one makes its key wait until it is paid back, and no other key', () => {
  const { budget, pass } = makeBudget();
  budget.spend('a', 300);
  expect(budget.waitMs('a')).toBe(20_100);
  expect(budget.waitMs('b')).toBe(0);
  pass(20_100);
  expect(budget.waitMs('a')).toBe(0);
});

test('what needs a reserve waits while others may still spend', () => {
  const { budget } = makeBudget();
  budget.spend('a', 60);
  expect(budget.waitMs('a')).toBe(0);
  expect(budget.waitMs('a', 50)).toBe(1_100);
});

test('a long rest saves up no more than the burst', () => {
  const { budget, pass } = makeBudget();
  budget.spend('a', 1);
  pass(3_600_000);
  budget.spend('a', 100);
  expect(budget.waitMs('a')).toBe(100);
});
