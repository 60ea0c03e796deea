import { randomUUID } from 'node:crypto';
import { API_VERSION, SYSTEM_APPLICATION_PREFIX } from '../../../api/names.ts';
import { type Application, applicationResource } from '../../../api/v3/index.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { grouped, type Requester, route } from '../../../rest/contract/route.ts';
import * as shapes from '../../../rest/crud/shapes.ts';
import { createNamed, deleteObject, isPresent, MACHINES } from '../../../rest/objects/deletion.ts';
import { edit, withChanges } from '../../../rest/objects/edit.ts';
import { listReply } from '../../../rest/objects/list-reply.ts';
import { accessByKey, applicationByName } from '../../../rest/objects/lookup.ts';
import { TAKEN_ACCOUNT_NAMES } from '../../../rules/bus-accounts.ts';
import { cut } from '../../../rules/conditions.ts';
import { conflict, DomainError, invalid } from '../../../rules/errors.ts';
import { applicationId, identityLabels } from '../../../rules/identity.ts';
import { objectName, v3Name } from '../../../rules/names.ts';
import { holder } from '../../../rules/precedence.ts';
import { KINDS } from '../../kinds.ts';
import { applicationRead, replaceState } from '../rules/application/read.ts';
import { controllerDelete, controllerIn } from '../rules/controller-entry.ts';
import { platformDeletion } from '../rules/platform-entry.ts';
import { type ApplicationUpload, patchApplication } from '../rules/upload/application.ts';
import { applicationFile } from '../rules/upload/members.ts';
import { busOfApplication } from './check-entries.ts';
import { ordered } from './entries.ts';
import { readContext } from './reads.ts';
import { applicationOfBody, applicationOfFile } from './templates.ts';

const byName = accessByKey(KINDS.applications);

export const applicationRoutes = grouped('Applications', [
  route({
    method: 'GET',
    path: '/application',
    operation: 'listApplications',
    summary: 'All applications of users',
    access: { resource: 'applications', verb: 'list' },
    reply: { status: 200, schema: shapes.applicationList },
    handler: (call) => list(call, false),
  }),
  route({
    method: 'GET',
    path: '/application/system',
    operation: 'listSystemApplications',
    summary: 'All applications of the system',
    access: { resource: 'systemapplications', verb: 'list' },
    reply: { status: 200, schema: shapes.applicationList },
    handler: (call) => list(call, true),
  }),
  route({
    method: 'POST',
    path: '/application',
    operation: 'createApplication',
    summary: 'Create an application with its microservices',
    access: { resource: 'applications', verb: 'create' },
    body: shapes.objectBody({ documents: shapes.applicationCreateBody, shows: shapes.applicationShape }),
    reply: { status: 201, schema: shapes.applicationCreated },
    errors: [400, 404, 409],
    handler: async (call) => create(call, await applicationOfBody(call, call.body)),
  }),
  route({
    method: 'POST',
    path: '/application/yaml',
    operation: 'createApplicationFromYaml',
    summary: 'Create an application from a file',
    description: 'A document of kind Application, in the v3 form or as kubectl takes it.',
    access: { resource: 'applications', verb: 'create' },
    body: { kind: 'file', part: 'application', templated: true, spec: applicationFile },
    reply: { status: 201, schema: shapes.applicationCreated },
    errors: [400, 404, 409],
    handler: async (call) => create(call, await applicationOfFile(call, call.document)),
  }),
  route({
    method: 'GET',
    path: '/application/{name}',
    operation: 'getApplication',
    summary: 'One application with its microservices',
    access: { resource: 'applications', verb: 'get', ...byName },
    params: shapes.nameParam,
    reply: { status: 200, schema: shapes.applicationShape },
    handler: (call) => get(call, call.params.name, false),
  }),
  route({
    method: 'GET',
    path: '/application/system/{name}',
    operation: 'getSystemApplication',
    summary: 'One application of the system',
    access: { resource: 'systemapplications', verb: 'get', ...byName },
    params: shapes.nameParam,
    reply: { status: 200, schema: shapes.applicationShape },
    handler: (call) => get(call, call.params.name, true),
  }),
  route({
    method: 'PUT',
    path: '/application/{name}',
    operation: 'replaceApplication',
    summary: "Set an application's state",
    description:
      'Microservices are told apart by name: those that the body does not name are removed, unless it has no `microservices` at all.',
    access: { resource: 'applications', verb: 'update', ...byName },
    params: shapes.nameParam,
    body: shapes.objectBody({ documents: shapes.applicationBody, shows: shapes.applicationShape }),
    reply: { status: 204 },
    handler: async (call) =>
      replace(call, call.params.name, await applicationOfBody(call, call.body, call.params.name)),
  }),
  route({
    method: 'PUT',
    path: '/application/yaml/{name}',
    operation: 'replaceApplicationFromYaml',
    summary: "Set an application's state from a file",
    access: { resource: 'applications', verb: 'update', ...byName },
    params: shapes.nameParam,
    body: { kind: 'file', part: 'application', templated: true, spec: applicationFile },
    reply: { status: 204 },
    handler: async (call) =>
      replace(call, call.params.name, await applicationOfFile(call, call.document, call.params.name)),
  }),
  route({
    method: 'PATCH',
    path: '/application/{name}',
    operation: 'updateApplication',
    summary: 'Change description, activation or bus settings of an application',
    access: { resource: 'applications', verb: 'patch', ...byName },
    params: shapes.nameParam,
    body: shapes.objectBody({ documents: shapes.applicationPatchBody, shows: shapes.applicationShape }),
    reply: { status: 204 },
    async handler({ deps, params, body, signal, warnings }) {
      let ignored: string[] = [];
      await editApplication(deps, params.name, signal, (application) => {
        const patched = withChanges(application, { spec: patchApplication(application, body) });
        ignored = busOfApplication(patched, application);
        return patched;
      });
      warnings.push(...ignored);
    },
  }),
  route({
    method: 'DELETE',
    path: '/application/{name}',
    operation: 'deleteApplication',
    summary: 'Delete an application',
    description:
      'Answers once it is gone, after 3 s at the latest; from then on no read shows it. Nodes that are live may take longer to end its containers: until then its microservices read `delete: true`.',
    access: { resource: 'applications', verb: 'delete', ...byName },
    params: shapes.nameParam,
    reply: { status: 204 },
    async handler({ deps, params, signal }) {
      if (holder(deps.applications.find('name', params.name))?.spec.isSystem)
        throw new DomainError(
          400,
          'SYSTEM_APPLICATION_DELETE',
          `${params.name} belongs to the system; delete it at /application/system/${params.name}`,
        );
      await deleteObject(deps.applications, await applicationByName(deps, params.name, signal), signal);
    },
  }),
  route({
    method: 'DELETE',
    path: '/application/system/{name}',
    operation: 'deleteSystemApplication',
    summary: 'Delete an application of the system',
    description: 'Refused while a microservice in it belongs to the platform of a node that exists.',
    access: { resource: 'systemapplications', verb: 'delete', ...byName },
    params: shapes.nameParam,
    reply: { status: 204 },
    async handler({ deps, params, signal }) {
      const application = await applicationByName(deps, params.name, signal, { system: true });
      const node = controllerIn(application)?.node;
      if (node !== undefined && deps.lookups.nodeByUuid(node)) throw controllerDelete();
      const refusal = platformDeletion(application, ({ name, uuid }) =>
        deps.nodes.find(uuid === undefined ? 'name' : 'uuid', uuid ?? name ?? '').some(isPresent),
      );
      if (refusal) throw refusal;
      await deleteObject(deps.applications, application, signal);
    },
  }),
]);

