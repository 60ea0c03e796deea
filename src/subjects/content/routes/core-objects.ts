import { type Kind, referenceKey } from '../../../kinds/definition.ts';
import type { KindObject } from '../../../kinds/object.ts';
import type { Caller } from '../../../rest/contract/access.ts';
import { objectsOf, type RestDependencies } from '../../../rest/contract/dependencies.ts';
import { forbidden } from '../../../rest/contract/errors.ts';
import { type CrudHooks, crudRoutes } from '../../../rest/crud/crud.ts';
import { deleteObject, requireUnprotected } from '../../../rest/objects/deletion.ts';
import { v3Name } from '../../../rules/names.ts';
import { KINDS } from '../../kinds.ts';
import { configMapKind, contentMembers, secretKind } from '../kinds/core-objects.ts';
import type { ConfigMapForm, SecretForm } from '../rules/core-objects/form.ts';

/** The routes of Secrets and ConfigMaps: data is in reads and not in lists, and that of Secrets needs a permission. */

const secrets: CrudHooks<SecretForm, { name?: string; spec: SecretForm['spec'] }> = {
  async read(deps, secret, caller) {
    const { crud } = secretKind.rest;
    const permission = { resource: 'secrets/data', verb: 'get' } as const;
    const { name } = secret.metadata;
    const mayRead = (await caller.may(permission)) || (await caller.may({ ...permission, name }));
    return { ...crud.read(secret, deps.references.find), ...(mayRead && contentMembers(secret)) };
  },
  users: (deps, secret) => usersOfMounts(deps, secretKind, secret),
  deleting: (deps, secret, caller, signal) => deleteMounts(deps, mountsOf(deps, secretKind, secret), caller, signal),
};

const configMaps: CrudHooks<ConfigMapForm, { name?: string; spec: ConfigMapForm['spec'] }> = {
  read: async (deps, configMap) => ({
    ...configMapKind.rest.crud.read(configMap, deps.references.find),
    ...contentMembers(configMap),
  }),
  users: (deps, configMap) => usersOfMounts(deps, configMapKind, configMap),
  deleting: (deps, configMap, caller, signal) =>
    deleteMounts(deps, mountsOf(deps, configMapKind, configMap), caller, signal),
};

const VOLUME_MOUNTS = KINDS.volumeMounts as unknown as Kind;

const mountsOf = <T extends KindObject>(deps: RestDependencies, kind: Kind<T>, source: T): readonly KindObject[] =>
  objectsOf(deps, VOLUME_MOUNTS).find('ref', referenceKey({ to: kind.key, ref: v3Name(source) }));

/** Who uses the volume mounts of a source uses the source. */
const usersOfMounts = <T extends KindObject>(deps: RestDependencies, kind: Kind<T>, source: T): readonly string[] =>
  mountsOf(deps, kind, source).flatMap((mount) => deps.references.users(VOLUME_MOUNTS, mount));

/**
 * Deletes the volume mounts of a source, which needs the permission to delete them. All of them or none: a refusal comes
 * before the first deletion.
 */
async function deleteMounts(
  deps: RestDependencies,
  mounts: readonly KindObject[],
  caller: Caller,
  signal: AbortSignal,
) {
  const permission = { resource: VOLUME_MOUNTS.definition.plural, verb: 'delete' } as const;
  for (const mount of mounts) {
    requireUnprotected(mount);
    const { name } = mount.metadata;
    if (!(await caller.may(permission)) && !(await caller.may({ ...permission, name })))
      throw forbidden(`volume mount "${name}" would be deleted as well, and you may not delete it`);
  }
  for (const mount of mounts) await deleteObject(objectsOf(deps, VOLUME_MOUNTS), mount, signal);
}

export const coreObjectRoutes = [
  ...crudRoutes(secretKind, secretKind.rest.crud, secrets),
  ...crudRoutes(configMapKind, configMapKind.rest.crud, configMaps),
];
