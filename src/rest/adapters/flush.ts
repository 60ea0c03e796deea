import type { Stores } from '../../datastore/stores.ts';
import type { Authorizer } from '../contract/access.ts';

/** Forgets reviews of access at each change of a role or a binding, whoever made it. */
export function flushOnChange(
  { roles, roleBindings }: Pick<Stores, 'roles' | 'roleBindings'>,
  authorizer: Pick<Authorizer, 'flush'>,
): Disposable {
  const subscriptions = new DisposableStack();
  for (const store of [roles, roleBindings]) subscriptions.use(store.subscribe(() => authorizer.flush?.()));
  return subscriptions;
}