async function list({ deps, signal, caller }: Requester, system: boolean) {
  const applications = deps.applications
    .list()
    .filter(
      (application) =>
        isPresent(application) && (application.spec.isSystem === true) === system && hasItsName(deps, application),
    );
  const context = await readContext(deps, 'all', signal, caller);
  return listReply('applications', applications, (application) => [applicationRead(application, context)]);
}

/** Of two applications with one name one has it: a path with the name means that one. */
const hasItsName = ({ applications }: RestDependencies, application: Application) =>
  holder(applications.find('name', v3Name(application))) === application;

async function get({ deps, signal, caller }: Requester, name: string, system: boolean) {
  const application = await applicationByName(deps, name, signal, { system });
  return applicationRead(application, await readContext(deps, [application], signal, caller));
}

/** Characters of a refused name in a message. */
const SHOWN_NAME = 64;

async function create(requester: Requester, { name, spec, rebuild }: ApplicationUpload) {
  const { deps, signal } = requester;
  if (name.startsWith(SYSTEM_APPLICATION_PREFIX))
    throw invalid(
      `name: "${cut(name, SHOWN_NAME)}" must not begin with "${SYSTEM_APPLICATION_PREFIX}", as names of the system do: choose another name`,
      'name',
    );
  const { reservedName } = applicationResource;
  if (name === reservedName.name) throw invalid(`name: ${reservedName.message}: choose another name`, 'name');
  if (deps.self.isBusEnabled && TAKEN_ACCOUNT_NAMES.includes(name))
    throw invalid(
      `name: "${name}" is the name of an account of the system on the message bus: choose another name`,
      'name',
      'BUS_NAME_TAKEN',
    );
  const object = objectName(name);
  const make = async () => {
    const identity = {
      uuid: spec.uuid ?? randomUUID(),
      id: spec.id ?? (await deps.ids.next('Application', signal)),
    };
    if (deps.applications.find('id', String(identity.id)).length > 0)
      throw conflict('DUPLICATE_ID', `id: ${identity.id} belongs to another application; leave it out`, 'id');
    const application: Application = {
      apiVersion: API_VERSION,
      kind: applicationResource.kind,
      metadata: { name: object, labels: identityLabels(identity) },
      spec: { ...spec, ...(object !== name && { name }) },
    };
    return ordered(requester, application, undefined, rebuild);
  };
  const created = await createNamed(deps.applications, { kind: 'application', name, waitsFor: MACHINES }, make, signal);
  return { id: applicationId(created), name };
}

async function replace(requester: Requester, name: string, upload: ApplicationUpload): Promise<undefined> {
  const { deps, signal } = requester;
  await editApplication(deps, name, signal, async (application) => {
    const { spec, rebuild } = replaceState(application, upload);
    return ordered(requester, withChanges(application, { spec }), application, rebuild);
  });
  return undefined;
}

function editApplication(
  deps: RestDependencies,
  name: string,
  signal: AbortSignal,
  change: (application: Application) => Application | Promise<Application>,
): Promise<Application> {
  return edit(deps.applications, () => applicationByName(deps, name, signal), change, signal);
}
