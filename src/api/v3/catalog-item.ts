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
} from '../meta.ts';
import { ARCHITECTURES } from '../names.ts';
import { withRules } from '../rules.ts';
import { integer, integerOrText, mapList, object, text } from '../schema.ts';
import { imageReference } from './microservice.ts';

const identity = IDENTITIES.id;

const imageSchema = object({
  archId: integer(1, ARCHITECTURES.length - 1).describe('Architecture: 1 amd64, 2 arm64, 3 riscv64, 4 arm.'),
  containerImage: imageReference.describe('Image for that architecture.'),
});

const infoType = (what: string) =>
  object({
    infoType: text({ max: BOUNDS.anyName }).optional().describe(`What kind of information the ${what} is.`),
    infoFormat: text({ max: BOUNDS.anyName }).optional().describe(`Format of the ${what}.`),
  })
    .optional()
    .describe(`The ${what} of the microservice, for people.`);

export const catalogItemSpecSchema = withRules(
  object({
    name: text({ min: 1, max: BOUNDS.anyName })
      .optional()
      .describe('Name in references; metadata.name when absent. Immutable.'),
    ...identity.asked,
    description: text({ max: BOUNDS.description }).optional().describe('What it is, for people.'),
    category: text({ max: BOUNDS.anyName }).optional().describe('Group of items; SYSTEM for the built-in ones.'),
    publisher: text({ max: BOUNDS.anyName }).optional().describe('Who publishes the images.'),
    images: mapList(imageSchema, ['archId'], ARCHITECTURES.length - 1, 1).describe(
      'Images, one for each architecture.',
    ),
    registryId: integerOrText(BOUNDS.name).describe('Registry to pull from: its id or its name; its type is oci.'),
    diskRequired: z.number().min(0).optional().describe('Disk that a microservice needs, for people.'),
    ramRequired: z.number().min(0).optional().describe('Memory that a microservice needs, for people.'),
    picture: text({ max: BOUNDS.url }).optional().describe('URL of a picture.'),
    isPublic: z.boolean().default(false).describe('Whether the item is meant for everyone; for clients.'),
    configExample: text({ max: BOUNDS.configBytes }).optional().describe('Example of a config, for people.'),
    inputType: infoType('input'),
    outputType: infoType('output'),
  }),
  [nameRule],
);

const catalogItemStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
});

export const catalogItemResource = {
  kind: 'CatalogItem',
  plural: 'catalogitems',
  singular: 'catalogitem',
  shortNames: ['ci'],
  description: 'Images and the registry that they come from, under one name for many microservices.',
  spec: catalogItemSpecSchema,
  status: catalogItemStatusSchema.default({ observedGeneration: -1 }),
  identity,
  conditions: BASIC_CONDITIONS,
  selectableFields: ['.spec.name'],
  printerColumns: [
    { name: 'Id', type: 'integer', jsonPath: '.status.id' },
    { name: 'Category', type: 'string', jsonPath: '.spec.category' },
    { name: 'Registry', type: 'string', jsonPath: '.spec.registryId' },
    READY_COLUMN,
    AGE_COLUMN,
    { name: 'Images', type: 'string', jsonPath: '.spec.images[*].containerImage', priority: 1 },
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type CatalogItemSpec = z.infer<typeof catalogItemSpecSchema>;
export type CatalogItem = CustomResource<CatalogItemSpec, z.infer<typeof catalogItemStatusSchema>>;
