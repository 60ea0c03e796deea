import type { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  BASIC_CONDITIONS,
  type CustomResource,
  conditionsSchema,
  IDENTITIES,
  nodesSchema,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
} from '../meta.ts';
import { withRules } from '../rules.ts';
import { integer, object, text } from '../schema.ts';

const identity = IDENTITIES.uuid;

const source = (kind: string) =>
  text({ min: 1, max: BOUNDS.anyName })
    .optional()
    .describe(`${kind} with the content, by its v3 name; it must be shareable.`);

export const volumeMountSpecSchema = withRules(
  object({
    ...identity.asked,
    secretName: source('Secret'),
    configMapName: source('ConfigMap'),
    nodes: nodesSchema,
  }),
  [
    {
      rule: 'exactlyOne',
      of: ['secretName', 'configMapName'],
      message: 'a volume mount needs exactly one of secretName and configMapName',
    },
  ],
);

const volumeMountStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  version: integer(1, Number.MAX_SAFE_INTEGER)
    .optional()
    .describe('Counts the changes of the volume mount and of its content.'),
  content: text({ max: 128 }).optional().describe('Names the content that the version counts; says nothing about it.'),
  conditions: conditionsSchema.optional(),
});

export const volumeMountResource = {
  kind: 'VolumeMount',
  plural: 'volumemounts',
  singular: 'volumemount',
  shortNames: ['vm'],
  description: 'The content of a Secret or ConfigMap as files on nodes.',
  spec: volumeMountSpecSchema,
  status: volumeMountStatusSchema.default({ observedGeneration: -1 }),
  identity,
  hasLabelNames: true,
  conditions: BASIC_CONDITIONS,
  selectableFields: [],
  printerColumns: [
    { name: 'Secret', type: 'string', jsonPath: '.spec.secretName' },
    { name: 'ConfigMap', type: 'string', jsonPath: '.spec.configMapName' },
    { name: 'Version', type: 'integer', jsonPath: '.status.version' },
    READY_COLUMN,
    AGE_COLUMN,
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type VolumeMount = CustomResource<
  z.infer<typeof volumeMountSpecSchema>,
  z.infer<typeof volumeMountStatusSchema>
>;
