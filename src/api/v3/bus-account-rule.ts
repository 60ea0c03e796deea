import { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import { BASIC_CONDITIONS, type CustomResource, IDENTITIES, nameRule, type ResourceDefinition } from '../meta.ts';
import { withRules } from '../rules.ts';
import { atomicList, integer, mapOf, object, oneOf, text } from '../schema.ts';
import {
  byteLimit,
  latinText,
  limit,
  permissions,
  RULE_COLUMNS,
  ruleName,
  ruleStatus,
  subjectText,
} from './bus-rule.ts';
import { BUS_ACCOUNT_KEY } from './bus-token.ts';

const identity = IDENTITIES.uuid;

const infoUrl = latinText(BOUNDS.url).optional().describe('URL with more about it, for people.');

/** Members that imports and exports share. */
const share = {
  name: latinText(BOUNDS.anyName).optional().describe('What it is called, for people.'),
  type: oneOf('stream', 'service').describe('stream: messages of the exporter; service: requests to the exporter.'),
};

const importSchema = object({
  ...share,
  subject: subjectText().describe('Subject of the exporting account.'),
  account: text({
    min: 56,
    max: 56,
    pattern: BUS_ACCOUNT_KEY,
    expects: 'the public key of an account: A and 55 characters of base32',
  }).describe('Public key of the exporting account.'),
  token: text({ max: BOUNDS.busActivation, pattern: '^[0-9A-Za-z_.\\-]*$', expects: 'an activation token (a JWT)' })
    .optional()
    .describe('Activation token, where the export asks for one.'),
  local_subject: subjectText()
    .optional()
    .describe('Subject in this account, in which $1 is the first wildcard of `subject`; `subject` when absent.'),
  share: z.boolean().optional().describe('Of a service: whether its exporter sees who asks.'),
});

const exportSchema = object({
  ...share,
  subject: subjectText().describe('Subject of this account; wildcards need exportsAllowWildcards.'),
  description: latinText(BOUNDS.anyName).optional().describe('What it is, for people.'),
  info_url: infoUrl,
  token_req: z.boolean().optional().describe('Whether importers need an activation token.'),
  response_type: oneOf('Singleton', 'Stream', 'Chunked')
    .optional()
    .describe('Of a service: one reply, many, or one in parts; Singleton when absent.'),
  account_token_position: integer(1, 127)
    .optional()
    .describe('Which token of the subject, from 1, is the public key of the importer; it is a "*".'),
});

const storage = {
  memStorage: byteLimit('Bytes of streams in memory; 0: none.'),
  diskStorage: byteLimit('Bytes of streams on disk; 0: none.'),
  streams: limit('Streams.'),
  consumer: limit('Consumers.'),
  maxAckPending: limit('Messages of a consumer without acknowledgement.'),
  memMaxStreamBytes: byteLimit('Bytes of one stream in memory; 0: no limit.'),
  diskMaxStreamBytes: byteLimit('Bytes of one stream on disk; 0: no limit.'),
  maxBytesRequired: z.boolean().optional().describe('Whether each stream has to state its greatest size.'),
};

const fields = {
  description: latinText(BOUNDS.description).optional().describe('What the rule is for.'),
  infoUrl,
  maxConnections: limit('Connections of clients.'),
  maxLeafNodeConnections: limit('Connections of leaf nodes.'),
  maxSubscriptions: limit('Subscriptions.'),
  maxImports: limit('Imports.'),
  maxExports: limit('Exports.'),
  maxData: byteLimit('Bytes in all.'),
  maxMsgPayload: byteLimit('Bytes of one message.'),
  exportsAllowWildcards: z.boolean().optional().describe('Whether exports may have wildcards; true when absent.'),
  disallowBearer: z.boolean().optional().describe('Refuses bearer tokens, which MQTT devices have.'),
  ...permissions('users without permissions of their own'),
  ...storage,
  tieredLimits: mapOf(object(storage), BOUNDS.busTiers)
    .optional()
    .describe('Store limits by tier (R1, R3), in place of the limits above.'),
  imports: atomicList(importSchema, BOUNDS.busShares).optional().describe('What comes from other accounts.'),
  exports: atomicList(exportSchema, BOUNDS.busShares).optional().describe('What other accounts may import.'),
  responsePermissions: object({
    maxMsgs: integer(0, Number.MAX_SAFE_INTEGER).optional().describe('Number of replies.'),
    expires: integer(0, Number.MAX_SAFE_INTEGER).optional().describe('Nanoseconds.'),
  })
    .optional()
    .describe('Stored and without effect: respMax and respTtl count.'),
};

export const busAccountRuleSpecSchema = withRules(object({ name: ruleName, ...identity.asked, ...fields }), [nameRule]);

const busAccountRuleStatusSchema = ruleStatus(identity.recorded);

export const busAccountRuleResource = {
  kind: 'BusAccountRule',
  plural: 'busaccountrules',
  singular: 'busaccountrule',
  shortNames: ['bar'],
  description: 'What an account of the message bus may do: limits, store, imports and exports, default permissions.',
  spec: busAccountRuleSpecSchema,
  status: busAccountRuleStatusSchema.default({ observedGeneration: -1 }),
  identity,
  conditions: BASIC_CONDITIONS,
  selectableFields: ['.spec.name'],
  printerColumns: RULE_COLUMNS,
} satisfies ResourceDefinition;

export type BusAccountRuleSpec = z.infer<typeof busAccountRuleSpecSchema>;
export type BusAccountRule = CustomResource<BusAccountRuleSpec, z.infer<typeof busAccountRuleStatusSchema>>;
