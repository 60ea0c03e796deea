import { describe, expect, test } from 'vitest';
import {
  MOST_KEPT_REVOCATIONS,
  MOST_REVOCATIONS,
  mayHoldFormer,
  nextSigningStep,
  type SigningState,
  trustedKeys,
} from './signing-keys.ts';

const many = (count: number, prefix: string) => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
/** A state that refuses users of microservices (M), of others (K), and of others by a former key (F). */
const stateOf = ({ M = 0, K = 0, F, ...more }: { M?: number; K?: number; F?: number } & Partial<SigningState> = {}) => {
  const former = F === undefined ? undefined : { keys: ['X0'], since: 50, kept: many(F, 'F') };
  const refused = [...many(M, 'M'), ...many(K, 'K'), ...many(F ?? 0, 'F')];
  return {
    ...{ signing: 'S1', extra: 'X1', kept: many(K, 'K'), former },
    revocations: Object.fromEntries(refused.map((user) => [user, 1])),
    ...more,
  };
};
const numbers = ({ revocations }: Pick<SigningState, 'revocations'>) => {
  const count = (prefix: string) => Object.keys(revocations).filter((user) => user.startsWith(prefix)).length;
  return { M: count('M'), K: count('K'), F: count('F') };
};
const RETIRING = { keys: ['S0'], since: 50, kept: many(600, 'M') };
const NOTHING = { signing: false, extra: false };

describe('revocations of microservices', () => {
  test.each([
    { what: 'few stay with their key', state: stateOf({ M: MOST_REVOCATIONS }), renews: false, retiring: undefined },
    {
      what: 'many begin another key',
      state: stateOf({ M: MOST_REVOCATIONS + 1 }),
      renews: true,
      retiring: { keys: ['S1'], since: 100, kept: many(MOST_REVOCATIONS + 1, 'M') },
    },
    {
      what: 'many begin no second key while the first one waits for machines',
      state: stateOf({ M: 600, retiring: RETIRING }),
      renews: false,
      retiring: RETIRING,
    },
    {
      what: 'few among many of other users stay with their key',
      state: stateOf({ M: 100, K: 500, F: 900 }),
      renews: false,
      retiring: undefined,
    },
  ])('$what', ({ state, renews, retiring }) => {
    const step = nextSigningStep(state, { now: 100 });
    expect([step.renews, step.retiring]).toEqual([{ ...NOTHING, signing: renews }, retiring]);
    expect(step.revocations).toEqual(state.revocations);
  });

  test('end with the key that signed them, and revocations of others and later ones stay', () => {
    const step = nextSigningStep(stateOf({ M: 605, K: 3, F: 4, retiring: RETIRING }), { now: 100, drops: true });
    expect([step.retiring, numbers(step)]).toEqual([undefined, { M: 5, K: 3, F: 4 }]);
  });
});

