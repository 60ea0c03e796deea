import type { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  type CustomResource,
  conditionsSchema,
  IDENTITIES,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
} from '../meta.ts';
import { withRules } from '../rules.ts';
import { atomicList, object, text } from '../schema.ts';

const identity = IDENTITIES.uuid;

/** Name of a group as users have it. */
export const groupName = () =>
  text({
    min: 1,
    max: 63,
    pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
    expects: 'a name of at most 63 lower-case letters, digits and "-"',
  });

const authUserSpecSchema = withRules(
  object({
    ...identity.asked,
    email: text({
      min: 1,
      max: BOUNDS.email,
      pattern: '^[^ A-Z]+$',
      expects: 'an e-mail address in lower case, without spaces',
    }).describe('E-mail address, which is the name of the user: in lower case.'),
    groups: atomicList(groupName(), BOUNDS.groupsOfUser).optional().describe('Groups that it belongs to, by name.'),
  }),
  [],
);

const email = () => text({ max: BOUNDS.email });
const authUserStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  name: email().optional().describe('The name of the user in role bindings: a new e-mail counts once they have it.'),
  formerEmails: atomicList(
    object({
      email: email().describe('A former e-mail.'),
      until: text({ max: 64 }).describe('When it belongs to nobody any more (RFC 3339).'),
    }),
    BOUNDS.formerEmails,
  )
    .optional()
    .describe('Names that tokens of the user may still say. Role bindings keep them, and nobody else gets them.'),
  conditions: conditionsSchema.optional(),
});

export const authUserResource = {
  kind: 'AuthUser',
  plural: 'authusers',
  singular: 'authuser',
  shortNames: ['au'],
  description: 'A person who logs in at the controller. The password is in a Secret that only the controller uses.',
  spec: authUserSpecSchema,
  status: authUserStatusSchema.default({ observedGeneration: -1 }),
  identity,
  conditions: ['Ready', 'MayLogIn', 'Reconciling', 'Stalled'],
  selectableFields: ['.spec.email'],
  printerColumns: [
    { name: 'Email', type: 'string', jsonPath: '.spec.email' },
    { name: 'Groups', type: 'string', jsonPath: '.spec.groups' },
    READY_COLUMN,
    {
      name: 'Login',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="MayLogIn")].reason',
      description: 'Whether the user may log in, or why not.',
    },
    AGE_COLUMN,
    { name: 'UUID', type: 'string', jsonPath: '.status.uuid', priority: 1 },
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type AuthUser = CustomResource<z.infer<typeof authUserSpecSchema>, z.infer<typeof authUserStatusSchema>>;
