import { parseReference } from '../../../domain/reference.ts';
import type { ImageUse, LocalImage } from '../../../engine-port/images.ts';
import { decimalSize } from '../../server/sizes.ts';

const NONE = '<none>';

/** A row of the list: an image by one of its names (docs/spec/agent-local-api.md#images). */
export interface ImageRow {
  id: string;
  shortId: string;
  repository: string;
  tag: string;
  digest: string | null;
  createdAt: string | null;
  contentSizeBytes: number | null;
  contentSizeHuman: string | null;
  diskUsageBytes: number | null;
  diskUsageHuman: string | null;
  inUse: boolean;
  engine: string;
}

/** A row for each name of each image, by repository and tag; an image without a name has one row. Pure. */
export function imageRows(images: readonly LocalImage[], uses: readonly ImageUse[], engine: string): ImageRow[] {
  const used = new Set(uses.map(({ imageId }) => imageId));
  const rows = images.flatMap((image) => {
    const { id, createdAt, contentBytes = null, diskBytes = null } = image;
    const figures = {
      createdAt: createdAt === undefined ? null : new Date(createdAt).toISOString(),
      contentSizeBytes: contentBytes,
      contentSizeHuman: contentBytes === null ? null : decimalSize(contentBytes),
      diskUsageBytes: diskBytes,
      diskUsageHuman: diskBytes === null ? null : decimalSize(diskBytes),
      ...{ inUse: used.has(id), engine },
    };
    const shortId = id.replace(/^sha256:/, '').slice(0, 12);
    return namesOf(image).map((name) => ({ id, shortId, ...name, ...figures }));
  });
  const key = ({ repository, tag, id }: ImageRow) => [repository, tag, id].join('\0');
  return rows.sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

/** The tags of an image, each with the digest that it has in the same repository; else its digests; else nothing. */
function namesOf({ tags, digests }: LocalImage): Pick<ImageRow, 'repository' | 'tag' | 'digest'>[] {
  const pinned = digests.map((name) => {
    const [repository = '', digest = ''] = name.split('@');
    return { repository, tag: NONE, digest };
  });
  const tagged = tags.map((name) => {
    const { tag } = parseReference(name);
    const repository = tag ? name.slice(0, -tag.length - 1) : name;
    const own = pinned.find((each) => each.repository === repository);
    return { repository, tag: tag || NONE, digest: own?.digest ?? null };
  });
  const untagged = pinned.filter(({ repository }) => !tagged.some((each) => each.repository === repository));
  const all = [...tagged, ...untagged];
  return all.length > 0 ? all : [{ repository: NONE, tag: NONE, digest: null }];
}
