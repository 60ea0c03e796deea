import { expect, test } from 'vitest';
import { createSilencePacer } from './silence-pacer.ts';

function createFixture() {
  const time = { now: 1_000_000 };
  return { time, pacer: createSilencePacer(() => time.now) };
}

test('one object that falls silent or returns is written at once, with its events', () => {
  const { pacer } = createFixture();
  for (const change of ['begins', 'ends'] as const) {
    expect(pacer.waitMs('a', change)).toBe(0);
    expect(pacer.writeOptions('a', change, false).withEvents).toBe(true);
  }
});

test.each([
  ['begins', 20],
  ['ends', 40],
] as const)('of 200 objects whose silence %s at once, %d are written in the first second', (change, most) => {
  const { time, pacer } = createFixture();
  const due = new Map(Array.from({ length: 200 }, (_, i) => [`n${i}`, time.now]));
  let inFirstSecond = 0;
  for (const end = time.now + 999; time.now <= end; time.now++) {
    for (const [key, at] of due) {
      if (at > time.now) continue;
      const wait = pacer.waitMs(key, change);
      if (wait > 0) due.set(key, time.now + wait);
      else {
        due.delete(key);
        inFirstSecond++;
      }
    }
  }
  expect(inFirstSecond).toBeGreaterThanOrEqual(most - 1);
  expect(inFirstSecond).toBeLessThanOrEqual(most);
});

test('a silence that began without an event ends without one, and the next silence has both events', () => {
  const { pacer } = createFixture();
  expect(pacer.writeOptions('a', 'begins', true).withEvents).toBe(false);
  expect(pacer.writeOptions('a', 'ends', false).withEvents).toBe(false);
  expect(pacer.writeOptions('a', 'begins', false).withEvents).toBe(true);
  expect(pacer.writeOptions('a', 'ends', false).withEvents).toBe(true);
});

test('an application of many nodes is written when the first falls silent, and for the others once in 10 s', () => {
  const { time, pacer } = createFixture();
  expect(pacer.waitMs('app', 'begins')).toBe(0);
  expect(pacer.waitMs('app', 'continues')).toBe(10_000);
  time.now += 9_000;
  expect(pacer.waitMs('app', 'continues')).toBe(1_000);
  time.now += 1_000;
  expect([pacer.waitMs('app', 'continues'), pacer.waitMs('app', 'continues')]).toEqual([0, 10_000]);
  expect(pacer.waitMs('app', 'ends')).toBe(0);
});

test('a write that is not about silence never waits, and gives up the turn of its object', () => {
  const { pacer } = createFixture();
  for (let i = 0; i < 100; i++) pacer.waitMs(`n${i}`, 'begins');
  expect(pacer.waitMs('n50', undefined)).toBe(0);
  expect(pacer.isWaiting('n50')).toBe(false);
  expect(pacer.waiting).toBe(98);
});
