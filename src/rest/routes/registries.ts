import { ANNOTATIONS, API_VERSION } from '../../api/names.ts';
import { type Registry, registryResource } from '../../api/v3/index.ts';
import { duplicateName } from '../../domain/errors.ts';
import { identityLabels, registryId } from '../../domain/names.ts';
import {
  builtInError,
  isBuiltIn,
  PASSWORD_MASK,
  patchRegistry,
  registryFromBody,
  registryRead,
} from '../../domain/registry/index.ts';
import { inUseError, KINDS } from '../../kinds/index.ts';
import { oldest } from '../../stores/oldest.ts';
import { deleteObject, isPresent } from '../deletion.ts';
import type { RestDependencies } from '../dependencies.ts';
import { edit, withChanges } from '../edit.ts';
import { listReply } from '../list-reply.ts';
import { registryById } from '../lookup.ts';
import { type Grant, route } from '../route.ts';
import * as shapes from './shapes.ts';

const tag = 'Registries';
const byId: Pick<Grant, 'name' | 'objectName'> = {
  name: 'id',
  objectName: (id, deps) => oldest(deps.registries.find('id', id))?.metadata.name,
};

export const registryRoutes = [
  route({
    method: 'POST',
    path: '/registries',
    operation: 'createRegistry',
    tag,
    summary: 'Create a registry',
    access: { resource: 'registries', verb: 'create' },
    body: { kind: 'json', schema: shapes.templatedObject, documents: shapes.registryCreateBody },
    reply: { status: 201, schema: shapes.registryCreated },
    errors: [400, 409],
    async handler({ deps, body, signal }) {
      const { spec, password } = registryFromBody(body);
      if (spec.name !== undefined && deps.registries.find('name', spec.name).length > 0)
        throw duplicateName('registry', spec.name);
      const id = await deps.ids.next('Registry', signal);
      const metadata = { name: `registry-${id}`, labels: identityLabels({ id }) };
      const registry: Registry = { apiVersion: API_VERSION, kind: registryResource.kind, metadata, spec };
      if (typeof password === 'string') await createWithPassword(deps, registry, password, signal);
      else await deps.registries.create(registry, signal);
      return { id };
    },
  }),
  route({
    method: 'GET',
    path: '/registries',
    operation: 'listRegistries',
    tag,
    summary: 'All registries, without passwords',
    access: { resource: 'registries', verb: 'list' },
    reply: { status: 200, schema: shapes.registryList },
    handler({ deps }) {
      const { registries } = deps;
      // What has no number yet cannot be named; of two that claim one, the older has it.
      const numbered = registries.list().flatMap((registry) => {
        const id = registryId(registry);
        return isPresent(registry) && id !== undefined && oldest(registries.find('id', String(id))) === registry
          ? [{ id, registry }]
          : [];
      });
      const sorted = numbered.toSorted((a, b) => a.id - b.id).map(({ registry }) => registry);
      return listReply('registries', sorted, (registry) => [registryRead(registry)]);
    },
  }),
  route({
    method: 'GET',
    path: '/registries/{id}',
    operation: 'getRegistry',
    tag,
    summary: 'One registry',
    description: 'The password is shown to callers who may get `registries/credentials`, and masked for others.',
    access: { resource: 'registries', verb: 'get', ...byId },
    params: shapes.idParam,
    reply: { status: 200, schema: shapes.registryRead },
    errors: [404],
    async handler({ deps, params, caller, signal }) {
      const registry = await registryById(deps, params.id, signal);
      if (!registry.spec.passwordSecretRef) return registryRead(registry, '');
      const permission = { resource: 'registries/credentials', verb: 'get' } as const;
      const mayRead = (await caller.may(permission)) || (await caller.may({ ...permission, name: String(params.id) }));
      if (!mayRead) return registryRead(registry, PASSWORD_MASK);
      return registryRead(registry, (await deps.registryPasswords.read(registry, signal)) ?? '');
    },
  }),
  route({
    method: 'PATCH',
    path: '/registries/{id}',
    operation: 'updateRegistry',
    tag,
    summary: 'Change a registry',
    description:
      'User name and password do not follow a registry to another host, to plain HTTP, away from verified TLS or to another CA: they are removed, unless they come in the same request.',
    access: { resource: 'registries', verb: 'patch', ...byId },
    params: shapes.idParam,
    body: { kind: 'json', schema: shapes.templatedObject, documents: shapes.registryBody },
    reply: { status: 204 },
    errors: [400, 404, 409],
    async handler({ deps, params, body, signal }) {
      const { registryPasswords } = deps;
      let former: Registry | undefined;
      const edited = await edit(
        deps.registries,
        () => registryById(deps, params.id, signal),
        async (registry): Promise<Registry> => {
          former = registry;
          const { spec, password } = patchRegistry(registry, body);
          if (password === undefined) return withChanges(registry, { spec });
          const { passwordSecretRef, ...rest } = spec;
          if (password === null) return withChanges(registry, { spec: rest });
          const ref = await registryPasswords.write(withChanges(registry, { spec }), password, signal);
          return withChanges(registry, { spec: { ...rest, passwordSecretRef: ref } });
        },
        signal,
      );
      // Only once nothing refers to it.
      if (former && former.spec.passwordSecretRef?.name !== edited.spec.passwordSecretRef?.name)
        await registryPasswords.remove(former, signal);
      return undefined;
    },
  }),
  route({
    method: 'DELETE',
    path: '/registries/{id}',
    operation: 'deleteRegistry',
    tag,
    summary: 'Delete a registry that nothing uses',
    access: { resource: 'registries', verb: 'delete', ...byId },
    params: shapes.idParam,
    reply: { status: 204 },
    errors: [400, 404, 409],
    async handler({ deps, params, signal }) {
      const registry = await registryById(deps, params.id, signal);
      if (isBuiltIn(registry)) throw builtInError(registry);
      const users = deps.references.users(KINDS.registries, registry);
      if (users.length > 0) throw inUseError(KINDS.registries, registry, users);
      await deleteObject(deps.registries, registry, signal);
      return undefined;
    },
  }),
];

/**
 * A registry and the Secret that it owns, both or none: until its last write it is a draft without an id, which no
 * answer shows and which the leader removes when nobody finishes it.
 */
async function createWithPassword(deps: RestDependencies, registry: Registry, password: string, signal: AbortSignal) {
  const { name, labels } = registry.metadata;
  const metadata = { name, annotations: { [ANNOTATIONS.draft]: 'true' } };
  const draft = await deps.registries.create({ ...registry, metadata }, signal);
  try {
    const passwordSecretRef = await deps.registryPasswords.write(draft, password, signal);
    const { annotations: _, ...finished } = draft.metadata;
    await deps.registries.replace(
      { ...draft, metadata: { ...finished, labels }, spec: { ...registry.spec, passwordSecretRef } },
      signal,
    );
  } catch (error) {
    await deps.registries.delete(draft, AbortSignal.timeout(5_000)).catch(() => {});
    throw error;
  }
}