describe('revocations of users that hold their credentials themselves', () => {
  test('begin another key at a bound, which ends nothing', () => {
    const state = stateOf({ K: MOST_REVOCATIONS + 1, M: 2 });
    const step = nextSigningStep(state, { now: 100 });
    expect(step).toEqual({
      ...{ retiring: undefined, kept: [], renews: { ...NOTHING, extra: true }, revocations: state.revocations },
      former: { keys: ['X1'], since: 100, kept: state.kept },
    });
  });

  test.each([
    { what: 'an order that names the former key ends it', ended: 'X0', left: { M: 1, K: 2, F: 0 } },
    { what: 'an order that names another key ends nothing', ended: 'X9', left: { M: 1, K: 2, F: 700 } },
    { what: 'an order that names the present key ends nothing', ended: 'X1', left: { M: 1, K: 2, F: 700 } },
    { what: 'without an order the former key stays', ended: undefined, left: { M: 1, K: 2, F: 700 } },
  ])('$what', ({ ended, left }) => {
    const step = nextSigningStep(stateOf({ M: 1, K: 2, F: 700 }), { now: 100, ended });
    expect([numbers(step), step.former === undefined]).toEqual([left, left.F === 0]);
    expect(step.renews).toEqual(NOTHING);
  });

  test('end without an order at another bound', () => {
    const below = nextSigningStep(stateOf({ F: MOST_KEPT_REVOCATIONS - 2, K: 1 }), { now: 100 });
    expect(below.former).toBeDefined();
    const at = nextSigningStep(stateOf({ F: MOST_KEPT_REVOCATIONS - 1, K: 1 }), { now: 100 });
    expect([at.former, numbers(at)]).toEqual([undefined, { M: 0, K: 1, F: 0 }]);
  });

  test('begin the next key at once where the end of the former one leaves many', () => {
    const step = nextSigningStep(stateOf({ F: 1_000, K: 1_100 }), { now: 100 });
    expect(step.former).toEqual({ keys: ['X1'], since: 100, kept: many(1_100, 'K') });
    expect([step.kept, step.renews.extra, numbers(step).F]).toEqual([[], true, 0]);
  });

  test('never grow beyond a bound, and end with the key that signed them, whatever is revoked and although nobody orders anything', () => {
    const batch = 40;
    let state: SigningState = stateOf();
    let greatest = 0;
    /** the key that signed each revoked user */
    const signedBy = new Map<string, string>();
    for (let i = 0; i < 400; i++) {
      const users = many(batch, `${i % 3 === 0 ? 'M' : 'K'}${i}-`);
      const isKept = i % 3 !== 0;
      for (const user of users) signedBy.set(user, isKept ? state.extra : state.signing);
      const revocations = { ...state.revocations, ...Object.fromEntries(users.map((user) => [user, i])) };
      const kept = isKept ? [...state.kept, ...users] : state.kept;
      const step = nextSigningStep({ ...state, kept, revocations }, { now: i, drops: i % 5 === 0 });
      const signing = step.renews.signing ? `S${i}` : state.signing;
      state = { ...step, signing, extra: step.renews.extra ? `X${i}` : state.extra };
      greatest = Math.max(greatest, Object.keys(state.revocations).length);
      const trusted = new Set(trustedKeys(state));
      const back = [...signedBy].filter(([user, key]) => trusted.has(key) && !(user in state.revocations));
      expect(back).toEqual([]);
    }
    expect(greatest).toBeGreaterThan(MOST_KEPT_REVOCATIONS);
    expect(greatest).toBeLessThan(MOST_KEPT_REVOCATIONS + 2 * MOST_REVOCATIONS + batch);
  });
});

describe('a datastore that is older than the tokens of servers', () => {
  test('trusts what servers trust until an order ends it, with keys of its own that sign from now on, and undoes no revocation', () => {
    const state = stateOf({ M: 3, K: 2, F: 1, retiring: { ...RETIRING, kept: [] } });
    const step = nextSigningStep(state, { now: 100, servers: ['S2', 'X2'] });
    expect(step).toEqual({
      ...{ retiring: undefined, kept: [], renews: { signing: true, extra: true }, revocations: state.revocations },
      former: { keys: ['S2', 'X2'], since: 100, kept: Object.keys(state.revocations).sort() },
    });
  });

  test.each([
    ['a key that servers trust no longer', ['S1', 'X1']],
    ['a key that servers trust besides', ['S1', 'S0', 'X1', 'X0', 'X9']],
  ])('gets other keys for %s', (_, servers) => {
    const step = nextSigningStep(stateOf({ F: 1, retiring: { ...RETIRING, kept: [] } }), { now: 100, servers });
    expect(step.renews).toEqual({ signing: true, extra: true });
  });

  test('keeps its keys where servers trust the same ones', () => {
    const state = stateOf({ F: 1, retiring: { ...RETIRING, kept: [] } });
    const servers = trustedKeys(state).toReversed();
    expect(nextSigningStep(state, { now: 100, servers }).renews).toEqual(NOTHING);
  });
});

test.each([
  { createdAt: '1970-01-01T00:01:40Z', may: true },
  { createdAt: '1970-01-01T00:02:30Z', may: true },
  { createdAt: '1970-01-01T00:02:41Z', may: false },
])(
  'a user made at $createdAt may hold credentials of a key that another one followed at 100 s: $may',
  ({ createdAt, may }) => {
    expect(mayHoldFormer({ keys: [], since: 100, kept: [] }, createdAt)).toBe(may);
  },
);
