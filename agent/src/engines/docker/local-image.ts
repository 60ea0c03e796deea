import type { LocalImage } from '../../engine-port/images.ts';
import type { ImageItem } from './answers.ts';

const SECOND = 1000;

/** An image as the list of the engine shows it. Pure. */
export function toLocalImage({ Id, RepoTags, RepoDigests, Created = 0, Size = -1 }: ImageItem): LocalImage {
  return {
    id: fullImageId(Id),
    tags: named(RepoTags),
    digests: named(RepoDigests),
    ...(Created > 0 && { createdAt: Created * SECOND }),
    ...(Size >= 0 && { diskBytes: Size }),
  };
}

/** An id in the long form, which podman does not use in every answer. */
export const fullImageId = (id: string): string => (id.startsWith('sha256:') ? id : `sha256:${id}`);

/** Engines of an older API have `<none>` in place of names that an image lacks. */
const named = (names: readonly string[] | null | undefined) => (names ?? []).filter((name) => !name.includes('<none>'));
