import { z } from 'zod';
import { type EntryContainer, normalItem } from '../../../api/container/index.ts';
import { ARTIFACT_KINDS, type MicroserviceEntry } from '../../../api/v3/index.ts';
import { grouped, route } from '../../../rest/contract/route.ts';
import * as shapes from '../../../rest/crud/shapes.ts';
import { accessToMicroservice, presentMicroservice } from '../../../rest/objects/lookup.ts';
import { DomainError } from '../../../rules/errors.ts';
import { volumeMappingId } from '../../../rules/names.ts';
import { currentNodeOf } from '../../nodes/rules/placement/entries.ts';
import { accessRead, volumeReads } from '../rules/application/microservice-read.ts';
import { configFromBody, configText, patchEntry, portFromFlat, volumeFromFlat } from '../rules/entry/flat.ts';
import { editEntry, findEntry, sentConfigOf, systemConfig, VARIANTS } from './entries.ts';

const byUuid = accessToMicroservice;
const [USER] = VARIANTS;

const withContainer = (entry: MicroserviceEntry, container: Partial<EntryContainer>): MicroserviceEntry => ({
  ...entry,
  container: { ...entry.container, ...container },
});
const portParams = shapes.uuidParam.extend({
  internalPort: z
    .string()
    .regex(/^[0-9]{1,5}$/, 'must be a port')
    .transform(Number)
    .describe('Port in the container'),
});
const volumeParams = shapes.uuidParam.extend({
  id: z
    .string()
    .regex(/^[0-9]{1,15}$/, 'must be an integer')
    .transform(Number)
    .describe('Id of the volume mapping'),
});

