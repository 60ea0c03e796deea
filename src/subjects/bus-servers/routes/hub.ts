import { z } from 'zod';
import { type BusHub, busHubSpecSchema } from '../../../api/v3/bus-hub.ts';
import { replyShape } from '../../../kinds/rest.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { notFound } from '../../../rest/contract/errors.ts';
import { grouped, route } from '../../../rest/contract/route.ts';
import { putOnlyOne, readOnlyOne } from '../../../rest/objects/only-one.ts';
import { HUB_OBJECT } from '../../../rules/bus-hub.ts';
import { busHubKind } from '../kinds/bus-hub.ts';
import { hubSettings, requireHub } from '../rules/hub.ts';

const { host, serverPort, clusterPort, leafPort, mqttPort, httpPort, jsStorageSize, jsMemoryStoreSize } =
  busHubSpecSchema.shape;
const fields = { serverPort, clusterPort, leafPort, mqttPort, httpPort, jsStorageSize, jsMemoryStoreSize };
const body = z.object({ host: host.unwrap(), ...fields }).meta({ id: 'BusHubConfiguration' });
const port = z.number().int();
const shape = replyShape(
  {
    host: z.string().nullable().describe('null while the Service of the hub has no address'),
    ...{ serverPort: port, clusterPort: port, leafPort: port, mqttPort: port, httpPort: port },
    ...{ jsStorageSize: z.string(), jsMemoryStoreSize: z.string() },
  },
  'BusHub',
);

const read = (hub: BusHub) => ({ host: null, ...hubSettings(hub) });

const only = ({ busHubs }: RestDependencies) => ({
  objects: busHubs,
  kind: busHubKind.resource.kind,
  name: HUB_OBJECT,
  require: requireHub,
});

/** The hub of the message bus: one, so that it has no name in a path. */
export const hubRoutes = grouped(busHubKind.rest.tag, [
  route({
    method: 'GET',
    path: '/bus/hub',
    operation: 'getBusHub',
    summary: 'The hub of the message bus',
    access: { resource: 'bushubs', verb: 'get' },
    reply: { status: 200, schema: shape },
    errors: [404],
    async handler({ deps, signal }) {
      const hub = await readOnlyOne(only(deps), signal);
      if (!hub) throw notFound('BUS_HUB_NOT_FOUND', 'there is no hub of the message bus: PUT /bus/hub names one');
      return read(hub);
    },
  }),
  route({
    method: 'PUT',
    path: '/bus/hub',
    operation: 'replaceBusHub',
    summary: 'Names the hub of the message bus, or changes its ports and sizes',
    description:
      'Without a hub in the cluster, this is a NATS server of yours. Members that the body leaves out get their defaults. Another host or client port reaches every microservice with access to the bus that has no bus server on its node: its container is replaced, a tenth of the nodes each half minute.',
    access: { resource: 'bushubs', verb: 'update' },
    body: { kind: 'json', schema: body, shows: shape },
    reply: { status: 200, schema: shape },
    errors: [409],
    async handler({ deps, body: settings, signal }) {
      return read(await putOnlyOne(only(deps), { fields: Object.keys(fields), settings }, signal));
    },
  }),
]);
