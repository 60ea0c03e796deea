import { expect, test } from 'vitest';
import { Looks } from './looks.ts';

test('looks at a service that lacks ends come less and less often, and soon again once it lacks others', () => {
  const looks = new Looks(() => 0);
  let now = 0;
  const pause = (lacks: number) => {
    const at = looks.nextAt('db', lacks, now) ?? Number.NaN;
    const ms = at - now;
    now = at;
    return ms / 1_000;
  };
  expect([1, 1, 1, 1, 1, 1, 1].map(pause)).toEqual([30, 60, 120, 240, 480, 900, 900]);
  // Another node reported, and has what it lacked.
  expect(pause(2)).toBe(30);
  // A change in between does not bring the next look forward, nor count as one.
  const at = looks.nextAt('db', 2, now);
  expect(looks.nextAt('db', 2, now + 1_000)).toBe(at);
  expect(looks.nextAt('db', 0, now)).toBeUndefined();
  now = 0;
  expect(pause(2)).toBe(30);
});

test('looks at many services are spread over time', () => {
  const looks = new Looks();
  const at = Array.from({ length: 100 }, (_, i) => looks.nextAt(`s-${i}`, 1, 0) ?? 0);
  expect(Math.max(...at) - Math.min(...at)).toBeGreaterThan(3_000);
  expect(Math.max(...at)).toBeLessThanOrEqual(30_000);
});
