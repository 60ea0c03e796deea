import { ANNOTATIONS } from '../../../api/names.ts';
import type { Registry } from '../../../api/v3/index.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { type CrudHooks, crudRoutes } from '../../../rest/crud/crud.ts';
import { withChanges } from '../../../rest/objects/edit.ts';
import { registryCrud, registryKind } from '../kinds/registry.ts';
import { credentialsLost, PASSWORD_MASK, type RegistryWrite, registryRead } from '../rules/registry.ts';

const CREDENTIALS_REMOVED =
  'user name and password were removed, since they do not follow a registry to another destination; send them again to use them there';

/** Passwords of registries: stored in Secrets, and returned to callers with the permission. */
const passwords: CrudHooks<Registry, RegistryWrite> = {
  create: (deps, registry, { password }, signal) =>
    typeof password === 'string'
      ? createWithPassword(deps, registry, password, signal)
      : deps.registries.create(registry, signal),

  async change({ registryPasswords }, registry, { spec, password }, signal) {
    if (password === undefined) return withChanges(registry, { spec });
    const { passwordSecretRef, ...rest } = spec;
    if (password === null) return withChanges(registry, { spec: rest });
    const ref = await registryPasswords.write(withChanges(registry, { spec }), password, signal);
    return withChanges(registry, { spec: { ...rest, passwordSecretRef: ref } });
  },

  /** Deletes the former Secret after the registry no longer refers to it. */
  async changed({ registryPasswords }, before, after, signal) {
    if (before.spec.passwordSecretRef?.name !== after.spec.passwordSecretRef?.name)
      await registryPasswords.remove(before, signal);
    return credentialsLost(before, after) ? CREDENTIALS_REMOVED : undefined;
  },

  async read(deps, registry, caller, signal) {
    if (!registry.spec.passwordSecretRef) return registryRead(registry, '');
    const permission = { resource: 'registries/credentials', verb: 'get' } as const;
    const name = String(registryKind.identity.id?.(registry));
    const mayRead = (await caller.may(permission)) || (await caller.may({ ...permission, name }));
    if (!mayRead) return registryRead(registry, PASSWORD_MASK);
    return registryRead(registry, (await deps.registryPasswords.read(registry, signal)) ?? '');
  },
};

export const registryRoutes = crudRoutes(registryKind, registryCrud, passwords);

/**
 * A registry and the Secret that it owns, both or none: until its last write it is a draft without an id, which no
 * response shows and which the leader removes when it stays unfinished.
 */
async function createWithPassword(deps: RestDependencies, registry: Registry, password: string, signal: AbortSignal) {
  const { name, labels } = registry.metadata;
  const metadata = { name, annotations: { [ANNOTATIONS.draft]: 'true' } };
  const draft = await deps.registries.create({ ...registry, metadata }, signal);
  try {
    const passwordSecretRef = await deps.registryPasswords.write(draft, password, signal);
    const { annotations: _, ...finished } = draft.metadata;
    return await deps.registries.replace(
      { ...draft, metadata: { ...finished, labels }, spec: { ...registry.spec, passwordSecretRef } },
      signal,
    );
  } catch (error) {
    await deps.registries.delete(draft, AbortSignal.timeout(5_000)).catch(() => {});
    throw error;
  }
}
