import { z } from 'zod';
import { BOUNDS } from '../src/api/bounds.ts';
import type { RestErrorCode } from '../src/api/error-codes.ts';
import {
  AGE_COLUMN,
  BASIC_CONDITIONS,
  type CustomResource,
  conditionsSchema,
  dottedName,
  IDENTITIES,
  nameRule,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
} from '../src/api/meta.ts';
import { withRules } from '../src/api/rules.ts';
import { integer, object, text } from '../src/api/schema.ts';
import { defineKind } from '../src/kinds/definition.ts';
import type { FindReferenced } from '../src/kinds/object.ts';
import { plainTranslation } from '../src/kinds/plain.ts';
import { plainShapes } from '../src/kinds/rest.ts';
import { KINDS, type Kinds } from '../src/subjects/kinds.ts';

/** A kind that consists of this definition alone: tests show with it what a definition provides. */
const identity = IDENTITIES.id;

const spec = withRules(
  object({
    name: dottedName().optional().describe('Name in the v3 API; metadata.name when absent. Immutable.'),
    ...identity.asked,
    colour: text({ max: BOUNDS.description }).optional().describe('What it looks like.'),
    registryId: integer(1, BOUNDS.id).optional().describe('Registry that it comes from.'),
  }),
  [nameRule],
);

const status = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
});

const definition = {
  kind: 'Widget',
  plural: 'widgets',
  singular: 'widget',
  shortNames: [],
  description: 'A thing of a test.',
  spec,
  status: status.default({ observedGeneration: -1 }),
  identity,
  conditions: BASIC_CONDITIONS,
  selectableFields: ['.spec.name'],
  printerColumns: [READY_COLUMN, AGE_COLUMN],
} satisfies ResourceDefinition;

export type Widget = CustomResource<z.infer<typeof spec>, z.infer<typeof status>>;

export const widgetKind = defineKind<Widget>()({
  key: 'widgets',
  definition,
  noun: 'widget',
  access: 'workloads',
  references: ({ spec: { registryId } }) => (registryId === undefined ? [] : [{ to: 'registries', ref: registryId }]),
  verdict({ spec: { registryId } }, find: FindReferenced) {
    if (registryId === undefined || find({ to: 'registries', ref: registryId })) return undefined;
    return {
      reason: 'RegistryNotFound',
      status: 404,
      code: 'REGISTRY_NOT_FOUND',
      field: 'registryId',
      message: `no registry ${registryId}`,
    };
  },
  rest: {
    tag: 'Widgets',
    key: 'name',
    // A kind of the product has its codes in src/api/error-codes.ts.
    notFound: 'WIDGET_NOT_FOUND' as string as RestErrorCode<404>,
    crud: {
      path: '/widgets',
      list: 'widgets',
      replies: {
        create: { status: 201, body: 'object' },
        change: { status: 200, body: 'object' },
        delete: { status: 202 },
      },
      shapes: plainShapes(definition, z.object(spec.shape)),
      ...plainTranslation<Widget>(spec),
      upload: { part: 'widget', update: 'PUT' },
    },
  },
  indexes: {},
});

export const WITH_WIDGETS: Kinds = { ...KINDS, widgets: widgetKind };
