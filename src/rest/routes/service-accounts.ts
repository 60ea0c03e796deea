import type { ServiceAccount } from '../../api/v3/index.ts';
import { BOUND_ROLES } from '../../domain/service-account.ts';
import { serviceAccountKind } from '../../kinds/service-account.ts';
import { requireMayBind } from '../access/bind.ts';
import { type CrudHooks, crudRoutes } from './crud.ts';

const { crud } = serviceAccountKind.rest;

/** An account gets a role from callers who may bind it. */
const hooks: CrudHooks<ServiceAccount, { name?: string; spec: ServiceAccount['spec'] }> = {
  async permit(caller, { spec: { roleRef } }, before) {
    if (BOUND_ROLES.includes(roleRef.name) && before?.spec.roleRef.name !== roleRef.name)
      await requireMayBind(caller, roleRef.name, 'roleRef');
  },
};

export const serviceAccountRoutes = crud ? crudRoutes(serviceAccountKind, crud, hooks) : [];
