import type { Caller } from '../contract/access.ts';
import { forbidden } from '../contract/errors.ts';

/** Refuses to give a role to a microservice unless the caller may bind it (docs/spec/identity-and-access.md#roles-of-microservices). */
export async function requireMayBind(caller: Caller, role: string, field: string): Promise<void> {
  const permission = { resource: 'roles', verb: 'bind' } as const;
  if ((await caller.may(permission)) || (await caller.may({ ...permission, name: role }))) return;
  throw forbidden(
    `${field}: ${caller.identity?.name ?? ''} may not bind roles "${role}" in the API group of this controller`,
  );
}
