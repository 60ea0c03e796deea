import type { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  BASIC_CONDITIONS,
  type CustomResource,
  IDENTITIES,
  READY_COLUMN,
  type ResourceDefinition,
} from '../meta.ts';
import { withRules } from '../rules.ts';
import { object, oneOf, text } from '../schema.ts';
import { expirationSchema, issuedSchema, keyAlgorithmSchema, RENEWED_COLUMN, subjectSchema } from './issued.ts';

const identity = IDENTITIES.uuid;

export const certificateAuthoritySpecSchema = withRules(
  object({
    ...identity.asked,
    type: oneOf('self-signed', 'direct', 'k8s-secret')
      .optional()
      .describe(
        'self-signed (when absent): the controller makes the key and renews the certificate. direct and k8s-secret: key and certificate are those of a shareable Secret, and its owner renews them.',
      ),
    subject: subjectSchema
      .optional()
      .describe('Common name of the authority; its name when absent. Only of type self-signed.'),
    expiration: expirationSchema.optional().describe('Life: months below 1000, else ms; 60 months when absent.'),
    keyAlgorithm: keyAlgorithmSchema,
    secretName: text({ min: 1, max: BOUNDS.anyName })
      .optional()
      .describe('Shareable Secret with tls.crt and tls.key, by its v3 name. Not of type self-signed.'),
  }),
  [
    {
      rule: 'unlessEquals',
      field: 'type',
      value: 'self-signed',
      needs: 'secretName',
      message: 'secretName is required for the types direct and k8s-secret, and no member of type self-signed',
    },
  ],
);

const certificateAuthorityStatusSchema = object({ ...issuedSchema(identity) });

export const certificateAuthorityResource = {
  kind: 'CertificateAuthority',
  plural: 'certificateauthorities',
  singular: 'certificateauthority',
  shortNames: ['ca'],
  description: 'An authority that signs certificates.',
  spec: certificateAuthoritySpecSchema,
  status: certificateAuthorityStatusSchema.default({ observedGeneration: -1 }),
  identity,
  hasLabelNames: true,
  conditions: BASIC_CONDITIONS,
  selectableFields: [],
  printerColumns: [
    { name: 'Type', type: 'string', jsonPath: '.spec.type' },
    READY_COLUMN,
    { name: 'Expires', type: 'string', jsonPath: '.status.notAfter' },
    RENEWED_COLUMN,
    AGE_COLUMN,
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type CertificateAuthority = CustomResource<
  z.infer<typeof certificateAuthoritySpecSchema>,
  z.infer<typeof certificateAuthorityStatusSchema>
>;
