import { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  BASIC_CONDITIONS,
  type CustomResource,
  conditionsSchema,
  IDENTITIES,
  nameRule,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
  uuidSchema,
} from '../meta.ts';
import { withRules } from '../rules.ts';
import { object, text } from '../schema.ts';
import { busKeySchema, issuedAtSchema } from './bus-token.ts';

const identity = IDENTITIES.uuidAndId;

const TIME = '[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?Z';

const immutable = (field: string) => ({ rule: 'immutable' as const, field, message: `${field} is immutable` });

const busUserSpecSchema = withRules(
  object({
    name: text({ min: 1, max: BOUNDS.anyName })
      .optional()
      .describe('Name in its account; metadata.name when absent. Immutable.'),
    ...identity.asked,
    account: text({ min: 1, max: BOUNDS.anyName }).describe('BusAccount that it belongs to, by name. Immutable.'),
    rule: text({ min: 1, max: BOUNDS.anyName })
      .optional()
      .describe('BusUserRule that limits it; a built-in one when absent, or when there is none of this name.'),
    isBearer: z
      .boolean()
      .optional()
      .describe('A user of MQTT, whose token is its password: whoever has the token is the user. Immutable.'),
    expiresAt: text({ max: 64, pattern: `^${TIME}$`, expects: 'a time such as 2030-01-31T12:00:00Z' })
      .optional()
      .describe('When its token ends (RFC 3339, UTC); never when absent.'),
    microserviceUuid: uuidSchema
      .optional()
      .describe('Set by the controller: the microservice that it is for. Immutable.'),
    node: text({ min: 1, max: BOUNDS.anyName })
      .optional()
      .describe('Set by the controller: the node whose bus server it is for. Immutable.'),
  }),
  [
    nameRule,
    ...['account', 'isBearer', 'microserviceUuid', 'node'].map(immutable),
    {
      rule: 'atMostOne',
      of: ['microserviceUuid', 'node', 'expiresAt'],
      message: 'users of microservices and of nodes do not expire',
    },
  ],
);

const busUserStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
  publicKey: busKeySchema().optional().describe('Key of the user.'),
  issuedAt: issuedAtSchema().optional(),
  rule: text({ max: BOUNDS.anyName }).optional().describe('Rule that limits it now.'),
});

export const busUserResource = {
  kind: 'BusUser',
  plural: 'bususers',
  singular: 'bususer',
  shortNames: ['busr'],
  description: 'A user of an account of the message bus: a microservice, a device, a program, or a leaf server.',
  spec: busUserSpecSchema,
  status: busUserStatusSchema.default({ observedGeneration: -1 }),
  identity,
  conditions: [...BASIC_CONDITIONS, 'RuleMissing'],
  selectableFields: ['.spec.name', '.spec.account'],
  printerColumns: [
    { name: 'Account', type: 'string', jsonPath: '.spec.account' },
    { name: 'User', type: 'string', jsonPath: '.spec.name' },
    { name: 'Rule', type: 'string', jsonPath: '.status.rule' },
    READY_COLUMN,
    { name: 'Expires', type: 'string', jsonPath: '.spec.expiresAt', priority: 1 },
    AGE_COLUMN,
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type BusUser = CustomResource<z.infer<typeof busUserSpecSchema>, z.infer<typeof busUserStatusSchema>>;
