import { describe, expect, test } from 'vitest';
import { accountClaims, type BusClaims } from './claims.ts';
import { isSameToken, lostRevocations, merge, nextIat, revoke } from './lineage.ts';

const claims = (iat: number, revocations = {}, rule = {}): BusClaims =>
  accountClaims({ operator: 'O', key: 'A', name: 'plant', rule, revocations, iat });
const token = (payload: BusClaims) => `h.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.s`;
const seeded = (seed: number) => () => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
  return seed / 2 ** 32;
};

describe('the time of the next token', () => {
  test.each([
    ['is the time of the clock', 1_000.9, undefined, 1_000],
    ['is a second later within the second of the former one', 1_000.5, 1_000, 1_001],
    ['is later than the former one with a clock that is behind', 400, 1_000, 1_001],
    ['follows a clock that is ahead', 1_600, 1_000, 1_600],
  ])('%s', (_, now, former, expected) => {
    expect(nextIat(now, former === undefined ? undefined : claims(former))).toBe(expected);
  });

  test('rises whatever the clocks of a thousand leaders say', () => {
    for (let run = 1; run <= 20; run++) {
      const random = seeded(run);
      let former: BusClaims | undefined;
      for (let step = 0; step < 1_000; step++) {
        const now = 1_000_000 + (random() - 0.5) * 2_000;
        const next = claims(nextIat(now, former), { U: step });
        if (former) {
          expect(next.iat).toBeGreaterThan(former.iat);
          expect(next.jti).not.toBe(former.jti);
        }
        former = next;
      }
    }
  });
});

test.each([
  ['at another time says the same', claims(9), true],
  ['with a revocation more does not', claims(1, { U: 1 }), false],
  ['with another limit does not', claims(1, {}, { maxConnections: 1 }), false],
])('a token %s', (_, next, same) => {
  expect(isSameToken(claims(1), next)).toBe(same);
});

test('revocations are the same in any order', () => {
  const read = { ...claims(1), nats: { ...claims(1).nats, revocations: { UB: 2, UA: 1 } } };
  expect(isSameToken(read, claims(1, { UA: 1, UB: 2 }))).toBe(true);
});

test('without a former token nothing is the same', () => {
  expect(isSameToken(undefined, claims(1))).toBe(false);
});

describe('a revocation', () => {
  test.each([
    ['has the time of the clock', {}, 900, 1_000.7, 1_000],
    ['is not before the token of a clock ahead', {}, 1_600, 1_000, 1_600],
    ['stays where a later one exists', { U: 2_000 }, 900, 1_000, 2_000],
    ['replaces an earlier one', { U: 500 }, 900, 1_000, 1_000],
  ])('%s', (_, before, iatOfUser, now, expected) => {
    expect(revoke({ OTHER: 1, ...before }, 'U', iatOfUser, now)).toEqual({ OTHER: 1, U: expected });
  });

  test('ends the token of a user whatever the clocks say', () => {
    const random = seeded(7);
    for (let run = 0; run < 1_000; run++) {
      const [issued, now] = [Math.floor(random() * 2_000), random() * 2_000];
      expect(revoke({}, 'U', issued, now).U).toBeGreaterThanOrEqual(issued);
    }
  });
});

describe('of two tokens of one account', () => {
  const [early, late] = [token(claims(1, { UA: 5, UB: 1 })), token(claims(2, { UB: 3 }))];
  const [one, other] = [token(claims(3, { UA: 1 })), token(claims(3, { UB: 1 }))];
  test.each([
    ['the later one counts', early, late, late],
    ['the later one counts in the other order', late, early, late],
    ['the only one counts', undefined, early, early],
    ['a token counts before text that is none', early, 'x', early],
    ['none counts where both are none', 'x', undefined, undefined],
  ])('%s', (_, a, b, expected) => {
    expect(merge(a, b)).toBe(expected);
  });
  test('the same one counts in both orders where both have one second', () => {
    expect(merge(one, other)).toBe(merge(other, one));
  });
  test('the revocations that the later one lacks are named', () => {
    expect(lostRevocations(claims(2, { UB: 3 }), claims(1, { UA: 5, UB: 1 }))).toEqual({ UA: 5 });
    expect(lostRevocations(undefined, claims(1, { UA: 5 }))).toEqual({ UA: 5 });
  });
});

describe('leaders with wrong clocks', () => {
  interface World {
    /** of the account, in the order of signing */
    tokens: BusClaims[];
    /** users that were revoked, with the time of their token */
    revoked: Map<string, number>;
    /** what the datastore has */
    stored: BusClaims;
  }
  /** Signs as a leader does: with the datastore, and after a restore with what a server has as well. */
  function sign(world: World, clock: number, change: (before: Record<string, number>) => Record<string, number>): void {
    const { stored, tokens } = world;
    const newest = tokens.reduce((a, b) => (merge(token(a), token(b)) === token(a) ? a : b));
    const revocations = { ...stored.nats.revocations, ...lostRevocations(stored, newest) };
    world.stored = claims(nextIat(clock, newest), change(revocations));
    tokens.push(world.stored);
  }

  test('revoke users for good, whichever tokens servers have and in which order they get them', () => {
    for (let run = 1; run <= 100; run++) {
      const random = seeded(run);
      const clock = () => 1_000_000 + (random() - 0.5) * 1_200;
      const first = claims(Math.floor(clock()));
      const world: World = { tokens: [first], revoked: new Map(), stored: first };
      for (let step = 0; step < 40; step++) {
        const user = `U${step}`;
        const issued = Math.floor(clock());
        if (random() < 0.2) world.stored = world.tokens[Math.floor(random() * world.tokens.length)] as BusClaims;
        const isRevoked = random() < 0.7;
        if (isRevoked) world.revoked.set(user, issued);
        sign(world, clock(), (before) => (isRevoked ? revoke(before, user, issued, clock()) : before));
      }
      const shuffled = world.tokens.map((one) => [random(), token(one)] as const).sort(([a], [b]) => a - b);
      const counts = shuffled.reduce<string | undefined>((kept, [, one]) => merge(kept, one), undefined);
      expect(counts).toBe(token(world.stored));
      for (const [user, issued] of world.revoked)
        expect(world.stored.nats.revocations?.[user], `${user} of run ${run}`).toBeGreaterThanOrEqual(issued);
    }
  });
});
