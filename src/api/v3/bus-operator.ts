import type { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  BASIC_CONDITIONS,
  type CustomResource,
  conditionsSchema,
  IDENTITIES,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
} from '../meta.ts';
import { integer, object, text } from '../schema.ts';
import { busKeySchema, busTokenSchema, issuedAtSchema } from './bus-token.ts';

const identity = IDENTITIES.uuid;

const busOperatorSpecSchema = object({
  ...identity.asked,
  rotation: integer(0, Number.MAX_SAFE_INTEGER)
    .optional()
    .describe('Raised to give the operator another key: all accounts are signed again.'),
});

const busOperatorStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
  name: text({ max: BOUNDS.anyName }).optional().describe('Name in its token.'),
  publicKey: busKeySchema().optional().describe('Key that signs accounts.'),
  jwt: busTokenSchema().optional().describe('Its token, which every server of the bus has in its configuration.'),
  issuedAt: issuedAtSchema().optional(),
  rotation: integer(0, Number.MAX_SAFE_INTEGER).optional().describe('Rotation that the key is of.'),
});

export const busOperatorResource = {
  kind: 'BusOperator',
  plural: 'busoperators',
  singular: 'busoperator',
  shortNames: ['bop'],
  description: 'The operator of the message bus, whose key signs accounts: one for each installation.',
  spec: busOperatorSpecSchema,
  status: busOperatorStatusSchema.default({ observedGeneration: -1 }),
  identity,
  hasLabelNames: true,
  conditions: BASIC_CONDITIONS,
  selectableFields: [],
  printerColumns: [
    READY_COLUMN,
    { name: 'Key', type: 'string', jsonPath: '.status.publicKey' },
    { name: 'Rotation', type: 'integer', jsonPath: '.status.rotation', description: 'Rotation that the key is of.' },
    AGE_COLUMN,
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type BusOperator = CustomResource<
  z.infer<typeof busOperatorSpecSchema>,
  z.infer<typeof busOperatorStatusSchema>
>;
