import { LABELS } from '../../../api/names.ts';
import { type Kind, referenceKey } from '../../../kinds/definition.ts';
import type { KindObject } from '../../../kinds/object.ts';
import type { Caller } from '../../../rest/contract/access.ts';
import { objectsOf, type RestDependencies } from '../../../rest/contract/dependencies.ts';
import { forbidden } from '../../../rest/contract/errors.ts';
import { type CrudHooks, crudRoutes } from '../../../rest/crud/crud.ts';
import { deleteObject, isPresent, requireUnprotected } from '../../../rest/objects/deletion.ts';
import { withChanges } from '../../../rest/objects/edit.ts';
import { conflict } from '../../../rules/errors.ts';
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
  async change(deps, before, { spec }) {
    const certificate = certificateOf(deps, before);
    if (!certificate) return withChanges(before, { spec });
    throw conflict(
      'SECRET_OF_CERTIFICATE',
      `the controller writes the secret of certificate "${certificate.metadata.name}": change or renew the certificate`,
    );
  },
  async deleting(deps, secret, caller, signal) {
    const certificate = certificateOf(deps, secret);
    if (certificate) await requireMayDelete(caller, CERTIFICATES, certificate);
    await deleteMountsOf(deps, secretKind, secret, caller, signal);
    if (certificate) await deleteObject(objectsOf(deps, CERTIFICATES), certificate, signal);
  },
};

/** The certificate whose key and certificate a Secret has. */
function certificateOf(deps: RestDependencies, { core }: SecretForm): KindObject | undefined {
  const name = core?.metadata.labels?.[LABELS.certificate];
  return name === undefined ? undefined : objectsOf(deps, CERTIFICATES).find('name', name).find(isPresent);
}

const configMaps: CrudHooks<ConfigMapForm, { name?: string; spec: ConfigMapForm['spec'] }> = {
  read: async (deps, configMap) => ({
    ...configMapKind.rest.crud.read(configMap, deps.references.find),
    ...contentMembers(configMap),
  }),
  users: (deps, configMap) => usersOfMounts(deps, configMapKind, configMap),
  deleting: (deps, configMap, caller, signal) => deleteMountsOf(deps, configMapKind, configMap, caller, signal),
};

const VOLUME_MOUNTS = KINDS.volumeMounts as unknown as Kind;
const CERTIFICATES = KINDS.certificates as unknown as Kind;

const mountsOf = <T extends KindObject>(deps: RestDependencies, kind: Kind<T>, source: T): readonly KindObject[] =>
  objectsOf(deps, VOLUME_MOUNTS).find('ref', referenceKey({ to: kind.key, ref: v3Name(source) }));

/** Who uses the volume mounts of a source uses the source. */
export const usersOfMounts = <T extends KindObject>(
  deps: RestDependencies,
  kind: Kind<T>,
  source: T,
): readonly string[] => mountsOf(deps, kind, source).flatMap((mount) => deps.references.users(VOLUME_MOUNTS, mount));

/**
 * Deletes the volume mounts of a source, which needs the permission to delete them. All of them or none: a refusal comes
 * before the first deletion.
 */
export async function deleteMountsOf<T extends KindObject>(
  deps: RestDependencies,
  kind: Kind<T>,
  source: T,
  caller: Caller,
  signal: AbortSignal,
): Promise<void> {
  const mounts = mountsOf(deps, kind, source);
  for (const mount of mounts) await requireMayDelete(caller, VOLUME_MOUNTS, mount);
  for (const mount of mounts) await deleteObject(objectsOf(deps, VOLUME_MOUNTS), mount, signal);
}

/** Refuses the deletion of an object that would be deleted with another one. */
async function requireMayDelete(caller: Caller, { definition, noun }: Kind, object: KindObject): Promise<void> {
  requireUnprotected(object);
  const permission = { resource: definition.plural, verb: 'delete' } as const;
  const { name } = object.metadata;
  if (!(await caller.may(permission)) && !(await caller.may({ ...permission, name })))
    throw forbidden(`${noun} "${name}" would be deleted as well, and you may not delete it`);
}

export const coreObjectRoutes = [
  ...crudRoutes(secretKind, secretKind.rest.crud, secrets),
  ...crudRoutes(configMapKind, configMapKind.rest.crud, configMaps),
];
