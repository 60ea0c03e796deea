import { ARCHITECTURES, BUILT_IN_REGISTRIES } from '../../../api/names.ts';
import type { CatalogItem } from '../../../api/v3/index.ts';
import { type NormalEntry, normalReference } from '../../../rules/normal-entry.ts';

/** Images by architecture, and the registry that they come from. */
export interface ImageSource {
  images: NormalEntry['images'];
  registry?: number | string;
  /** the catalog item that names them */
  item?: CatalogItem;
}

/** Where the image of an entry comes from: its catalog item when it names one, else the entry itself. */
export function imageSourceOf(
  entry: Pick<NormalEntry, 'images' | 'registry' | 'catalogId'>,
  find: (kind: 'catalogItems', ref: number | string) => CatalogItem | undefined,
): ImageSource {
  const { images, registry, catalogId } = entry;
  if (catalogId === undefined) return { images, ...(registry !== undefined && { registry }) };
  const item = find('catalogItems', catalogId);
  return item ? { images: imagesOf(item), registry: registryRefOf(item), item } : { images: {} };
}

/** The images of an item by architecture. */
export const imagesOf = ({ spec }: CatalogItem): NormalEntry['images'] =>
  Object.fromEntries(spec.images.map(({ archId, containerImage }) => [ARCHITECTURES[archId], containerImage]));

/** The registry that an item names: an id, or a name. */
export const registryRefOf = ({ spec: { registryId } }: CatalogItem): number | string =>
  normalReference(registryId) ?? BUILT_IN_REGISTRIES.remote.id;
