import type { BusAccount } from '../../../api/v3/bus-account.ts';
import { holderIn } from '../../../datastore/holder.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { invalid } from '../../../rules/errors.ts';
import { KINDS } from '../../kinds.ts';
import { accountNameOf, accountRuleOf } from '../rules/account.ts';
import { mqttProblem } from '../rules/mqtt.ts';

/** 400 where the rule of an account closes every connection of MQTT. */
export function requireMqtt({ busAccountRules }: RestDependencies, account: BusAccount): void {
  const name = accountRuleOf(account);
  const found = holderIn(KINDS.busAccountRules, busAccountRules.find('name', name), 'name', name);
  const wrong = found && mqttProblem(found.spec);
  if (wrong)
    throw invalid(
      `${wrong.field}: the rule "${name}" of the account "${accountNameOf(account)}" ${wrong.problem}`,
      wrong.field,
    );
}
