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

const LABEL = '[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?';
/** The last label of a name has more than digits, unlike the last part of an address. */
const LAST = '([0-9][-0-9]*)?[A-Za-z_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?';
/** A host name, or one with a wildcard as its first label (RFC 1123, RFC 6125), or roughly an address of IPv4 or IPv6. */
const HOST = `((\\*\\.)?(${LABEL}\\.)*${LAST}|[0-9]{1,3}(\\.[0-9]{1,3}){3}|[0-9A-Fa-f.]*:[0-9A-Fa-f.:]+)`;

/** What signs a certificate. */
const caSchema = withRules(
  object({
    type: oneOf('self-signed', 'direct', 'k8s-secret').describe(
      'direct and k8s-secret: an authority signs it. self-signed: its own key does.',
    ),
    secretName: text({ min: 1, max: BOUNDS.anyName })
      .optional()
      .describe('A CertificateAuthority, else a shareable Secret with tls.crt and tls.key of an authority, by name.'),
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

export const certificateSpecSchema = object({
  ...identity.asked,
  subject: subjectSchema.describe('Common name of the certificate.'),
  hosts: text({
    min: 1,
    max: 4_096,
    pattern: `^ *${HOST} *(, *${HOST} *)*$`,
    expects: 'host names and IP addresses with commas between them',
  }).describe(
    'Host names and IP addresses with commas between them. An address is in the certificate as address and as name.',
  ),
  expiration: expirationSchema.optional().describe('Life: months below 1000, else ms; 60 months when absent.'),
  keyAlgorithm: keyAlgorithmSchema,
  ca: caSchema.optional().describe('What signs it; its own key when absent.'),
});

const certificateStatusSchema = object({
  ...issuedSchema(identity),
  secretName: text({ max: BOUNDS.name }).optional().describe('Secret with tls.crt, tls.key and ca.crt; shareable.'),
});

export const certificateResource = {
  kind: 'Certificate',
  plural: 'certificates',
  singular: 'certificate',
  shortNames: ['cert'],
  description: 'A key and its certificate, which the controller renews.',
  spec: certificateSpecSchema,
  status: certificateStatusSchema.default({ observedGeneration: -1 }),
  identity,
  hasLabelNames: true,
  conditions: BASIC_CONDITIONS,
  selectableFields: [],
  printerColumns: [
    { name: 'Authority', type: 'string', jsonPath: '.spec.ca.secretName' },
    READY_COLUMN,
    { name: 'Expires', type: 'string', jsonPath: '.status.notAfter' },
    { name: 'Secret', type: 'string', jsonPath: '.status.secretName', priority: 1 },
    RENEWED_COLUMN,
    AGE_COLUMN,
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type Certificate = CustomResource<
  z.infer<typeof certificateSpecSchema>,
  z.infer<typeof certificateStatusSchema>
>;
