import { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  BASIC_CONDITIONS,
  type CustomResource,
  conditionsSchema,
  dottedName,
  IDENTITIES,
  nameRule,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
} from '../meta.ts';
import { withRules } from '../rules.ts';
import { integer, object, oneOf, text } from '../schema.ts';
import { BUS_ACCOUNT_KEY, busKeySchema, issuedAtSchema } from './bus-token.ts';

const identity = IDENTITIES.uuidAndId;

/** What an account of the system is for: the servers themselves, the leaf server of one node, the controller. */
const BUS_SYSTEM_ACCOUNTS = ['system', 'leaf', 'controller'] as const;

const busAccountSpecSchema = withRules(
  object({
    name: text({ min: 1, max: BOUNDS.anyName })
      .optional()
      .describe(
        'Name of an account of the system; an account of an application has the name of the application. Immutable.',
      ),
    ...identity.asked,
    application: dottedName().optional().describe('Application that the account is for. Immutable.'),
    busAccess: z
      .boolean()
      .optional()
      .describe('Set by the controller: the application asks for the account, which ends when it no longer does.'),
    rule: text({ min: 1, max: BOUNDS.anyName })
      .optional()
      .describe('BusAccountRule that limits it; a built-in one when absent, or when there is none of this name.'),
    endedKey: text({
      pattern: BUS_ACCOUNT_KEY,
      max: 56,
      expects: 'the key that the condition CredentialsOutdated names',
    })
      .optional()
      .describe('Former key of the account that ends, with all credentials that it signed.'),
    system: oneOf(...BUS_SYSTEM_ACCOUNTS)
      .optional()
      .describe('Set by the controller for its own accounts only. Immutable.'),
    node: text({ min: 1, max: BOUNDS.anyName })
      .optional()
      .describe('Node whose leaf server the account is for. Immutable.'),
  }),
  [
    nameRule,
    { rule: 'immutable', field: 'application', message: 'application is immutable' },
    { rule: 'immutable', field: 'system', message: 'system is immutable' },
    { rule: 'immutable', field: 'node', message: 'node is immutable' },
    {
      rule: 'exactlyOne',
      of: ['application', 'system'],
      message: 'application is required: the controller alone makes accounts of the system',
    },
  ],
);

const busAccountStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
  publicKey: busKeySchema().optional().describe('Key of the account.'),
  issuedAt: issuedAtSchema().optional(),
  revocations: integer(0, Number.MAX_SAFE_INTEGER).optional().describe('Users whose former keys the token refuses.'),
  rule: text({ max: BOUNDS.anyName }).optional().describe('Rule that limits it now.'),
});

export const busAccountResource = {
  kind: 'BusAccount',
  plural: 'busaccounts',
  singular: 'busaccount',
  shortNames: ['bacc'],
  description: 'An account of the message bus: what users of one account publish, users of others do not receive.',
  spec: busAccountSpecSchema,
  status: busAccountStatusSchema.default({ observedGeneration: -1 }),
  identity,
  conditions: [...BASIC_CONDITIONS, 'CredentialsOutdated', 'RuleMissing'],
  selectableFields: ['.spec.name', '.spec.application'],
  printerColumns: [
    { name: 'Application', type: 'string', jsonPath: '.spec.application' },
    { name: 'System', type: 'string', jsonPath: '.spec.system' },
    { name: 'Rule', type: 'string', jsonPath: '.status.rule' },
    READY_COLUMN,
    { name: 'Revocations', type: 'integer', jsonPath: '.status.revocations', priority: 1 },
    AGE_COLUMN,
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type BusAccount = CustomResource<z.infer<typeof busAccountSpecSchema>, z.infer<typeof busAccountStatusSchema>>;
