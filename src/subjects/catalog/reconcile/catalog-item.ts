import { FIELD_MANAGERS } from '../../../api/names.ts';
import { type CatalogItem, catalogItemSpecSchema } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { type Controller, equal, refOf } from '../../../kube/mod.ts';
import { KINDS, RESOURCES } from '../../kinds.ts';
import { builtInItems } from '../rules/catalog-item.ts';

/** CatalogItem: the items of the system have the images of this release, or those that the installation names. */
export function createCatalogItemController(deps: ControllerDependencies): Controller {
  const builtIns = builtInItems(deps.systemImages);
  /** the specs as the API server stores them */
  const specs = new Map(builtIns.map(({ name, spec }) => [name, catalogItemSpecSchema.parse(spec)]));

  async function update(item: CatalogItem, signal: AbortSignal) {
    const spec = specs.get(item.metadata.name);
    if (!spec || item.metadata.deletionTimestamp || equal(item.spec, spec)) return;
    const { resourceVersion } = item.metadata;
    // Members that the release does not have are removed.
    const absent = Object.keys(item.spec).filter((member) => !Object.hasOwn(spec, member));
    const body = {
      metadata: { resourceVersion },
      spec: { ...Object.fromEntries(absent.map((member) => [member, null])), ...spec },
    };
    const options = { signal, fieldManager: FIELD_MANAGERS.controller };
    await deps.client.patch(RESOURCES.catalogItems, refOf(item), { type: 'merge', body }, options);
  }
  return createKindController(deps, { ...KINDS.catalogItems, builtIns }, { prepare: update });
}
