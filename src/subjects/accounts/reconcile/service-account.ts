import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { both, type Controller, keyOf, watching } from '../../../kube/mod.ts';
import { KINDS } from '../../kinds.ts';

/** ServiceAccount: the roles that users make begin and end. */
export function createServiceAccountController(deps: ControllerDependencies): Controller {
  const { roles, serviceAccounts } = deps.stores;
  const named = ({ metadata }: { metadata: { name: string } }) =>
    serviceAccounts.byIndex('role', metadata.name).map(keyOf);
  return createKindController(deps, KINDS.serviceAccounts, {
    watches: [watching(roles, (change) => (change.initial ? [] : both(named)(change)))],
  });
}
