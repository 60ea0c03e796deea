import { expect, test } from 'vitest';
import { createSilence, type Turn } from './silence-pacer.ts';

function make() {
  const time = { now: 1_000_000 };
  const silence = createSilence(() => time.now);
  return { time, silence, turns: silence.turns() };
}

test('a node that falls silent or returns is written and told at once', () => {
  const { turns } = make();
  for (const turn of ['silent', 'back'] as const) {
    expect(turns.waitFor(turn, 'a')).toBe(0);
    expect(turns.writing(turn, 'a').isQuiet).toBe(false);
  }
});

test.each<[Turn, number]>([
  ['silent', 20],
  ['back', 40],
])('of many whose turn is %s never more than %d a second are written, suspected or not', (turn, most) => {
  const { time, turns } = make();
  const due = new Map(Array.from({ length: 200 }, (_, i) => [`n${i}`, time.now]));
  let inFirstSecond = 0;
  for (const end = time.now + 999; time.now <= end; time.now++) {
    for (const [key, at] of due) {
      if (at > time.now) continue;
      const wait = turns.waitFor(turn, key);
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

test('in mass silence there is no event for each, neither when they fall silent nor when they return', () => {
  const { silence, turns } = make();
  silence.suspected = true;
  expect(turns.writing('silent', 'a').isQuiet).toBe(true);
  silence.suspected = false;
  expect(turns.writing('back', 'a').isQuiet).toBe(true);
  expect(turns.writing('silent', 'a').isQuiet).toBe(false);
  expect(turns.writing('back', 'a').isQuiet).toBe(false);
});

test('an application of many nodes is written once when the first falls silent, and of the others every ten seconds', () => {
  const { time, turns } = make();
  expect(turns.waitFor('silent', 'app')).toBe(0);
  expect(turns.waitFor('more', 'app')).toBe(10_000);
  time.now += 9_000;
  expect(turns.waitFor('more', 'app')).toBe(1_000);
  time.now += 1_000;
  expect([turns.waitFor('more', 'app'), turns.waitFor('more', 'app')]).toEqual([0, 10_000]);
  expect(turns.waitFor('back', 'app')).toBe(0);
});

test('what somebody asked for does not wait, whoever else does', () => {
  const { turns } = make();
  for (let i = 0; i < 100; i++) turns.waitFor('silent', `n${i}`);
  expect(turns.waitFor(undefined, 'n50')).toBe(0);
  expect(turns.waiting).toBe(98);
});
