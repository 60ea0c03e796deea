import { z } from 'zod';
import { withoutEffect } from '../../../api/schema.ts';
import type { Application, EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { grouped, type Requester, route } from '../../../rest/contract/route.ts';
import * as shapes from '../../../rest/crud/shapes.ts';
import { edit, withChanges } from '../../../rest/objects/edit.ts';
import { listReply } from '../../../rest/objects/list-reply.ts';
import {
  accessToMicroservice,
  applicationByName,
  microserviceMissing,
  presentMicroservice,
} from '../../../rest/objects/lookup.ts';
import { DomainError, duplicateName, invalid } from '../../../rules/errors.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';
import { keepLogSize } from '../../../rules/normal-entry.ts';
import { holder } from '../../../rules/precedence.ts';
import { microserviceReadOf, microserviceReads } from '../rules/application/read.ts';
import { controllerDelete, controllerIn } from '../rules/controller-entry.ts';
import { readMicroserviceUpload } from '../rules/entry/document.ts';
import { entryFromFlat, patchEntry } from '../rules/entry/flat.ts';
import { microserviceFile } from '../rules/upload/members.ts';
import { editEntry, editMicroservice, judged, sentConfigOf, VARIANTS } from './entries.ts';
import { catalogItemOf, readContext } from './reads.ts';
import { withEntryTemplate } from './templates.ts';

const byUuid = accessToMicroservice;
const ofApplication = z.strictObject({
  application: z.string().min(1).max(253).optional().describe('Name of an application'),
});

const withCleanup = withoutEffect(
  z.boolean(),
  'image and volumes stay on the node; POST /node/{uuid}/prune removes images that nothing uses',
);

export const microserviceRoutes = grouped('Microservices', [
  ...VARIANTS.flatMap((variant) => [
    route({
      method: 'GET',
      path: variant.path,
      operation: `list${variant.suffix}Microservices`,
      summary: `All microservices${variant.words}, or those of one application`,
      access: { resource: variant.resource, verb: 'list' },
      query: ofApplication,
      reply: { status: 200, schema: shapes.microserviceList },
      errors: [400, 404],
      async handler({ deps, query, caller, signal }) {
        const applications =
          query.application === undefined
            ? deps.applications.list().filter(({ spec }) => (spec.isSystem === true) === variant.system)
            : [await applicationByName(deps, query.application, signal, variant)];
        const of = query.application === undefined ? 'all' : applications;
        const context = await readContext(deps, of, signal, caller);
        return listReply('microservices', applications, (application) => microserviceReads(application, context));
      },
    }),
    route({
      method: 'GET',
      path: `${variant.path}/{uuid}`,
      operation: `get${variant.suffix}Microservice`,
      summary: `One microservice${variant.words}`,
      access: { resource: variant.resource, verb: 'get', ...byUuid },
      params: shapes.uuidParam,
      reply: { status: 200, schema: shapes.microserviceShape },
      async handler({ deps, params, caller, signal }) {
        const found = await presentMicroservice(deps, params.uuid, signal);
        const application = found?.application ?? removedFrom(deps, params.uuid);
        if (!application || (application.spec.isSystem === true) !== variant.system)
          throw microserviceMissing(params.uuid);
        const context = await readContext(deps, [application], signal, caller);
        const read = microserviceReadOf(application, params.uuid, context);
        if (!read) throw microserviceMissing(params.uuid);
        const config = found && sentConfigOf(deps, found);
        return config === undefined ? read : { ...read, config };
      },
    }),
    route({
      method: 'PATCH',
      path: `${variant.path}/{uuid}`,
      operation: `update${variant.suffix}Microservice`,
      summary: `Change a microservice${variant.words}`,
      access: { resource: variant.resource, verb: 'patch', ...byUuid },
      params: shapes.uuidParam,
      body: shapes.objectBody({ documents: shapes.microserviceBody, shows: shapes.microserviceShape }),
      reply: { status: 204 },
      handler: (call) =>
        editEntry(call, variant, call.params.uuid, async ({ application, entry }) => {
          const name = v3Name(application);
          const options = { application: name, uuid: call.params.uuid, catalogItem: catalogItemOf(call.deps) };
          const { config, ...rest } = call.body;
          // A client that sends back what it read changes nothing of it.
          const isSent = config !== undefined && config === sentConfigOf(call.deps, { application, entry });
          const patched = patchEntry(entry, isSent ? rest : call.body, options);
          // A template that kubectl named is not the business of REST.
          if (!('template' in call.body)) return patched;
          return { ...patched, entry: await withEntryTemplate(call, patched.entry, name) };
        }),
    }),
    route({
      method: 'PATCH',
      path: `${variant.path}/yaml/{uuid}`,
      operation: `update${variant.suffix}MicroserviceFromYaml`,
      summary: `Set a microservice${variant.words} to what a file says`,
      access: { resource: variant.resource, verb: 'patch', ...byUuid },
      params: shapes.uuidParam,
      body: { kind: 'file', part: 'microservice', templated: true, spec: microserviceFile },
      reply: { status: 204 },
      handler(call) {
        const { params, document } = call;
        return editEntry(call, variant, params.uuid, async ({ application, entry }) => {
          const name = v3Name(application);
          const { rebuild, entry: read } = readMicroserviceUpload(document, { name: entry.name, application: name });
          const given = await withEntryTemplate(call, read, name, 'spec.template');
          return { entry: keepIdentity(given, entry, params.uuid, document), rebuild };
        });
      },
    }),
    route({
      method: 'PATCH',
      path: `${variant.path}/{uuid}/rebuild`,
      operation: `rebuild${variant.suffix}Microservice`,
      summary: `Pull the image again and start a microservice${variant.words} anew`,
      access: { resource: variant.resource, verb: 'patch', ...byUuid },
      params: shapes.uuidParam,
      reply: { status: 204 },
      handler: (call) => editEntry(call, variant, call.params.uuid, ({ entry }) => ({ entry, rebuild: true })),
    }),
  ]),
  route({
    method: 'POST',
    path: '/microservices',
    operation: 'createMicroservice',
    summary: 'Add a microservice to an application',
    access: { resource: 'microservices', verb: 'create' },
    body: shapes.objectBody({ documents: shapes.microserviceCreateBody, shows: shapes.microserviceShape }),
    reply: { status: 201, schema: shapes.microserviceCreated },
    errors: [400, 404, 409],
    handler: (call) => create(call, entryFromFlat(call.body, { catalogItem: catalogItemOf(call.deps) }), 'template'),
  }),
  route({
    method: 'POST',
    path: '/microservices/yaml',
    operation: 'createMicroserviceFromYaml',
    summary: 'Add a microservice to an application from a file',
    description: 'A document of kind Microservice; its name is `name`, with spec.application, or `application/name`.',
    access: { resource: 'microservices', verb: 'create' },
    body: { kind: 'file', part: 'microservice', templated: true, spec: microserviceFile },
    reply: { status: 201, schema: shapes.microserviceCreated },
    errors: [400, 404, 409],
    handler: (call) => create(call, readMicroserviceUpload(call.document), 'spec.template'),
  }),
  route({
    method: 'DELETE',
    path: '/microservices/{uuid}',
    operation: 'deleteMicroservice',
    summary: 'Remove a microservice from its application',
    access: { resource: 'microservices', verb: 'delete', ...byUuid },
    params: shapes.uuidParam,
    body: { kind: 'json', schema: z.unknown(), documents: z.object({ withCleanup }), optional: true },
    reply: { status: 204 },
    async handler({ deps, params, signal }) {
      await editMicroservice(deps, params.uuid, signal, ({ application, entry }) => {
        if (controllerIn(application)?.entry === entry) throw controllerDelete();
        if (application.spec.isSystem) throw systemDelete(entry);
        const microservices = application.spec.microservices?.filter((one) => one !== entry);
        return withChanges(application, { spec: { ...application.spec, microservices } });
      });
    },
  }),
  ...(['start', 'stop'] as const).map((action) =>
    route({
      method: 'PATCH',
      path: `/microservices/{uuid}/${action}`,
      operation: `${action}Microservice`,
      summary: action === 'start' ? 'Let a microservice run' : 'Stop a microservice',
      access: { resource: 'microservices', verb: 'patch', ...byUuid },
      params: shapes.uuidParam,
      reply: { status: 204 },
      handler: (call) =>
        editEntry(call, VARIANTS[0], call.params.uuid, ({ application, entry }) => {
          const isActivated = action === 'start';
          if (isActivated && application.spec.isActivated === false)
            throw invalid(
              `the application ${v3Name(application)} is not activated; activate it first`,
              undefined,
              'APPLICATION_NOT_ACTIVATED',
            );
          return { entry: (entry.isActivated ?? true) === isActivated ? entry : { ...entry, isActivated } };
        }),
    }),
  ),
]);

async function create(
  requester: Requester,
  request: { entry: MicroserviceEntry; application?: string; rebuild: boolean },
  field: string,
) {
  const { deps, signal } = requester;
  const { application: name, rebuild } = request;
  if (name === undefined) throw invalid('application: is required, the name of an application', 'application');
  const entry = await withEntryTemplate(requester, request.entry, name, field);
  const stored = await edit(
    deps.applications,
    () => applicationByName(deps, name, signal),
    async (application) => {
      const others = application.spec.microservices ?? [];
      if (others.some((one) => one.name === entry.name)) throw duplicateName('microservice', entry.name);
      return judged(requester, application, [...others, entry], rebuild ? [entry.name] : []);
    },
    signal,
  );
  return { uuid: entryUuid(stored, entry), name: entry.name };
}

/** Identity stays; so does activation, unless the file says otherwise. */
function keepIdentity(
  given: MicroserviceEntry,
  stored: MicroserviceEntry,
  uuid: string,
  document: unknown,
): MicroserviceEntry {
  if (given.uuid !== undefined && given.uuid !== uuid)
    throw invalid(`spec.uuid: ${JSON.stringify(given.uuid)}; is immutable and is ${JSON.stringify(uuid)}`, 'spec.uuid');
  const { spec } = document as { spec?: { isActivated?: unknown } };
  return {
    ...keepLogSize(given, stored),
    ...(stored.uuid !== undefined && { uuid: stored.uuid }),
    ...(typeof spec?.isActivated !== 'boolean' &&
      stored.isActivated !== undefined && { isActivated: stored.isActivated }),
  };
}

/** The application that a microservice was removed from while its node still reports it. */
function removedFrom(deps: RestDependencies, uuid: string): Application | undefined {
  const reported = (node: EdgeNode) => node.status?.microservices?.find((one) => one.uuid === uuid)?.application;
  for (const node of deps.nodes.list()) {
    const name = reported(node);
    if (name) return holder(deps.applications.find('name', name));
  }
  return undefined;
}

const systemDelete = (entry: MicroserviceEntry) =>
  new DomainError(400, 'SYSTEM_MICROSERVICE_DELETE', `${entry.name} belongs to the system and cannot be deleted`);
