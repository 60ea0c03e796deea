import { z } from 'zod';
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
import { withRules } from '../rules.ts';
import { atomicList, object } from '../schema.ts';
import { groupName } from './auth-user.ts';

const identity = IDENTITIES.id;

const authGroupSpecSchema = withRules(
  object({
    ...identity.asked,
    name: groupName().optional().describe('Name of the group; metadata.name when absent.'),
    aliases: atomicList(groupName(), BOUNDS.groupAliases)
      .optional()
      .describe('Former names, which count as the group while it exists: users are not rewritten by a rename.'),
    mfaRequired: z.boolean().optional().describe('Its members log in with a second factor.'),
  }),
  [],
);

const authGroupStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
});

export const authGroupResource = {
  kind: 'AuthGroup',
  plural: 'authgroups',
  singular: 'authgroup',
  shortNames: ['ag'],
  description: 'A group of users who log in at the controller. Role bindings give it its permissions.',
  spec: authGroupSpecSchema,
  status: authGroupStatusSchema.default({ observedGeneration: -1 }),
  identity,
  conditions: BASIC_CONDITIONS,
  selectableFields: ['.spec.name'],
  printerColumns: [
    { name: 'MFA', type: 'boolean', jsonPath: '.spec.mfaRequired', description: 'Its members need a second factor.' },
    READY_COLUMN,
    AGE_COLUMN,
    { name: 'ID', type: 'integer', jsonPath: '.status.id', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type AuthGroup = CustomResource<z.infer<typeof authGroupSpecSchema>, z.infer<typeof authGroupStatusSchema>>;
