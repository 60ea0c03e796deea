import type { z } from 'zod';
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
  uuidSchema,
} from '../meta.ts';
import { type Rule, withRules } from '../rules.ts';
import { atomicList, integer, object, oneOf, text } from '../schema.ts';
import { SHOWN } from './issued.ts';

const identity = IDENTITIES.id;

/** The bridge of a service that names none: the router of the hub. */
export const DEFAULT_BRIDGE = 'default-router';

/** Members that decide which router has which end of a service: another value is another service. */
const FIXED: readonly Rule[] = (['type', 'defaultBridge'] as const).map((field) => ({
  rule: 'immutable',
  field,
  message: `${field} is immutable: delete the service, and create it again`,
}));

const port = (what: string) => integer(1, 65_535).describe(what);

export const serviceSpecSchema = withRules(
  object({
    ...identity.asked,
    type: oneOf('microservice', 'agent', 'cluster', 'external').describe(
      'Kind of the backend: a microservice, a node itself, or a host that the hub reaches in the cluster or outside of it. Immutable.',
    ),
    resource: text({
      min: 1,
      max: BOUNDS.serviceResource,
      pattern: `^${SHOWN}+$`,
      expects: 'text of characters that can be shown',
    }).describe(
      'Backend: application/microservice or uuid, name or uuid of a node, or a host name or IP address, by the type.',
    ),
    targetPort: port('TCP port of the backend.'),
    defaultBridge: text({
      min: 1,
      max: 36,
      pattern: '^(default-router|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$',
      expects: 'default-router or the uuid of a node',
    })
      .optional()
      .describe(
        'Further router that listens besides the hub: uuid of a node to which the router of the backend connects. Immutable.',
      ),
    servicePort: port('Port of the Service of the cluster; required there, unless the type is cluster.').optional(),
    clusterType: oneOf('ClusterIP', 'NodePort', 'LoadBalancer')
      .optional()
      .describe('Type of the Service of the cluster; required there, unless the type is cluster.'),
    tags: atomicList(text({ min: 1, max: BOUNDS.serviceTag }), BOUNDS.tags)
      .optional()
      .describe(
        'Tokens by which nodes select the service, and annotations (key: value) of the Service of the cluster.',
      ),
  }),
  FIXED,
);

/** Steps of a service on its way to the hub and the cluster. */
export const PROVISIONING = ['pending', 'ready', 'failed'] as const;

const serviceStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
  bridgePort: integer(1, 65_535)
    .optional()
    .describe('Port under which routers listen for the service; the controller gives it once.'),
  serviceEndpoint: text({ max: BOUNDS.name })
    .optional()
    .describe('Address of its load balancer; outside of a cluster the host of the hub.'),
  servicePort: integer(1, 65_535).optional().describe('Port that clients use outside of a cluster.'),
  provisioningStatus: oneOf(...PROVISIONING)
    .optional()
    .describe('pending: on its way; ready: the hub and the cluster have it; failed: ten attempts failed.'),
  provisioningError: text({ max: BOUNDS.message }).optional().describe('Why the last attempt failed.'),
  attempts: integer(0, 10).optional().describe('Attempts that failed in a row.'),
  reconciles: integer(0, Number.MAX_SAFE_INTEGER).optional().describe('Request of another attempt that was taken up.'),
  backend: object({
    uuid: uuidSchema.describe('uuid of the microservice or the node.'),
    object: text({ min: 1, max: BOUNDS.name }).describe('Name of the Application or the EdgeNode.'),
  })
    .optional()
    .describe('What `resource` was found to be. The service is deleted with it.'),
  listeners: object({
    up: integer(0, 1_000_000).describe('Routers that report that they listen.'),
    of: integer(0, 1_000_000).describe('Routers that are to listen.'),
  })
    .optional()
    .describe('Routers that listen for the service.'),
});

export const serviceResource = {
  kind: 'Service',
  plural: 'services',
  singular: 'service',
  shortNames: ['esvc'],
  description: 'A TCP port of a backend that clients reach through the routers of nodes and of the hub.',
  spec: serviceSpecSchema,
  status: serviceStatusSchema.default({ observedGeneration: -1 }),
  identity,
  hasLabelNames: true,
  conditions: [...BASIC_CONDITIONS, 'Connected', 'Listening', 'Reachable'],
  selectableFields: ['.spec.type'],
  printerColumns: [
    { name: 'Type', type: 'string', jsonPath: '.spec.type' },
    { name: 'Resource', type: 'string', jsonPath: '.spec.resource' },
    { name: 'Target', type: 'integer', jsonPath: '.spec.targetPort', description: 'TCP port of the backend.' },
    {
      name: 'Bridge',
      type: 'integer',
      jsonPath: '.status.bridgePort',
      description: 'Port under which routers listen.',
    },
    READY_COLUMN,
    { name: 'Status', type: 'string', jsonPath: '.status.provisioningStatus' },
    AGE_COLUMN,
    { name: 'Endpoint', type: 'string', jsonPath: '.status.serviceEndpoint', priority: 1 },
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type ServiceStatus = z.infer<typeof serviceStatusSchema>;
export type Service = CustomResource<z.infer<typeof serviceSpecSchema>, ServiceStatus>;
