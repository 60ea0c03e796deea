import { expect, test } from 'vitest';
import type { BusAccountRuleSpec } from '../../../api/v3/index.ts';
import { RESERVED_ACCOUNT_RULES } from '../../bus-rules/rules/reserved-rules.ts';
import { mqttProblem } from './mqtt.ts';

test.each<[string, BusAccountRuleSpec, string | undefined]>([
  ['without a store', {}, 'diskStorage'],
  ['with a store of nothing', { memStorage: 0, diskStorage: '0' }, 'diskStorage'],
  ['with a store of nothing in a unit', { memStorage: '0k', diskStorage: 0, streams: 3 }, 'diskStorage'],
  ['with a disk', { diskStorage: '1g' }, undefined],
  ['with memory alone', { memStorage: 1, diskStorage: 0 }, undefined],
  ['with tiers', { tieredLimits: { R1: { diskStorage: -1 } } }, undefined],
  ['that forbids bearer tokens', { diskStorage: -1, disallowBearer: true }, 'disallowBearer'],
])('users of MQTT need a rule that lets them in: a rule %s', (_, rule, field) => {
  expect(mqttProblem(rule)?.field).toBe(field);
});

test('the rule of applications without one lets users of MQTT in', () => {
  const rule = RESERVED_ACCOUNT_RULES.find(({ name }) => name === 'default-account');
  expect(mqttProblem(rule?.spec ?? {})).toBeUndefined();
});
