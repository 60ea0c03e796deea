import { API_VERSION } from '../../api/names.ts';
import { type Registry, registryKind } from '../../api/v3/index.ts';
import {
  builtInError,
  inUseError,
  isBuiltIn,
  PASSWORD_MASK,
  patchRegistry,
  registryFromBody,
  registryRead,
  registryUsers,
} from '../../domain/registry/index.ts';
import { oldest } from '../../stores/oldest.ts';
import { edit, refuseDeleting, withChanges } from '../edit.ts';
import { registryById } from '../lookup.ts';
import { type Grant, route } from '../route.ts';
import * as shapes from './shapes.ts';

const tag = 'Registries';
const byId: Pick<Grant, 'name' | 'objectName'> = {
  name: 'id',
  objectName: (id, ports) => oldest(ports.registries.find('id', id))?.metadata.name,
};

export const registryRoutes = [
  route({
    method: 'POST',
    path: '/registries',
    operation: 'createRegistry',
    tag,
    summary: 'Create a registry',
    access: { resource: 'registries', verb: 'create' },
    body: { kind: 'json', schema: shapes.anyObject, documents: shapes.registryCreateBody },
    reply: { status: 201, schema: shapes.registryCreated },
    errors: [400],
    async handler({ ports, body, signal }) {
      const { spec, password } = registryFromBody(body);
      const id = await ports.ids.next('Registry', signal);
      const name = `registry-${id}`;
      const registry = await ports.registries.create(
        {
          apiVersion: API_VERSION,
          kind: registryKind.kind,
          metadata: { name },
          spec: {
            ...spec,
            id,
            ...(typeof password === 'string' && { passwordSecretRef: ports.registryPasswords.refFor(name) }),
          },
        },
        signal,
      );
      if (typeof password === 'string') {
        await ports.registryPasswords.write(registry, password, signal).catch(async (error) => {
          // A registry without the password it was created with would only fail later, on the machines.
          await ports.registries.delete(registry, AbortSignal.timeout(5_000)).catch(() => {});
          throw error;
        });
      }
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
    handler({ ports }) {
      const registries = ports.registries.list().filter((registry) => registry.spec.id !== undefined);
      return {
        registries: registries
          .toSorted((a, b) => (a.spec.id ?? 0) - (b.spec.id ?? 0))
          .map((registry) => registryRead(registry)),
      };
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
    async handler({ ports, params, caller, signal }) {
      const registry = await registryById(ports, params.id, signal);
      if (!registry.spec.passwordSecretRef) return registryRead(registry, '');
      const permission = { resource: 'registries/credentials', verb: 'get' } as const;
      const mayRead = (await caller.may(permission)) || (await caller.may({ ...permission, name: String(params.id) }));
      if (!mayRead) return registryRead(registry, PASSWORD_MASK);
      return registryRead(registry, (await ports.registryPasswords.read(registry, signal)) ?? '');
    },
  }),
  route({
    method: 'PATCH',
    path: '/registries/{id}',
    operation: 'updateRegistry',
    tag,
    summary: 'Change a registry',
    access: { resource: 'registries', verb: 'patch', ...byId },
    params: shapes.idParam,
    body: { kind: 'json', schema: shapes.anyObject, documents: shapes.registryBody },
    reply: { status: 204 },
    errors: [400, 404, 409],
    async handler({ ports, params, body, signal }) {
      const { registryPasswords } = ports;
      await edit(
        ports.registries,
        () => registryById(ports, params.id, signal),
        async (registry): Promise<Registry> => {
          const { spec, password } = patchRegistry(registry, body);
          refuseDeleting(`the registry ${params.id}`, registry);
          if (typeof password === 'string') {
            await registryPasswords.write(registry, password, signal);
            return withChanges(registry, {
              spec: { ...spec, passwordSecretRef: registryPasswords.refFor(registry.metadata.name) },
            });
          }
          if (password !== null) return withChanges(registry, { spec });
          await registryPasswords.remove(registry, signal);
          const { passwordSecretRef: _, ...rest } = spec;
          return withChanges(registry, { spec: rest });
        },
        signal,
      );
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
    errors: [400, 404],
    async handler({ ports, params, signal }) {
      const registry = await registryById(ports, params.id, signal);
      if (isBuiltIn(registry)) throw builtInError(registry);
      const users = registryUsers(registry, ports.registries.list(), ports.applications.list());
      if (users.length > 0) throw inUseError(registry, users);
      await ports.registries.delete(registry, signal);
      return undefined;
    },
  }),
];
