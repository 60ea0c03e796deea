import type { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  BASIC_CONDITIONS,
  type CustomResource,
  conditionsSchema,
  dottedName,
  IDENTITIES,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
} from '../meta.ts';
import { withRules } from '../rules.ts';
import { anyJson, mapList, mapOf, object, text } from '../schema.ts';

export const templateVariablesSchema = mapList(
  object({
    key: dottedName(BOUNDS.entryName).describe('Name in expressions: {{ key }}.'),
    description: text({ max: BOUNDS.description }).optional().describe('What it is for.'),
    defaultValue: anyJson().optional().describe('Value where none is given; any JSON. Without it a value is required.'),
  }),
  ['key'],
  BOUNDS.templateVariables,
).describe('Values that expressions of the template use.');

/** The body of a template: texts in it may be expressions, so that it has no schema until it is rendered. */
export const templateBodySchema = mapOf(anyJson(), BOUNDS.templateMembers);

const identity = IDENTITIES.uuid;

export const microserviceTemplateSpecSchema = withRules(
  object({
    ...identity.asked,
    description: text({ max: BOUNDS.description }).optional().describe('What it is, for people.'),
    variables: templateVariablesSchema.optional(),
    microservice: templateBodySchema.describe(
      'Fields of a microservice, as an entry of an Application or a REST body has them; texts may be expressions.',
    ),
  }),
  [],
);

const statusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
});

export const microserviceTemplateResource = {
  kind: 'MicroserviceTemplate',
  plural: 'microservicetemplates',
  singular: 'microservicetemplate',
  shortNames: ['mst'],
  description: 'What several microservices have in common; an entry of an Application names it and gives variables.',
  spec: microserviceTemplateSpecSchema,
  status: statusSchema.default({ observedGeneration: -1 }),
  identity,
  hasLabelNames: true,
  conditions: BASIC_CONDITIONS,
  selectableFields: [],
  printerColumns: [
    READY_COLUMN,
    { name: 'Description', type: 'string', jsonPath: '.spec.description' },
    AGE_COLUMN,
    { name: 'UUID', type: 'string', jsonPath: '.status.uuid', priority: 1 },
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

type MicroserviceTemplateSpec = z.infer<typeof microserviceTemplateSpecSchema>;
export type MicroserviceTemplate = CustomResource<MicroserviceTemplateSpec, z.infer<typeof statusSchema>>;
/** Variables as a template declares them. */
export type TemplateVariables = z.infer<typeof templateVariablesSchema>;
