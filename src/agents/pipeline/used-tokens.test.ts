import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NODE_TOKEN } from '../../wire/node-token.ts';
import { createTokenLog } from '../leader/token-log.ts';
import { createUsedTokens } from './used-tokens.ts';

const START = Date.parse('2026-01-01T00:00:00Z');
const token = (jti: string, exp: number) => ({ sub: 'node', jti, exp });

test('no token is accepted twice before it expires, and none is kept much longer', () => {
  const steps = fc.array(
    fc.record({
      wait: fc.integer({ min: 0, max: 120 }),
      life: fc.integer({ min: 1, max: 600 }),
      jti: fc.integer({ min: 0, max: 20 }),
    }),
    { maxLength: 60 },
  );
  fc.assert(
    fc.property(steps, (list) => {
      const used = createUsedTokens();
      const accepted = new Set<string>();
      const made = new Map<number, number>();
      let now = START;
      for (const { wait, life, jti } of list) {
        now += wait * 1_000;
        // A token is what was signed: its jti and expiry stay together.
        const exp = made.get(jti) ?? Math.floor(now / 1_000) + life;
        made.set(jti, exp);
        if (exp + NODE_TOKEN.tolerance <= now / 1_000) continue;
        const fresh = used.use(token(String(jti), exp), now);
        expect(fresh).toBe(!accepted.has(String(jti)));
        accepted.add(String(jti));
      }
      used.use(token('last', now / 1_000 + 700), now + 700_000);
      expect(used.size).toBe(1);
    }),
  );
});

test('when the capacity is used up, no token is accepted', () => {
  const used = createUsedTokens({ capacity: 2 });
  const exp = START / 1_000 + 60;
  expect([1, 2, 3].map((n) => used.use(token(`jti-${n}`, exp), START))).toEqual([true, true, false]);
  expect(used.use(token('later', exp + 100), START + 100_000)).toBe(true);
});

test('replicas get each used token of other replicas once, through the log of the leader', () => {
  const clock = { wall: () => START };
  const [leader, one, two] = [createUsedTokens(), createUsedTokens(), createUsedTokens()];
  const log = createTokenLog(leader, clock);
  const exp = START / 1_000 + 60;
  one.use(token('a', exp), START);
  leader.use(token('b', exp), START);
  log.add('one', one.takeUnshared(10));
  const first = log.since(0, 'two');
  two.learn(first.marks, START);
  expect(first.marks).toHaveLength(2);
  expect(log.since(first.cursor, 'two').marks).toEqual([]);
  expect(log.since(0, 'one').marks).toHaveLength(1);
  for (const jti of ['a', 'b']) expect(two.use(token(jti, exp), START)).toBe(false);
  expect(leader.use(token('a', exp), START)).toBe(false);
  expect(two.takeUnshared(10)).toEqual([]);
});

test('used tokens with an expiry out of bounds are not kept', () => {
  const used = createUsedTokens();
  used.learn(
    [
      [1, Number.MAX_SAFE_INTEGER],
      [2, 0],
    ],
    START,
  );
  expect(used.size).toBe(0);
});
