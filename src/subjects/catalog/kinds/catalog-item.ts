import { z } from 'zod';
import { type CatalogItem, catalogItemResource, catalogItemSpecSchema } from '../../../api/v3/catalog-item.ts';
import { defineKind } from '../../../kinds/definition.ts';
import type { FindReferenced } from '../../../kinds/object.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { plainShapes } from '../../../kinds/rest.ts';
import { registryId } from '../../../rules/identity.ts';
import type { Find } from '../../../rules/inputs.ts';
import { registryRefOf } from '../rules/catalog-images.ts';
import {
  BUILT_IN_ITEMS,
  catalogItemRead,
  catalogItemVerdict,
  isSystemItem,
  systemItemError,
} from '../rules/catalog-item.ts';
import { resolveRegistry } from '../rules/registry.ts';

const plain = plainTranslation<CatalogItem>(catalogItemSpecSchema);
/** The look-up of the domain. */
const finder = (find: FindReferenced) => ((to, ref) => find({ to, ref })) as Find;

export const catalogItemKind = defineKind<CatalogItem>()({
  key: 'catalogItems',
  definition: catalogItemResource,
  lookedUp: true,
  noun: 'catalog item',
  builtIns: BUILT_IN_ITEMS,
  inUse: { status: 400, code: 'CATALOG_ITEM_IS_IN_USE' },
  access: 'workloads',
  references: (item) => [{ to: 'registries', ref: registryRefOf(item) }],
  verdict: (item, find) => catalogItemVerdict(item, finder(find)),
  rest: {
    tag: 'Catalog',
    key: 'id',
    notFound: 'INVALID_CATALOG_ITEM_ID',
    crud: {
      path: '/catalog/microservices',
      list: 'catalogItems',
      idIsText: true,
      replies: { create: { status: 201, body: 'key' }, change: { status: 204 }, delete: { status: 204 } },
      shapes: plainShapes(catalogItemResource, z.object(catalogItemSpecSchema.shape), { idIsText: true }),
      texts: {
        list: { summary: 'All catalog items, those of the system included' },
        change: {
          description:
            'Microservices that use the item get its new images and registry; what changes for them is rebuilt.',
        },
      },
      fromBody: plain.fromBody,
      patch(item, body) {
        if (isSystemItem(item)) throw systemItemError(item, 'changed');
        return plain.patch(item, body);
      },
      read: (item, find) =>
        catalogItemRead(item, (ref) => {
          const registry = resolveRegistry(finder(find), ref);
          return registry && registryId(registry);
        }),
      undeletable: (item) => (isSystemItem(item) ? systemItemError(item, 'deleted') : undefined),
    },
  },
  indexes: {},
});
