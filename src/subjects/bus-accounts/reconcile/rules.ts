import type { BusAccount, BusAccountRuleSpec, BusUser, BusUserRuleSpec } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { holderIn } from '../../../datastore/holder.ts';
import { storeOf } from '../../../datastore/stores.ts';
import { createReferences } from '../../../datastore/use.ts';
import type { Kind } from '../../../kinds/definition.ts';
import type { KindObject } from '../../../kinds/object.ts';
import type { Findings } from '../../../rules/conditions.ts';
import { type BusRuleKind, missingRules } from '../../../rules/missing-rules.ts';
import { KINDS } from '../../kinds.ts';
import { accountRuleOf, defaultAccountRuleOf } from '../rules/account.ts';
import { defaultUserRuleOf, userRuleOf } from '../rules/user.ts';

/** A rule that limits an account or a user now. */
interface RuleInForce<Spec> {
  name: string;
  /** undefined: kubectl gave the rule a form that would grant more than it says, or that servers refuse */
  spec: Spec | undefined;
}

/** Finds the rules of accounts and users. Where a rule does not exist, the built-in one limits: nobody loses access by a deletion. */
export function createBusRules({ stores, kinds }: Pick<ControllerDependencies, 'stores' | 'kinds'>) {
  const { find } = createReferences(stores, kinds);

  function inForce<T extends KindObject>(kind: Kind<T>, name: string, otherwise: string): RuleInForce<T['spec']> {
    const of = (wanted: string): RuleInForce<T['spec']> | undefined => {
      const found = holderIn(kind, storeOf(stores, kind).byIndex('name', wanted), 'name', wanted);
      if (found) return { name: wanted, spec: kind.verdict?.(found, find) ? undefined : found.spec };
      // The built-in objects are about to be made.
      const builtIn = kind.builtIns?.find((one) => one.name === wanted);
      return builtIn && { name: wanted, spec: builtIn.spec };
    };
    return of(name) ?? of(otherwise) ?? { name: otherwise, spec: undefined };
  }
  return {
    ofAccount: (account: BusAccount): RuleInForce<BusAccountRuleSpec> =>
      inForce(KINDS.busAccountRules, accountRuleOf(account), defaultAccountRuleOf(account)),
    ofUser: (user: BusUser): RuleInForce<BusUserRuleSpec> =>
      inForce(KINDS.busUserRules, userRuleOf(user), defaultUserRuleOf(user)),
  };
}

/** Says that the rule that an account or a user names does not exist; `name`: the rule that is in force instead. */
export function missingRule(kind: BusRuleKind, asked: string | undefined, { name }: RuleInForce<unknown>): Findings {
  return missingRules(asked === undefined || asked === name ? [] : [{ field: 'rule', kind, name: asked }]);
}

export type BusRules = ReturnType<typeof createBusRules>;
