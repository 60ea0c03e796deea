import type { BusAccount, BusAccountRuleSpec, BusUser, BusUserRuleSpec } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { holderIn } from '../../../datastore/holder.ts';
import { KINDS } from '../../kinds.ts';
import { accountRuleOf, defaultAccountRuleOf } from '../rules/account.ts';
import { defaultUserRuleOf, userRuleOf } from '../rules/user.ts';

/** A rule that limits an account or a user now. */
export interface RuleInForce<Spec> {
  name: string;
  spec: Spec;
}

/** Finds the rules of accounts and users. A rule that does not exist is replaced by the built-in one: nobody loses access by a deletion. */
export function createBusRules({ stores }: Pick<ControllerDependencies, 'stores'>) {
  function inForce<K extends 'busAccountRules' | 'busUserRules', Spec>(key: K, name: string, otherwise: string) {
    const of = (wanted: string): RuleInForce<Spec> | undefined => {
      const found = holderIn(KINDS[key] as never, stores[key].byIndex('name', wanted) as never[], 'name', wanted) as
        | { spec: Spec }
        | undefined;
      if (found) return { name: wanted, spec: found.spec };
      // The built-in objects are about to be made.
      const builtIn = KINDS[key].builtIns?.find((one) => one.name === wanted);
      return builtIn && { name: wanted, spec: builtIn.spec as Spec };
    };
    return of(name) ?? of(otherwise) ?? { name: otherwise, spec: {} as Spec };
  }
  return {
    ofAccount: (account: BusAccount): RuleInForce<BusAccountRuleSpec> =>
      inForce('busAccountRules', accountRuleOf(account), defaultAccountRuleOf(account)),
    ofUser: (user: BusUser): RuleInForce<BusUserRuleSpec> =>
      inForce('busUserRules', userRuleOf(user), defaultUserRuleOf(user)),
  };
}

export type BusRules = ReturnType<typeof createBusRules>;
