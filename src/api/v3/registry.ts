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
  secretKeyRefSchema,
} from '../meta.ts';
import { type Rule, withRules } from '../rules.ts';
import { object, oneOf, text } from '../schema.ts';

/** A host and port, optionally with scheme and path. The pattern is unambiguous, so that all parts agree on the host. */
const REGISTRY_URL_PATTERN =
  '^([Hh][Tt][Tt][Pp][Ss]?://)?([A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?(/[^ @]*)?$';

const identity = IDENTITIES.id;

export const passwordRule: Rule = {
  rule: 'staysAtDestination',
  field: 'passwordSecretRef',
  message:
    'a password does not follow its registry to another host, to plain HTTP, away from verified TLS or to another CA: remove passwordSecretRef in the same change, or name another',
};

export const registrySpecSchema = withRules(
  object({
    name: text({ min: 1, max: BOUNDS.anyName })
      .optional()
      .describe('Name in references; metadata.name when absent. Immutable.'),
    ...identity.asked,
    url: text({
      min: 1,
      max: BOUNDS.url,
      pattern: REGISTRY_URL_PATTERN,
      expects: 'a host such as registry.example:5000, or an http or https URL of one, without credentials',
    }).describe('Host of the registry, with port and scheme where needed.'),
    isPublic: z.boolean().default(true).describe('Whether pulls need no credentials.'),
    username: text({ max: BOUNDS.name }).optional().describe('User name for pulls.'),
    passwordSecretRef: secretKeyRefSchema
      .optional()
      .describe(
        'Secret with the password, labelled skerry.dev/shareable=true, or with the annotation skerry.dev/registry that names where its passwords may be sent.',
      ),
    email: text({ max: BOUNDS.name, pattern: '^[^ @]+@[^ @]+$', expects: 'a mail address' })
      .optional()
      .describe('Contact of the account.'),
    type: oneOf('oci', 'hub', 'hf')
      .default('oci')
      .describe('oci for container images; hub for a model hub (hf is another spelling).'),
    ca: text({ max: BOUNDS.certificateBundle })
      .optional()
      .describe('CA certificates to trust in addition to those of the system: PEM bundle in base64.'),
    insecure: z.boolean().default(false).describe('Allow plain HTTP and skip the check of certificates.'),
  }),
  [nameRule, passwordRule],
);

const registryStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
});

export const registryResource = {
  kind: 'Registry',
  plural: 'registries',
  singular: 'registry',
  shortNames: ['reg'],
  description: 'A container registry or model hub that nodes pull from.',
  spec: registrySpecSchema,
  status: registryStatusSchema.default({ observedGeneration: -1 }),
  identity,
  conditions: BASIC_CONDITIONS,
  selectableFields: [],
  printerColumns: [
    { name: 'Id', type: 'integer', jsonPath: '.status.id' },
    { name: 'URL', type: 'string', jsonPath: '.spec.url' },
    { name: 'Type', type: 'string', jsonPath: '.spec.type' },
    READY_COLUMN,
    AGE_COLUMN,
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type RegistrySpec = z.infer<typeof registrySpecSchema>;
type RegistryStatus = z.infer<typeof registryStatusSchema>;
export type Registry = CustomResource<RegistrySpec, RegistryStatus>;
