import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createCatalogItemController } from './reconcile/catalog-item.ts';
import { createRegistryController } from './reconcile/registry.ts';
import { registryRoutes } from './routes/registries.ts';

/** Where images come from and how they run: Registry, CatalogItem, RuntimeClass. */
export const catalog = {
  routes: { registries: registryRoutes },
  reconcilers: (deps: ControllerDependencies) => ({
    ofKinds: {
      registries: createRegistryController(deps),
      catalogItems: createCatalogItemController(deps),
    },
  }),
};