/** Single parts of a microservice: its config, its ports, its volumes. Longer than a hundred lines: a table, one value per route. */
export const microservicePartRoutes = grouped('Microservice parts', [
  ...ARTIFACT_KINDS.map((kind) =>
    route({
      method: 'PATCH',
      path: `${USER.path}/{uuid}/${kind}`,
      operation: `setMicroservice${kind === 'models' ? 'Models' : 'Knowledge'}`,
      summary: `Set the ${kind} that a microservice binds`,
      description:
        'Replaces the catalog; without items it is removed. The microservice is rebuilt when bindPath or permissions change, and when it had no items before or has none now. Other items appear in the running container.',
      access: { resource: USER.resource, verb: 'patch', ...byUuid },
      params: shapes.uuidParam,
      body: { kind: 'json', schema: z.unknown(), documents: shapes.catalogShape },
      reply: { status: 204 },
      handler: (call) =>
        editEntry(call, USER, call.params.uuid, ({ entry }) => ({
          entry: patchEntry(entry, { [kind]: call.body ?? {} }).entry,
        })),
    }),
  ),
  ...VARIANTS.flatMap((variant) => {
    const path = `${variant.path}/{uuid}`;
    const patch = { resource: variant.resource, verb: 'patch', ...byUuid } as const;
    return [
      route({
        method: 'GET',
        path: `${path}/config`,
        operation: `get${variant.suffix}MicroserviceConfig`,
        summary: `The config of a microservice${variant.words}, as JSON text`,
        access: { ...patch, verb: 'get' },
        params: shapes.uuidParam,
        reply: { status: 200, schema: z.string() },
        async handler({ deps, params, signal }) {
          const found = await presentMicroservice(deps, params.uuid, signal);
          if (found?.application.spec.isSystem && !variant.system) throw systemConfig(params.uuid, found.entry);
          const microservice = await findEntry(deps, variant, params.uuid, signal);
          return sentConfigOf(deps, microservice) ?? configText(microservice.entry.config);
        },
      }),
      route({
        method: 'PATCH',
        path: `${path}/config`,
        operation: `set${variant.suffix}MicroserviceConfig`,
        summary: `Set the config of a microservice${variant.words}`,
        description: 'JSON text, or an object. The microservice is not restarted.',
        access: patch,
        params: shapes.uuidParam,
        body: { kind: 'json', schema: shapes.withoutExpressions, documents: z.union([z.string(), shapes.anyObject]) },
        reply: { status: 204 },
        handler(call) {
          const config = configFromBody(call.body);
          return editEntry(call, variant, call.params.uuid, ({ entry }) => ({ entry: { ...entry, config } }));
        },
      }),
      route({
        method: 'DELETE',
        path: `${path}/config`,
        operation: `delete${variant.suffix}MicroserviceConfig`,
        summary: `Remove the config of a microservice${variant.words}`,
        access: { ...patch, verb: 'delete' },
        params: shapes.uuidParam,
        reply: { status: 204 },
        handler: (call) =>
          editEntry(call, variant, call.params.uuid, ({ entry: { config: _, ...entry } }) => ({ entry })),
      }),
      route({
        method: 'POST',
        path: `${path}/port-mapping`,
        operation: `add${variant.suffix}MicroservicePort`,
        summary: `Publish a port of a microservice${variant.words}`,
        access: patch,
        params: shapes.uuidParam,
        body: { kind: 'json', schema: z.unknown(), documents: shapes.portMapping },
        reply: { status: 201, schema: shapes.portMapping },
        async handler(call) {
          const port = portFromFlat(call.body);
          await editEntry(call, variant, call.params.uuid, ({ entry }) => {
            const mapped = entry.container?.ports ?? [];
            if (mapped.some((one) => one.internal === port.internal && (one.protocol ?? 'tcp') === port.protocol))
              throw new DomainError(
                400,
                'PORT_MAPPING_ALREADY_EXISTS',
                `internal: ${port.internal}/${port.protocol} is mapped already`,
              );
            return { entry: withContainer(entry, { ports: [...mapped, port] }) };
          });
          return port;
        },
      }),
      route({
        method: 'DELETE',
        path: `${path}/port-mapping/{internalPort}`,
        operation: `delete${variant.suffix}MicroservicePort`,
        summary: `Withdraw a port of a microservice${variant.words}, for all its protocols`,
        access: patch,
        params: portParams,
        reply: { status: 204 },
        handler: (call) =>
          editEntry(call, variant, call.params.uuid, ({ entry }) => {
            const mapped = entry.container?.ports ?? [];
            const kept = mapped.filter((one) => one.internal !== call.params.internalPort);
            if (kept.length === mapped.length)
              throw new DomainError(
                404,
                'INVALID_PORT_MAPPING',
                `there is no mapping of the port ${call.params.internalPort}`,
              );
            return { entry: withContainer(entry, { ports: kept }) };
          }),
      }),
      route({
        method: 'POST',
        path: `${path}/volume-mapping`,
        operation: `add${variant.suffix}MicroserviceVolume`,
        summary: `Mount something into a microservice${variant.words}`,
        access: patch,
        params: shapes.uuidParam,
        body: { kind: 'json', schema: z.unknown(), documents: shapes.volumeMapping },
        reply: { status: 201, schema: z.object({ id: z.number().int() }) },
        async handler(call) {
          const volume = volumeFromFlat(call.body);
          await editEntry(call, variant, call.params.uuid, ({ entry }) => {
            const mapped = entry.container?.volumes ?? [];
            if (mapped.some((one) => one.containerDestination === volume.containerDestination))
              throw new DomainError(
                400,
                'VOLUME_MAPPING_ALREADY_EXISTS',
                `containerDestination: something is mounted at ${volume.containerDestination} already`,
              );
            return { entry: withContainer(entry, { volumes: [...mapped, volume] }) };
          });
          return { id: volumeMappingId(volume.containerDestination) };
        },
      }),
      route({
        method: 'DELETE',
        path: `${path}/volume-mapping/{id}`,
        operation: `delete${variant.suffix}MicroserviceVolume`,
        summary: `Unmount something from a microservice${variant.words}`,
        access: patch,
        params: volumeParams,
        reply: { status: 204 },
        handler: (call) =>
          editEntry(call, variant, call.params.uuid, ({ entry }) => {
            const mapped = entry.container?.volumes ?? [];
            const kept = mapped.filter((one) => volumeMappingId(one.containerDestination) !== call.params.id);
            if (kept.length === mapped.length)
              throw new DomainError(
                400,
                'INVALID_VOLUME_MAPPING_UUID',
                `there is no volume mapping with the id ${call.params.id}`,
              );
            return { entry: withContainer(entry, { volumes: kept }) };
          }),
      }),
    ];
  }),
  route({
    method: 'GET',
    path: '/microservices/{uuid}/port-mapping',
    operation: 'listMicroservicePorts',
    summary: 'The published ports of a microservice',
    access: { resource: 'microservices', verb: 'get', ...byUuid },
    params: shapes.uuidParam,
    reply: { status: 200, schema: z.object({ ports: z.array(shapes.portMapping) }) },
    async handler({ deps, params, signal }) {
      const { entry } = await findEntry(deps, USER, params.uuid, signal);
      return { ports: (entry.container?.ports ?? []).map((port) => normalItem('ports', port)) };
    },
  }),
  route({
    method: 'GET',
    path: '/microservices/{uuid}/volume-mapping',
    operation: 'listMicroserviceVolumes',
    summary: 'What is mounted into a microservice',
    access: { resource: 'microservices', verb: 'get', ...byUuid },
    params: shapes.uuidParam,
    reply: { status: 200, schema: z.object({ volumeMappings: z.array(z.looseObject({ id: z.number().int() })) }) },
    async handler({ deps, params, signal }) {
      const { application, entry } = await findEntry(deps, USER, params.uuid, signal);
      const { lookups } = deps;
      const node = currentNodeOf(application, entry, lookups);
      const access = accessRead({
        application,
        entry,
        ...(node && { node }),
        ...(lookups.bus && { bus: lookups.bus }),
      });
      return { volumeMappings: volumeReads(entry, access) as { id: number }[] };
    },
  }),
]);
