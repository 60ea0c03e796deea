import { z } from 'zod';
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
import { atomicList, integer, object, oneOf, text } from '../schema.ts';
import { busKeySchema } from './bus-token.ts';
import { storeSizeSchema } from './edge-node.ts';

const identity = IDENTITIES.uuid;
const portOf = (what: string) => integer(1, 65535).optional().describe(`Port of ${what}.`);

export const busHubSpecSchema = object({
  ...identity.asked,
  host: text({
    min: 1,
    max: BOUNDS.name,
    pattern: '^[a-zA-Z0-9:]([a-zA-Z0-9.:-]*[a-zA-Z0-9])?$',
    expects: 'a host name or an IP address',
  })
    .optional()
    .describe('Address under which nodes and microservices reach the hub; the address of its Service when absent.'),
  serverPort: portOf('clients; 4222 when absent'),
  clusterPort: portOf('the other members; 6222 when absent'),
  leafPort: portOf('bus servers of nodes; 7422 when absent'),
  mqttPort: portOf('devices that speak MQTT; 8883 when absent'),
  httpPort: portOf('probes; 8222 when absent'),
  clientTls: z
    .boolean()
    .optional()
    .describe(
      'Clients have to connect by TLS; the authority default-bus-local-ca signs the certificate. False when absent.',
    ),
  jsStorageSize: storeSizeSchema.optional().describe('Disk for streams, of each member; 10g when absent.'),
  jsMemoryStoreSize: storeSizeSchema.optional().describe('Memory for streams, of each member; 1g when absent.'),
  replicas: integer(1, 5)
    .optional()
    .describe('Members in the cluster. Streams of 3 outlive the loss of 1; 1 is for trials.'),
  serviceType: oneOf('ClusterIP', 'NodePort', 'LoadBalancer')
    .optional()
    .describe('Type of the Service by which nodes reach the members in the cluster.'),
  storageClass: dottedName(BOUNDS.name).optional().describe('Storage class of the members; only new members get it.'),
  isExternal: z
    .boolean()
    .optional()
    .describe('The hub is a NATS server of yours: the controller makes none, and sends it the tokens of accounts.'),
});

const address = {
  host: text({ max: BOUNDS.name }).describe('Host name or IP address.'),
  port: integer(1, 65535).describe('Port of clients.'),
};

const busHubStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
  host: text({ max: BOUNDS.name }).optional().describe('Address under which nodes and microservices reach it.'),
  serverPort: portOf('clients, where a node of the system is the hub'),
  leafPort: portOf('bus servers of nodes, likewise'),
  mqttPort: portOf('devices, likewise'),
  httpPort: portOf('probes, likewise'),
  clientTls: z.boolean().optional().describe('Clients have to connect by TLS, likewise.'),
  jsStorageSize: storeSizeSchema.optional().describe('Disk for streams, likewise.'),
  jsMemoryStoreSize: storeSizeSchema.optional().describe('Memory for streams, likewise.'),
  clients: object({
    ...address,
    former: object(address).optional().describe('The address before, which nodes have that are not among the percent.'),
    percent: integer(0, 100).optional().describe('Nodes whose containers have the address; all when absent.'),
    since: text({ max: 64 }).optional().describe('When the percent became so, RFC 3339.'),
  })
    .optional()
    .describe('Where containers on nodes without a bus server reach the hub; another address reaches nodes in steps.'),
  members: integer(0, 5).optional().describe('Servers that it has.'),
  current: integer(0, 5).optional().describe('Servers that have every token.'),
  answering: integer(0, 5).optional().describe('Servers that the leading replica is connected to.'),
  trusted: atomicList(busKeySchema(), 16)
    .optional()
    .describe('Public keys of the operators whose tokens all of these take.'),
  operator: busKeySchema()
    .optional()
    .describe('Public key of the operator that signed the tokens that all of these have.'),
});

export const busHubResource = {
  kind: 'BusHub',
  plural: 'bushubs',
  singular: 'bushub',
  shortNames: ['bhub'],
  description: 'The hub of the message bus, to which the bus servers of nodes connect: one for each installation.',
  spec: busHubSpecSchema,
  status: busHubStatusSchema.default({ observedGeneration: -1 }),
  identity,
  hasLabelNames: true,
  conditions: BASIC_CONDITIONS,
  selectableFields: [],
  printerColumns: [
    { name: 'Host', type: 'string', jsonPath: '.status.host' },
    { name: 'Members', type: 'integer', jsonPath: '.status.members' },
    { name: 'Current', type: 'integer', jsonPath: '.status.current', description: 'Servers that have every token.' },
    READY_COLUMN,
    AGE_COLUMN,
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type BusHub = CustomResource<z.infer<typeof busHubSpecSchema>, z.infer<typeof busHubStatusSchema>>;
