import type { z } from 'zod';
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
import { object } from '../schema.ts';
import { roleRefSchema } from './microservice.ts';

const identity = IDENTITIES.id;

export const serviceAccountSpecSchema = withRules(
  object({
    name: dottedName().optional().describe('Name in its application; metadata.name when absent. Immutable.'),
    ...identity.asked,
    applicationName: dottedName().describe('Application that the account belongs to. Immutable.'),
    roleRef: roleRefSchema.describe('Role of the workload in the local API of its agent.'),
  }),
  [nameRule, { rule: 'immutable', field: 'applicationName', message: 'applicationName is immutable' }],
);

const serviceAccountStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
});

export const serviceAccountResource = {
  kind: 'ServiceAccount',
  plural: 'serviceaccounts',
  singular: 'serviceaccount',
  shortNames: ['esa'],
  description:
    'The account of a microservice in the local API of its agent: what the microservice of that name may do there.',
  spec: serviceAccountSpecSchema,
  status: serviceAccountStatusSchema.default({ observedGeneration: -1 }),
  identity,
  conditions: BASIC_CONDITIONS,
  selectableFields: ['.spec.applicationName'],
  printerColumns: [
    { name: 'Application', type: 'string', jsonPath: '.spec.applicationName' },
    { name: 'Role', type: 'string', jsonPath: '.spec.roleRef.name' },
    READY_COLUMN,
    AGE_COLUMN,
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type ServiceAccount = CustomResource<
  z.infer<typeof serviceAccountSpecSchema>,
  z.infer<typeof serviceAccountStatusSchema>
>;
