import { z } from 'zod';
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
import { integer, object } from '../schema.ts';

const identity = IDENTITIES.uuid;
const number = (min: number, max: number, what: string, fallback: number) =>
  integer(min, max).optional().describe(`${what}; ${fallback} when absent.`);

const authPolicySpecSchema = withRules(
  object({
    ...identity.asked,
    minPasswordLength: number(8, 128, 'Least characters of a password', 12),
    passwordHistoryCount: number(0, 24, 'Former passwords that a user may not take again', 5),
    maxFailedAttempts: number(1, 100, 'Failed attempts until an account is locked', 5),
    lockoutDurationMinutes: number(1, 1440, 'Minutes that an account is locked', 15),
    accessTokenTtlSeconds: number(60, 3600, 'Seconds that an access token is valid', 900),
    refreshTokenTtlSeconds: number(300, 43_200, 'Seconds that a refresh token is valid', 3600),
    refreshRotation: z
      .boolean()
      .optional()
      .describe('Each use of a refresh token replaces it, and a second use ends the login; true when absent.'),
    familyMaxAgeHours: number(1, 720, 'Hours until a login ends whatever its tokens say', 12),
    maxConcurrentSessions: number(1, 10, 'Logins of one user at the same time: the next ends the oldest', 10),
    bootstrapExemptFromMfa: z
      .boolean()
      .optional()
      .describe('The first administrator logs in without a second factor; true when absent.'),
  }),
  [],
);

const authPolicyStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
});

export const authPolicyResource = {
  kind: 'AuthPolicy',
  plural: 'authpolicies',
  singular: 'authpolicy',
  shortNames: ['ap'],
  description: 'Rules of passwords and logins of this installation: the object default.',
  spec: authPolicySpecSchema,
  status: authPolicyStatusSchema.default({ observedGeneration: -1 }),
  identity,
  hasLabelNames: true,
  conditions: BASIC_CONDITIONS,
  selectableFields: [],
  printerColumns: [READY_COLUMN, AGE_COLUMN],
} satisfies ResourceDefinition;

export type AuthPolicy = CustomResource<z.infer<typeof authPolicySpecSchema>, z.infer<typeof authPolicyStatusSchema>>;
