import type { SharedConfigMap, SharedSecret } from '../../domain/shared/form.ts';
import { configMapKind, contentOf, secretKind } from '../../kinds/shared.ts';
import { type CrudHooks, crudRoutes } from './crud.ts';

/** The routes of Secrets and ConfigMaps: data is in reads and not in lists, and that of Secrets needs a permission. */

const secrets: CrudHooks<SharedSecret, { name?: string; spec: SharedSecret['spec'] }> = {
  async read(deps, secret, caller) {
    const { crud } = secretKind.rest;
    const permission = { resource: 'secrets/data', verb: 'get' } as const;
    const { name } = secret.metadata;
    const mayRead = (await caller.may(permission)) || (await caller.may({ ...permission, name }));
    return { ...crud.read(secret, deps.references.find), ...(mayRead && contentOf(secret)) };
  },
};

const configMaps: CrudHooks<SharedConfigMap, { name?: string; spec: SharedConfigMap['spec'] }> = {
  read: async (deps, configMap) => ({
    ...configMapKind.rest.crud.read(configMap, deps.references.find),
    ...contentOf(configMap),
  }),
};

export const sharedRoutes = [
  ...crudRoutes(secretKind, secretKind.rest.crud, secrets),
  ...crudRoutes(configMapKind, configMapKind.rest.crud, configMaps),
];
