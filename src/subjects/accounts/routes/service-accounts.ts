import type { ServiceAccount } from '../../../api/v3/index.ts';
import { requireMayBind } from '../../../rest/access/bind.ts';
import { type CrudHooks, crudRoutes } from '../../../rest/crud/crud.ts';
import { findObject } from '../../../rest/objects/lookup.ts';
import { KINDS } from '../../kinds.ts';
import { serviceAccountKind } from '../kinds/service-account.ts';
import { FREE_ROLES, serviceAccountOf } from '../rules/service-account.ts';

const { crud } = serviceAccountKind.rest;

/** of a read of the roles */
const REFRESH_MS = 5_000;

/** An account gets a role from callers who may bind it. */
const hooks: CrudHooks<ServiceAccount, { name?: string; spec: ServiceAccount['spec'] }> = {
  async permit(caller, { spec: { roleRef } }, before, deps) {
    if (FREE_ROLES.includes(roleRef.name) || before?.spec.roleRef.name === roleRef.name) return;
    await requireMayBind(caller, roleRef.name, 'roleRef');
    // Another replica may have made the role just now.
    if (!deps.lookups.find('roles', roleRef.name)) await deps.roles.refresh(AbortSignal.timeout(REFRESH_MS));
  },

  /** Each microservice has an account of its name, also without an object. */
  async readAbsent(deps, value, signal) {
    const [applicationName = '', name] = value.split('/');
    const application = await findObject(deps, KINDS.applications, applicationName, signal);
    const entry = application?.spec.microservices?.find((one) => one.name === name);
    if (!application || !entry) return undefined;
    const { roleRef } = serviceAccountOf(application, entry, deps.lookups.find);
    return { name: entry.name, applicationName, roleRef };
  },
};

export const serviceAccountRoutes = crud ? crudRoutes(serviceAccountKind, crud, hooks) : [];
