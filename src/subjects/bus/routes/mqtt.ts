import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusAccountRuleSpec } from '../../../api/v3/index.ts';
import type { KindObject } from '../../../kinds/object.ts';
import { objectsByKey, type RestDependencies } from '../../../rest/contract/dependencies.ts';
import { invalid } from '../../../rules/errors.ts';
import { accountNameOf, accountRuleOf } from '../rules/account.ts';
import { hasStore } from '../rules/store.ts';

/** 400 where the rule of an account closes every connection of MQTT: servers close it without a word. */
export function requireMqtt(deps: RestDependencies, account: BusAccount): void {
  const name = accountRuleOf(account);
  const builtIn = deps.kinds.busAccountRules?.builtIns?.find((one) => one.name === name)?.spec;
  const [stored] = objectsByKey(deps, 'busAccountRules')?.find('name' as never, name) ?? [];
  const rule = ((stored as KindObject | undefined)?.spec ?? builtIn) as BusAccountRuleSpec | undefined;
  if (!rule) return;
  const of = `the rule "${name}" of the account "${accountNameOf(account)}"`;
  if (rule.disallowBearer === true)
    throw invalid(
      `disallowBearer: ${of} forbids tokens that are passwords, as users of MQTT have them`,
      'disallowBearer',
    );
  if (!hasStore(rule))
    throw invalid(
      `diskStorage: ${of} gives no persistent store, which MQTT needs: set diskStorage or memStorage of the rule`,
      'diskStorage',
    );
}
