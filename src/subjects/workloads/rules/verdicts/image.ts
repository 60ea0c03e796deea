import { ARCHITECTURES } from '../../../../api/names.ts';
import { registryId } from '../../../../rules/identity.ts';
import { v3Name } from '../../../../rules/names.ts';
import { IMAGE_ARCHITECTURES, imageFor } from '../../../../rules/normal-entry.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { imageSourceOf } from '../../../catalog/rules/catalog-images.ts';
import { normalType, resolveRegistry } from '../../../catalog/rules/registry.ts';
import { archOf } from '../../../nodes/rules/settings.ts';
import type { VerdictInput } from './rule.ts';

export function catalogItemIsFound({ entry: { catalogId }, lookups }: VerdictInput): Verdict | undefined {
  if (catalogId === undefined || lookups.find('catalogItems', catalogId)) return undefined;
  return {
    reason: 'CatalogItemNotFound',
    status: 404,
    code: 'INVALID_CATALOG_ITEM_ID',
    field: 'images.catalogId',
    message: `no catalog item ${JSON.stringify(catalogId)}`,
  };
}

export function imageIsGiven({ entry, node, lookups }: VerdictInput): Verdict | undefined {
  const source = imageSourceOf(entry, lookups.find);
  const given = IMAGE_ARCHITECTURES.filter((architecture) => source.images[architecture]);
  const archId = node ? archOf(node) : 0;
  if (imageFor(source, archId)) return undefined;
  const what = source.item ? `the catalog item "${v3Name(source.item)}" ` : '';
  return {
    reason: 'ImageMissing',
    status: 400,
    code: given.length === 0 ? 'MICROSERVICE_DOES_NOT_HAVE_IMAGES' : 'MISSING_IMAGE',
    field: source.item ? 'images.catalogId' : 'images',
    message:
      given.length === 0
        ? `${what}has no images; ${source.item ? 'give it some' : 'give one for an architecture, or a catalog item'}`
        : `${what}has no image for ${ARCHITECTURES[archId]}, the architecture of the node "${node && v3Name(node)}"; it has ${given.join(', ')}`,
  };
}

export function registryIsUsable({ entry, lookups }: VerdictInput): Verdict | undefined {
  const { registry: ref, item } = imageSourceOf(entry, lookups.find);
  const registry = resolveRegistry(lookups.find, ref);
  const field = item ? 'images.catalogId' : 'images.registry';
  const shown = `${JSON.stringify(ref)}${item ? ` of the catalog item "${v3Name(item)}"` : ''}`;
  if (!registry)
    return {
      reason: 'RegistryNotFound',
      status: 404,
      code: 'REGISTRY_NOT_FOUND',
      field,
      message: `no registry ${shown}`,
    };
  if (normalType(registry.spec.type) !== 'oci')
    return {
      reason: 'RegistryWrongType',
      status: 400,
      code: 'INVALID_REGISTRY_TYPE',
      field,
      message: `the registry ${shown} has type hub; container images need one of type oci`,
    };
  if (registryId(registry) === undefined)
    return {
      reason: 'RegistryNotReady',
      status: 409,
      code: 'REGISTRY_NOT_READY',
      field,
      message: `the registry ${shown} has no id yet`,
      passes: true,
    };
  return undefined;
}
