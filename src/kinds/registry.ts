import { type Registry, registryResource } from '../api/v3/registry.ts';
import { isReserved, registryId } from '../domain/names.ts';
import { defineKind } from './definition.ts';

export const registryKind = defineKind<Registry>()({
  key: 'registries',
  definition: registryResource,
  noun: 'registry',
  identity: { id: registryId, isReserved },
  inUse: { status: 400, code: 'REGISTRY_IS_IN_USE' },
  indexes: {
    /** name of the Secret with its password */
    secret: ({ spec: { passwordSecretRef } }) => (passwordSecretRef ? [passwordSecretRef.name] : []),
  },
});
