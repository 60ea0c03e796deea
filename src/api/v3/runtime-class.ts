import type { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  BASIC_CONDITIONS,
  type CustomResource,
  conditionsSchema,
  dottedName,
  IDENTITIES,
  nodesSchema,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
} from '../meta.ts';
import { withRules } from '../rules.ts';
import { object } from '../schema.ts';

const identity = IDENTITIES.uuid;

export const runtimeClassSpecSchema = withRules(
  object({
    ...identity.asked,
    handler: dottedName(BOUNDS.name).describe('Runtime of the container engine, for example crun or nvidia-cdi.'),
    nodes: nodesSchema,
  }),
  [],
);

const runtimeClassStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
});

export const runtimeClassResource = {
  kind: 'RuntimeClass',
  plural: 'runtimeclasses',
  singular: 'runtimeclass',
  shortNames: [],
  description: 'A name by which microservices ask for a runtime of the container engine.',
  spec: runtimeClassSpecSchema,
  status: runtimeClassStatusSchema.default({ observedGeneration: -1 }),
  identity,
  hasLabelNames: true,
  conditions: BASIC_CONDITIONS,
  selectableFields: [],
  printerColumns: [
    { name: 'Handler', type: 'string', jsonPath: '.spec.handler' },
    READY_COLUMN,
    AGE_COLUMN,
    { name: 'UUID', type: 'string', jsonPath: '.status.uuid', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type RuntimeClass = CustomResource<
  z.infer<typeof runtimeClassSpecSchema>,
  z.infer<typeof runtimeClassStatusSchema>
>;
