import type { BusAccountRule } from '../../../api/v3/index.ts';
import { keepBuiltIns } from '../../../controllers/built-in.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { both, type Controller, keyOf, watching } from '../../../kube/mod.ts';
import { stalled } from '../../../rules/conditions.ts';
import { KINDS } from '../../kinds.ts';
import { RESERVED_ACCOUNT_RULES, RESERVED_USER_RULES } from '../rules/reserved-rules.ts';
import { unknownExporter } from '../rules/rule-verdict.ts';

/** BusAccountRule: the reserved ones have the content of this release, and imports name accounts that exist. */
export function createAccountRuleController(deps: ControllerDependencies): Controller {
  const { busAccounts, busAccountRules } = deps.stores;
  const isKnown = (key: string) => busAccounts.countByIndex('publicKey', key) > 0;
  return createKindController(deps, KINDS.busAccountRules, {
    prepare: keepBuiltIns(deps, KINDS.busAccountRules, RESERVED_ACCOUNT_RULES),
    obstacle(rule: BusAccountRule) {
      const verdict = unknownExporter(rule.spec, isKnown);
      return verdict && stalled({ reason: 'BusAccountNotFound', message: verdict.message });
    },
    watches: [
      watching(
        busAccounts,
        both(({ status }) =>
          status?.publicKey === undefined ? [] : busAccountRules.byIndex('exporter', status.publicKey).map(keyOf),
        ),
      ),
    ],
  });
}

/** BusUserRule: the reserved ones have the content of this release. */
export const createUserRuleController = (deps: ControllerDependencies): Controller =>
  createKindController(deps, KINDS.busUserRules, {
    prepare: keepBuiltIns(deps, KINDS.busUserRules, RESERVED_USER_RULES),
  });
