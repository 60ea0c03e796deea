import { keepBuiltIns } from '../../../controllers/built-in.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import type { Controller } from '../../../kube/mod.ts';
import { KINDS } from '../../kinds.ts';
import { builtInItems } from '../rules/catalog-item.ts';

/** CatalogItem: the items of the system have the images of this release, or those that the installation names. */
export function createCatalogItemController(deps: ControllerDependencies): Controller {
  const builtIns = builtInItems(deps.systemImages);
  const prepare = keepBuiltIns(deps, KINDS.catalogItems, builtIns);
  return createKindController(deps, { ...KINDS.catalogItems, builtIns }, { prepare });
}
