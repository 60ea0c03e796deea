import {
  ARCHITECTURES,
  BUILT_IN_CATALOG_ITEMS,
  BUILT_IN_REGISTRIES,
  SYSTEM_CATEGORY,
  SYSTEM_PUBLISHER,
  type SystemImages,
} from '../../../api/names.ts';
import type { CatalogItem, CatalogItemSpec, MicroserviceEntry, Registry } from '../../../api/v3/index.ts';
import { type BuiltIn, isOneOf } from '../../../rules/built-in.ts';
import { DomainError } from '../../../rules/errors.ts';
import type { Find } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import { IMAGE_ARCHITECTURES, normalReference } from '../../../rules/normal-entry.ts';
import type { Verdict } from '../../../rules/verdict.ts';
import { registryRefOf } from './catalog-images.ts';
import { normalType, resolveRegistry } from './registry.ts';

/** The items of the system's microservices. The controller creates them, and changes them with its releases. */
export const builtInItems = (images: SystemImages = {}): BuiltIn<CatalogItemSpec>[] =>
  Object.values(BUILT_IN_CATALOG_ITEMS).map(({ id, name, image }) => ({
    name,
    spec: {
      id,
      description: `Image of the ${name} that the system runs on nodes.`,
      category: SYSTEM_CATEGORY,
      publisher: SYSTEM_PUBLISHER,
      images: IMAGE_ARCHITECTURES.map((one) => {
        const archId = ARCHITECTURES.indexOf(one);
        return { archId, containerImage: images[name]?.[archId] ?? image };
      }),
      registryId: BUILT_IN_REGISTRIES.remote.id,
      isPublic: true,
    },
  }));

/** With the images of the release. */
export const BUILT_IN_ITEMS: readonly BuiltIn<CatalogItemSpec>[] = builtInItems();

export const isSystemItem = (item: CatalogItem): boolean => isOneOf(BUILT_IN_ITEMS, item);

/** Refusal to change or delete an item of the system. */
export function systemItemError(item: CatalogItem, action: 'changed' | 'deleted'): DomainError {
  const code = action === 'changed' ? 'SYSTEM_CATALOG_ITEM_UPDATE' : 'SYSTEM_CATALOG_ITEM_DELETE';
  return new DomainError(400, code, `the catalog item ${v3Name(item)} belongs to the system and cannot be ${action}`);
}

/** Why an item cannot be used. */
export function catalogItemVerdict(item: CatalogItem, find: Find): Verdict | undefined {
  const { publisher } = item.spec;
  if (!isSystemItem(item) && publisher?.trim().toLowerCase() === SYSTEM_PUBLISHER.toLowerCase())
    return {
      reason: 'PublisherReserved',
      status: 400,
      code: 'RESTRICTED_PUBLISHER',
      field: 'publisher',
      message: `publisher: ${JSON.stringify(publisher)}; is reserved for the items of the system`,
    };
  return registryVerdict(resolveRegistry(find, registryRefOf(item)), registryRefOf(item));
}

function registryVerdict(registry: Registry | undefined, ref: number | string): Verdict | undefined {
  const shown = JSON.stringify(ref);
  if (!registry)
    return {
      reason: 'RegistryNotFound',
      status: 404,
      code: 'REGISTRY_NOT_FOUND',
      field: 'registryId',
      message: `registryId: ${shown}; there is no such registry`,
    };
  if (normalType(registry.spec.type) === 'oci') return undefined;
  return {
    reason: 'RegistryWrongType',
    status: 400,
    code: 'INVALID_REGISTRY_TYPE',
    field: 'registryId',
    message: `registryId: ${shown}; the registry has type hub, and container images need one of type oci`,
  };
}

/** The references by which an entry uses catalog items. */
export function catalogItemRefsOf({ images }: MicroserviceEntry): readonly (number | string)[] {
  const ref = normalReference(images?.catalogId);
  return ref ? [ref] : [];
}

/** v3 read. Its id is text, unlike those of other kinds. */
export function catalogItemRead(
  item: CatalogItem,
  registryId: (ref: number | string) => number | undefined,
): Record<string, unknown> {
  const { description, category, publisher, picture, configExample, diskRequired, ramRequired } = item.spec;
  const ref = registryRefOf(item);
  return {
    name: v3Name(item),
    description: description ?? '',
    category: category ?? '',
    publisher: publisher ?? '',
    images: item.spec.images,
    diskRequired: diskRequired ?? 0,
    ramRequired: ramRequired ?? 0,
    picture: picture ?? '',
    isPublic: item.spec.isPublic ?? false,
    // A name that no registry has is shown as it is.
    registryId: registryId(ref) ?? ref,
    configExample: configExample ?? '',
    inputType: item.spec.inputType ?? {},
    outputType: item.spec.outputType ?? {},
  };
}
