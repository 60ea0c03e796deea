import type { DiskUsageAnswer, HistoryItem, ImageAnswer, ImageItem } from './answers.ts';
import type { DockerApi } from './api.ts';

/** The engine counts what images take within this time, ms, or it stays unknown. */
const COUNTING = 60_000;

/** Bytes of the layers of an image that no other image has, as an engine with a count of shared layers says. */
export async function countedBytes(api: DockerApi, id: string, signal?: AbortSignal): Promise<number> {
  // Engines that do not know the type count containers and volumes as well, which takes longer.
  const query = { type: 'image' };
  const { Images } = await api.call<DiskUsageAnswer>('GET', '/system/df', { query, signal, deadline: COUNTING });
  const image = Images?.find(({ Id }) => Id === id);
  // -1 is the engine's word for what it has not counted.
  return image ? Math.max(0, image.Size - Math.max(0, image.SharedSize)) : 0;
}

/** The layers of images by their ids: an image never changes, and podman looks at all images for each question about one. */
export type KnownLayers = Map<string, readonly string[]>;

/**
 * The same for podman, which counts a layer as shared only when one of the images is the base of the other: the layers above those
 * that another image has too. Undefined where podman does not say how large each layer is.
 */
export async function layeredBytes(
  api: DockerApi,
  id: string,
  known: KnownLayers,
  signal?: AbortSignal,
): Promise<number | undefined> {
  const read = (name: string) =>
    api.call<ImageAnswer | undefined>('GET', `/images/${name}/json`, { signal, tolerate: [404] });
  const image = await read(id);
  if (!image) return 0;
  const layers = image.RootFS?.Layers ?? [];
  let shared = 0;
  const ids = (await api.call<ImageItem[]>('GET', '/images/json', { signal })).map(({ Id }) => bare(Id));
  const present = new Set(ids);
  for (const each of known.keys()) if (!present.has(each)) known.delete(each);
  for (const each of ids) {
    if (each === bare(id)) continue;
    const others = known.get(each) ?? (await read(each))?.RootFS?.Layers ?? [];
    known.set(each, others);
    const differs = layers.findIndex((layer, index) => layer !== others[index]);
    shared = Math.max(shared, differs < 0 ? layers.length : differs);
  }
  if (shared === 0) return image.Size;
  if (shared === layers.length) return 0;
  // Newest first; a step of a build that made no layer has no size.
  const history = await api.call<HistoryItem[]>('GET', `/images/${id}/history`, { signal });
  const sizes = history.map(({ Size }) => Size).filter((size) => size > 0);
  if (sizes.length !== layers.length) return undefined;
  return sizes.slice(0, layers.length - shared).reduce((sum, size) => sum + size, 0);
}

const bare = (id: string) => id.replace(/^sha256:/, '');
