import { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import { BASIC_CONDITIONS, type CustomResource, IDENTITIES, nameRule, type ResourceDefinition } from '../meta.ts';
import { withRules } from '../rules.ts';
import { atomicList, object, oneOf, text } from '../schema.ts';
import {
  byteLimit,
  filledList,
  latinText,
  limit,
  permissions,
  RULE_COLUMNS,
  ruleName,
  ruleStatus,
} from './bus-rule.ts';

const identity = IDENTITIES.uuid;

const time = (what: string) =>
  text({
    max: 8,
    pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$',
    expects: 'a time of day as hh:mm:ss, from 00:00:00 to 23:59:59',
  }).describe(what);

export const busUserRuleSpecSchema = withRules(
  object({
    name: ruleName,
    ...identity.asked,
    description: latinText(BOUNDS.description).optional().describe('What the rule is for; tokens do not have it.'),
    maxSubscriptions: limit('Subscriptions.'),
    maxData: byteLimit('Bytes in all.'),
    maxPayload: byteLimit('Bytes of one message.'),
    bearerToken: z
      .boolean()
      .optional()
      .describe('Whether the token alone admits, without a signature by its key, as MQTT devices need it.'),
    proxyRequired: z.boolean().optional().describe('Whether users have to connect through a trusted proxy.'),
    allowedConnectionTypes: filledList(
      oneOf('STANDARD', 'WEBSOCKET', 'LEAFNODE', 'LEAFNODE_WS', 'MQTT', 'MQTT_WS', 'IN_PROCESS'),
      7,
    )
      .optional()
      .describe('How users may connect; in every way when absent.'),
    src: filledList(
      text({
        min: 1,
        max: 64,
        pattern: '^[0-9a-fA-F:.]+(/[0-9]{1,3})?$',
        expects: 'an IP address or a CIDR, such as 10.0.0.7 or 10.0.0.0/8',
      }),
      BOUNDS.busSources,
    )
      .optional()
      .describe('Addresses from which users may connect; all when absent.'),
    times: filledList(
      object({ start: time('Start of the time, hh:mm:ss.'), end: time('End of the time, hh:mm:ss.') }),
      BOUNDS.busTimes,
    )
      .optional()
      .describe('Times of the day at which users may be connected; always when absent.'),
    timesLocation: latinText(64, 1)
      .optional()
      .describe('Time zone of `times`, such as Europe/Berlin; the zone of the server when absent.'),
    ...permissions('users'),
    tags: atomicList(latinText(BOUNDS.anyName, 1), BOUNDS.tags)
      .optional()
      .describe('Words about users, which the server shows.'),
  }),
  [nameRule],
);

const busUserRuleStatusSchema = ruleStatus(identity.recorded);

export const busUserRuleResource = {
  kind: 'BusUserRule',
  plural: 'bususerrules',
  singular: 'bususerrule',
  shortNames: ['bur'],
  description: 'What a user of the message bus may do: permissions, limits, and when and from where it may connect.',
  spec: busUserRuleSpecSchema,
  status: busUserRuleStatusSchema.default({ observedGeneration: -1 }),
  identity,
  conditions: BASIC_CONDITIONS,
  selectableFields: ['.spec.name'],
  printerColumns: RULE_COLUMNS,
} satisfies ResourceDefinition;

export type BusUserRuleSpec = z.infer<typeof busUserRuleSpecSchema>;
export type BusUserRule = CustomResource<BusUserRuleSpec, z.infer<typeof busUserRuleStatusSchema>>;
