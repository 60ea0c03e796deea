import fc from 'fast-check';
import { type ModelAccountRule, type ModelUserRule, PATTERNS } from './_model.ts';

/** Operations on the bus, drawn at random from small pools, so that they meet. */

export const APPLICATIONS = ['shop', 'other'] as const;
const SERVICES = ['pump', 'valve'] as const;
const EXTRAS = ['dashboard', 'pump'] as const;
const RULES = ['first', 'second'] as const;

type Door = 'rest' | 'kubectl';

export type BusOperation =
  | { do: 'accountRule'; name: string; rule: ModelAccountRule; isInPlace: boolean }
  | { do: 'userRule'; name: string; rule: ModelUserRule; isInPlace: boolean }
  | { do: 'deleteRule'; of: 'accountRules' | 'userRules'; name: string }
  | { do: 'application'; app: string; hasAccess: boolean; rule?: string | undefined; by: Door }
  | { do: 'account'; app: string; rule?: string | undefined }
  | { do: 'deleteApplication'; app: string }
  | { do: 'service'; app: string; name: string; hasAccess: boolean; rule?: string | undefined; node: number }
  | { do: 'removeService'; app: string; name: string }
  | { do: 'rename'; app: string; name: string; to: string; keepsUuid: boolean }
  | { do: 'extra'; app: string; name: string; rule?: string | undefined; by: Door; isBearer: boolean }
  | { do: 'ruleOfExtra'; app: string; name: string; rule?: string | undefined }
  | { do: 'deleteExtra'; app: string; name: string; by: Door }
  | { do: 'loseSecret'; app: string; name: string }
  | { do: 'loseAccountSecret'; app: string }
  | { do: 'renewKeys'; app: string; of: 'services' | 'extras' }
  | { do: 'guest'; app: string }
  | { do: 'rotate'; by: Door }
  | { do: 'leader' }
  | { do: 'server'; is: 'restarted' | 'emptied' | 'set back' };

const some = <const T>(values: readonly T[]) => fc.constantFrom(...values);
const kind = <const K extends string>(name: K) => fc.constant(name);
const app = some(APPLICATIONS);
const patterns = fc.option(fc.subarray(PATTERNS, { minLength: 1 }), { nil: undefined });
const permissions = fc
  .record({ pubDeny: patterns, subDeny: patterns, pubAllow: patterns })
  .map((all) => Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as ModelUserRule);
const rule = fc.option(some(RULES), { nil: undefined, freq: 3 });
const by = some(['rest', 'kubectl'] as const);
const hasAccess = fc.integer({ min: 0, max: 3 }).map((n) => n > 0);
const service = some(SERVICES);

const operation: fc.Arbitrary<BusOperation> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc
      .tuple(some(RULES), permissions, fc.boolean(), fc.boolean())
      .map(([name, limits, isStoreless, isInPlace]) => ({
        do: 'accountRule' as const,
        isInPlace,
        ...{ name, rule: { ...limits, ...(isStoreless && { isStoreless: true as const }) } },
      })),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: kind('userRule'), name: some(RULES), rule: permissions, isInPlace: fc.boolean() }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: kind('deleteRule'),
      of: some(['accountRules', 'userRules'] as const),
      name: some(RULES),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: kind('application'), app, hasAccess, rule, by }) },
  { weight: 2, arbitrary: fc.record({ do: kind('account'), app, rule }) },
  { weight: 2, arbitrary: fc.record({ do: kind('deleteApplication'), app }) },
  {
    weight: 6,
    arbitrary: fc.record({ do: kind('service'), app, name: service, hasAccess, rule, node: some([0, 1]) }),
  },
  { weight: 2, arbitrary: fc.record({ do: kind('removeService'), app, name: service }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: kind('rename'),
      app,
      name: service,
      to: some([...SERVICES, 'fan']),
      keepsUuid: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: kind('extra'), app, name: some(EXTRAS), rule, by, isBearer: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: kind('ruleOfExtra'), app, name: some(EXTRAS), rule }) },
  { weight: 2, arbitrary: fc.record({ do: kind('deleteExtra'), app, name: some(EXTRAS), by }) },
  { weight: 1, arbitrary: fc.record({ do: kind('loseSecret'), app, name: some([...SERVICES, ...EXTRAS]) }) },
  { weight: 1, arbitrary: fc.record({ do: kind('loseAccountSecret'), app }) },
  { weight: 1, arbitrary: fc.record({ do: kind('renewKeys'), app, of: some(['services', 'extras'] as const) }) },
  { weight: 1, arbitrary: fc.record({ do: kind('guest'), app }) },
  { weight: 2, arbitrary: fc.record({ do: kind('rotate'), by }) },
  { weight: 1, arbitrary: fc.record({ do: kind('leader') }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: kind('server'), is: some(['restarted', 'emptied', 'set back'] as const) }),
  },
);

/** A step; the leader may change while the controllers work at it. */
export interface BusStep {
  operation: BusOperation;
  changesLeader: boolean;
}

export const busSteps: fc.Arbitrary<BusStep[]> = fc.array(
  fc.record({ operation, changesLeader: fc.integer({ min: 0, max: 5 }).map((n) => n === 0) }),
  { minLength: 1, maxLength: 20, size: 'max' },
);
