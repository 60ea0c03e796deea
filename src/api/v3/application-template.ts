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
import { object, text } from '../schema.ts';
import { templateBodySchema, templateVariablesSchema } from './microservice-template.ts';

const identity = IDENTITIES.id;

/** Unlike other kinds it can be renamed: nothing refers to it once it was rendered. */
export const applicationTemplateSpecSchema = object({
  name: dottedName().optional().describe('Name in the v3 API; metadata.name when absent.'),
  ...identity.asked,
  description: text({ max: BOUNDS.description }).optional().describe('What it is, for people.'),
  variables: templateVariablesSchema.optional(),
  application: templateBodySchema.describe(
    'Fields of an application, as an Application or a REST body has them; texts may be expressions.',
  ),
});

const statusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  name: dottedName().optional().describe('The v3 name that it has; absent while that name belongs to another one.'),
  conditions: conditionsSchema.optional(),
});

export const applicationTemplateResource = {
  kind: 'ApplicationTemplate',
  plural: 'applicationtemplates',
  singular: 'applicationtemplate',
  shortNames: ['at'],
  description: 'An application with variables; Applications are made from it.',
  spec: applicationTemplateSpecSchema,
  status: statusSchema.default({ observedGeneration: -1 }),
  identity,
  conditions: BASIC_CONDITIONS,
  selectableFields: ['.spec.name'],
  printerColumns: [
    { name: 'Id', type: 'integer', jsonPath: '.status.id' },
    READY_COLUMN,
    { name: 'Description', type: 'string', jsonPath: '.spec.description' },
    AGE_COLUMN,
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

type ApplicationTemplateSpec = z.infer<typeof applicationTemplateSpecSchema>;
export type ApplicationTemplate = CustomResource<ApplicationTemplateSpec, z.infer<typeof statusSchema>>;
