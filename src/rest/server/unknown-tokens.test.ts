import { expect, test } from 'vitest';
import { makeClock } from '../../agents/_util.ts';
import { createUnknownTokens } from './unknown-tokens.ts';

/** Addresses that are over their limit, and whether a review is left. */
function start() {
  const clock = makeClock();
  const tokens = createUnknownTokens(clock);
  const isReviewed = (address: string, subject?: string) => {
    for (let i = 0; i < 60; i++) tokens.wrong(address);
    try {
      tokens.check(address, subject);
      return true;
    } catch {
      return false;
    }
  };
  return { clock, isReviewed };
}

test('a proven subject has ten reviews at an address that is over its limit, then one in six seconds', async () => {
  const { clock, isReviewed } = start();
  expect(isReviewed('a')).toBe(false);
  for (let i = 0; i < 10; i++) expect(isReviewed('a', 'ann')).toBe(true);
  expect(isReviewed('a', 'ann')).toBe(false);
  await clock.advance(6_000, { timers: 0 });
  expect([isReviewed('a', 'ann'), isReviewed('a', 'ann'), isReviewed('a')]).toEqual([true, false, false]);
});

test('who copies one subject at many addresses leaves half of the reviews beyond limits to the first tokens of others', () => {
  const { isReviewed } = start();
  const copied = Array.from({ length: 100 }, (_, i) => isReviewed(`address ${i}`, 'ann'));
  expect(copied.filter(Boolean)).toHaveLength(20);
  const others = Array.from({ length: 100 }, (_, i) => isReviewed('a', `bob ${i}`));
  expect(others.filter(Boolean)).toHaveLength(20);
});
