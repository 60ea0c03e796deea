import { type Kind, NAMED_USERS, nameIn } from '../../kinds/definition.ts';
import type { KindObject } from '../../kinds/object.ts';
import { isOneOf } from '../../rules/built-in.ts';
import type { Caller } from '../contract/access.ts';
import type { RestDependencies } from '../contract/dependencies.ts';
import { forbidden } from '../contract/errors.ts';

/**
 * Refuses a write of an object that decides what microservices of the system run, unless the caller may update the applications
 * of the system that use it (docs/spec/identity-and-access.md#what-the-system-uses). For a new object the question is who names
 * it already. What is built in has refusals of its own.
 */
export async function requireMayChange<T extends KindObject>(
  { deps, caller }: { deps: RestDependencies; caller: Caller },
  kind: Kind<T>,
  object: T,
): Promise<void> {
  if (isOneOf(kind.builtIns ?? [], object)) return;
  const users = deps.references.systemUsers(kind as unknown as Kind, object);
  if (users.length === 0) return;
  const permission = { resource: 'systemapplications', verb: 'update' } as const;
  if (await caller.may(permission)) return;
  // A permission for some names is asked for a few; of more there may be others.
  const asked = users.length > NAMED_USERS ? [] : users;
  const answers = await Promise.all(asked.map((name) => caller.may({ ...permission, name })));
  const refused = users.find((_, at) => !answers[at]);
  if (refused === undefined) return;
  throw forbidden(
    `${kind.noun} ${JSON.stringify(nameIn(kind, object))}: the application "${refused}" of the system uses it, and ${caller.identity?.name ?? ''} may not update systemapplications in the API group of this controller`,
  );
}
