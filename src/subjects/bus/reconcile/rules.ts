import type { BusAccount, BusAccountRuleSpec, BusUser, BusUserRuleSpec } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { holderIn } from '../../../datastore/holder.ts';
import { storeOf } from '../../../datastore/stores.ts';
import type { Kind } from '../../../kinds/definition.ts';
import type { KindObject } from '../../../kinds/object.ts';
import { both, type Watch, watching } from '../../../kube/mod.ts';
import { v3Name } from '../../../rules/names.ts';
import { KINDS, type Kinds } from '../../kinds.ts';
import { accountRuleOf, defaultAccountRuleOf } from '../rules/account.ts';
import { defaultUserRuleOf, userRuleOf } from '../rules/user.ts';

/** A rule that limits an account or a user now. */
export interface RuleInForce<Spec> {
  name: string;
  spec: Spec;
}

const ALL = KINDS as Kinds;

/** Finds the rules of accounts and users. Where a rule does not exist, the built-in one limits: nobody loses access by a deletion. */
export function createBusRules({ stores }: Pick<ControllerDependencies, 'stores'>) {
  function inForce<Spec>(kind: Kind | undefined, name: string, otherwise: string): RuleInForce<Spec> {
    const of = (wanted: string): RuleInForce<Spec> | undefined => {
      if (!kind) return undefined;
      const found = holderIn(kind, storeOf(stores, kind).byIndex('name', wanted), 'name', wanted);
      // The built-in objects are about to be made.
      const spec = found?.spec ?? kind.builtIns?.find((one) => one.name === wanted)?.spec;
      return spec && { name: wanted, spec: spec as Spec };
    };
    return of(name) ?? of(otherwise) ?? { name: otherwise, spec: {} as Spec };
  }
  /** Leads to the objects that a changed rule limits. */
  const watch = (kind: Kind | undefined, bound: (rule: string) => readonly string[]): readonly Watch[] =>
    kind
      ? [
          watching(
            storeOf(stores, kind),
            both((rule: KindObject) => bound(v3Name(rule))),
          ),
        ]
      : [];
  return {
    ofAccount: (account: BusAccount) =>
      inForce<BusAccountRuleSpec>(ALL.busAccountRules, accountRuleOf(account), defaultAccountRuleOf(account)),
    ofUser: (user: BusUser) => inForce<BusUserRuleSpec>(ALL.busUserRules, userRuleOf(user), defaultUserRuleOf(user)),
    ofAccountsChanged: (bound: (rule: string) => readonly string[]) => watch(ALL.busAccountRules, bound),
    ofUsersChanged: (bound: (rule: string) => readonly string[]) => watch(ALL.busUserRules, bound),
  };
}

export type BusRules = ReturnType<typeof createBusRules>;
