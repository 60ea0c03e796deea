import { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  BASIC_CONDITIONS,
  type CustomResource,
  conditionsSchema,
  IDENTITIES,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
} from '../meta.ts';
import { integer, object, oneOf, text } from '../schema.ts';

const identity = IDENTITIES.uuid;
const portOf = (what: string) => integer(1, 65535).optional().describe(`Port of ${what}.`);

export const routerHubSpecSchema = object({
  ...identity.asked,
  host: text({
    min: 1,
    max: BOUNDS.name,
    pattern: '^[a-zA-Z0-9:]([a-zA-Z0-9.:-]*[a-zA-Z0-9])?$',
    expects: 'a host name or an IP address',
  })
    .optional()
    .describe('Address under which routers of nodes reach it; the address of its Service when absent.'),
  messagingPort: portOf('clients with a certificate; 5671 when absent'),
  edgeRouterPort: portOf('edge routers; 45671 when absent'),
  interRouterPort: portOf('interior routers; 55671 when absent'),
  serviceType: oneOf('ClusterIP', 'NodePort', 'LoadBalancer')
    .optional()
    .describe('Type of the Service by which routers of nodes reach it in the cluster.'),
  isExternal: z
    .boolean()
    .optional()
    .describe('It is a router of yours: the controller makes none, and sends it its services.'),
});

const routerHubStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
  host: text({ max: BOUNDS.name }).optional().describe('Address under which routers of nodes reach it.'),
  isCurrent: z.boolean().optional().describe('The running router has every service.'),
  listeners: integer(0, Number.MAX_SAFE_INTEGER).optional().describe('Services that it listens for now.'),
});

export const routerHubResource = {
  kind: 'RouterHub',
  plural: 'routerhubs',
  singular: 'routerhub',
  shortNames: ['rhub'],
  description: 'The default router, to which the routers of nodes connect: one for each installation.',
  spec: routerHubSpecSchema,
  status: routerHubStatusSchema.default({ observedGeneration: -1 }),
  identity,
  hasLabelNames: true,
  conditions: BASIC_CONDITIONS,
  selectableFields: [],
  printerColumns: [
    { name: 'Host', type: 'string', jsonPath: '.status.host' },
    {
      name: 'Current',
      type: 'boolean',
      jsonPath: '.status.isCurrent',
      description: 'The running router has every service.',
    },
    { name: 'Listeners', type: 'integer', jsonPath: '.status.listeners' },
    READY_COLUMN,
    AGE_COLUMN,
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type RouterHub = CustomResource<z.infer<typeof routerHubSpecSchema>, z.infer<typeof routerHubStatusSchema>>;
