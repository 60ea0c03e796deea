import type { BusAccountRuleSpec } from '../../../api/v3/index.ts';
import { STORE_FIELDS } from '../../bus-rules/rules/tokens/claims.ts';

/**
 * Why users of MQTT cannot connect to an account with this rule, and the member of the rule to change; undefined where they can.
 * Servers close such connections without a word.
 */
export function mqttProblem(rule: BusAccountRuleSpec): { field: string; problem: string } | undefined {
  if (rule.disallowBearer === true)
    return { field: 'disallowBearer', problem: 'forbids tokens that are passwords, as users of MQTT have them' };
  const tiers = Object.values(rule.tieredLimits ?? {});
  const hasStore = [rule, ...tiers].some(
    (store) =>
      STORE_FIELDS.some((field) => store[field] !== undefined) &&
      ![store.memStorage, store.diskStorage].every((size) => size !== undefined && /^0[kmgt]?$/i.test(String(size))),
  );
  return hasStore
    ? undefined
    : { field: 'diskStorage', problem: 'gives no store, which MQTT needs: set diskStorage or memStorage of the rule' };
}
