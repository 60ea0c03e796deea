import { byteSizeOf } from '../../../api/schema.ts';
import type { BusAccountRuleSpec } from '../../../api/v3/index.ts';
import { STORE_FIELDS } from './tokens/claims.ts';

/** Whether accounts with a rule have streams at all; MQTT needs them. */
export function hasStore(rule: BusAccountRuleSpec): boolean {
  const tiers = Object.values(rule.tieredLimits ?? {});
  if (tiers.length > 0) return tiers.some(isOn);
  return STORE_FIELDS.some((field) => rule[field] !== undefined) && isOn(rule);
}

const isOn = ({ memStorage = -1, diskStorage = -1 }: Pick<BusAccountRuleSpec, 'memStorage' | 'diskStorage'>) =>
  [memStorage, diskStorage].some((size) => byteSizeOf(size) !== 0);
