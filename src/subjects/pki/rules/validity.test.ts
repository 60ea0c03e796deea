import { describe, expect, test } from 'vitest';
import {
  handoverOf,
  lifeOf,
  lifeProblem,
  madeAt,
  renewalOf,
  startOf,
  textOfTime,
  timeOf,
  validityOf,
} from './validity.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NOW = Date.parse('2026-11-26T12:00:00Z');

describe('a life', () => {
  test.each([
    ['is 60 months when nothing is asked for', undefined, Math.floor(60 * 30.44 * DAY)],
    ['is one of months below 1000', 12, Math.floor(12 * 30.44 * DAY)],
    ['is one of 999 months', 999, Math.floor(999 * 30.44 * DAY)],
    ['is one of milliseconds from 1000 on', 7_200_000, 7_200_000],
  ])('%s', (_, expiration, ms) => {
    expect(lifeOf(expiration)).toBe(ms);
  });

  test.each([
    [undefined, false],
    [1, false],
    [1_000, true],
    [3_599_999, true],
    [3_600_000, false],
  ])('a life of %s is refused when it is shorter than an hour', (expiration, isRefused) => {
    expect(lifeProblem(expiration)).toEqual(
      isRefused ? expect.stringContaining(`${expiration} is not valid`) : undefined,
    );
  });
});

describe('a validity', () => {
  test('begins an hour before the certificate is made, in whole seconds', () => {
    const validity = validityOf(NOW + 999, DAY);
    expect(validity).toEqual({ notBefore: NOW - HOUR, notAfter: NOW + DAY });
    expect(madeAt(validity)).toBe(NOW);
  });

  test('ends with the authority that signs', () => {
    expect(validityOf(NOW, DAY, NOW + HOUR + 500).notAfter).toBe(NOW + HOUR);
  });

  test.each([
    ['at the creation of the object a moment ago', [NOW - 5_000], NOW - 5_000],
    ['at the order of a moment ago', [undefined, NOW - 1_000], NOW - 1_000],
    ['at the later of both', [NOW - 5_000, NOW - 1_000], NOW - 1_000],
    ['now when the object is old', [NOW - DAY], NOW],
    ['now when the clock of the order is fast', [undefined, NOW + HOUR], NOW],
    ['now without either', [], NOW],
  ])('starts %s', (_, occasions, start) => {
    expect(startOf(NOW, ...occasions)).toBe(start);
  });
});

test('a renewal comes with a third of the life left, and at most a tenth of that third earlier', () => {
  const validity = validityOf(NOW, 90 * DAY);
  const times = Array.from({ length: 200 }, (_, i) => renewalOf(validity, `fingerprint ${i}`));
  expect(Math.max(...times)).toBeLessThanOrEqual(NOW + 60 * DAY);
  expect(Math.min(...times)).toBeGreaterThanOrEqual(NOW + 57 * DAY);
  // A thousand certificates that were made together are not renewed together.
  expect(new Set(times).size).toBeGreaterThan(190);
  expect(renewalOf(validity, 'a')).toBe(renewalOf(validity, 'a'));
});

test.each([
  ['a day later', 90 * DAY, DAY],
  ['in the middle of what the former has left, if that is less', HOUR, HOUR / 2],
  ['at once when the former has expired', -HOUR, 0],
])('a new key takes over %s', (_, left, after) => {
  const former = { notBefore: NOW - 300 * DAY, notAfter: NOW + left };
  expect(handoverOf(validityOf(NOW, 300 * DAY), former)).toBe(NOW + after);
});

test('times are texts of RFC 3339', () => {
  expect(textOfTime(NOW)).toBe('2026-11-26T12:00:00Z');
  expect(timeOf('2026-11-26T13:00:00+01:00')).toBe(NOW);
  expect(timeOf('tomorrow')).toBeUndefined();
});
