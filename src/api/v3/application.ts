import { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  type CustomResource,
  conditionsSchema,
  dottedName,
  IDENTITIES,
  isSystemRule,
  nameRule,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
} from '../meta.ts';
import { LOCAL_APPLICATION } from '../names.ts';
import { withRules } from '../rules.ts';
import { atomicList, integer, mapList, object, oneOf, text } from '../schema.ts';
import { busConfigSchema, microserviceSchema, templateRefSchema } from './microservice.ts';

const identity = IDENTITIES.uuidAndId;

const RESERVED = {
  name: LOCAL_APPLICATION,
  message: `the name ${LOCAL_APPLICATION} is reserved for what is deployed on a machine without a controller`,
} as const;

export const applicationSpecSchema = withRules(
  object({
    name: dottedName().optional().describe('Name in the v3 API; metadata.name when absent. Immutable.'),
    ...identity.asked,
    description: text({ max: BOUNDS.description }).optional().describe('What it is, for people.'),
    isActivated: z.boolean().default(true).describe('false stops all its microservices.'),
    isSystem: z.boolean().optional().describe('Set by the controller for its own applications only.'),
    busConfig: busConfigSchema.optional().describe('Access of the application to the message bus.'),
    template: templateRefSchema.optional().describe('ApplicationTemplate that this application was made from.'),
    microservices: mapList(microserviceSchema, ['name'], BOUNDS.entries)
      .optional()
      .describe('Its microservices: the containers and where they run.'),
  }),
  [nameRule, isSystemRule, { rule: 'not', field: 'name', value: RESERVED.name, message: RESERVED.message }],
);

export const applicationStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
  ready: text({ max: 32 }).optional().describe('Ready microservices of all that should run, for example 2/3.'),
  readyCount: integer(0, BOUNDS.report).optional().describe('Microservices that run as asked.'),
  totalCount: integer(0, BOUNDS.report).optional().describe('Microservices that should run.'),
  microservices: mapList(
    object({
      name: text({ min: 1, max: BOUNDS.name }).describe('Name of the microservice.'),
      uuid: text({ max: 64 }).optional().describe('Its uuid.'),
      node: text({ max: BOUNDS.anyName }).optional().describe('Name of its node.'),
      nodeUuid: text({ max: 64 }).optional().describe('The uuid of that node: another one may have its name.'),
      state: text({ max: 32 }).describe('State as the node last reported it.'),
      ready: z.boolean().describe('Whether it runs as asked.'),
      rebuildCount: integer(0, Number.MAX_SAFE_INTEGER).optional().describe('Rebuilds ever requested.'),
      message: text({ max: BOUNDS.message }).optional().describe('One line: what it does, or why it does not run.'),
      formerNodes: atomicList(
        object({
          node: text({ max: BOUNDS.anyName }).describe('Name of the node.'),
          uuid: text({ max: 64 }).optional().describe('Its uuid, when it existed.'),
          since: text({ max: 64 }).describe('When the move was recorded (RFC 3339).'),
          state: oneOf('Stopping', 'Removing', 'Unreachable', 'Gone').describe(
            'Stopping: its new node waits. Otherwise it does not: the node is silent (Unreachable), was deleted (Gone), or is heard again (Removing).',
          ),
        }),
        BOUNDS.formerNodes,
      )
        .optional()
        .describe('Nodes that it was moved from and that may still have its container.'),
    }),
    ['name'],
    BOUNDS.report,
  )
    .optional()
    .describe('One line per microservice.'),
});

export const applicationResource = {
  kind: 'Application',
  plural: 'applications',
  singular: 'application',
  shortNames: ['app'],
  description: 'A set of microservices (containers) and the edge nodes they run on.',
  spec: applicationSpecSchema,
  status: applicationStatusSchema.default({ observedGeneration: -1 }),
  identity,
  reservedName: RESERVED,
  conditions: [
    'Ready',
    'Reconciling',
    'Stalled',
    'Admitted',
    'MayRunElsewhere',
    'ActionIgnored',
    'NotSupportedYet',
    'RuleMissing',
  ],
  selectableFields: ['.status.uuid', '.spec.uuid', '.spec.name'],
  printerColumns: [
    READY_COLUMN,
    { name: 'Microservices', type: 'string', jsonPath: '.status.ready', description: 'Ready of all that should run.' },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
      description: 'Why Ready is what it is.',
    },
    AGE_COLUMN,
    { name: 'UUID', type: 'string', jsonPath: '.status.uuid', priority: 1 },
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type ApplicationSpec = z.infer<typeof applicationSpecSchema>;
export type ApplicationStatus = z.infer<typeof applicationStatusSchema>;
export type Application = CustomResource<ApplicationSpec, ApplicationStatus>;
