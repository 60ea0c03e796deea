import {
  formatReference,
  type ImageReference,
  isReference,
  PUBLIC_HUB,
  parseReference,
} from '../../domain/reference.ts';
import type { LocalImage } from '../../engine-port/images.ts';

/** What a selector means: a name of an image, or an image with all its names. */
export interface SelectedImage {
  image: LocalImage;
  /** as the engine spells it; absent: the selector is an id */
  name?: string;
}

/** Why a selector means nothing; `candidates` are names and ids, for people. */
export interface Unselected {
  problem: 'malformed' | 'unknown' | 'ambiguous';
  candidates: readonly string[];
}

/** Hex digits of an id that are enough to look for it. */
const LEAST_DIGITS = 3;

/**
 * What a selector means: `repository:tag` or `repository@digest`, in full or without host and `library/`; a full id, or its first
 * hex digits, at least three. A selector that could mean several things means none. Pure.
 */
export function selectImage(selector: string, images: readonly LocalImage[]): SelectedImage | Unselected {
  const digits = /^(?:sha256:)?([0-9a-f]{1,64})$/.exec(selector)?.[1] ?? '';
  const named = isReference(selector) ? withName(selector, images) : [];
  const others = images.filter((image) => !named.some((each) => each.image === image));
  const byId = digits.length < LEAST_DIGITS ? [] : others.filter(({ id }) => id.startsWith(`sha256:${digits}`));
  const found: SelectedImage[] = [...named, ...byId.map((image) => ({ image }))];
  const [first] = found;
  if (first && found.length === 1) return first;
  if (first) return { problem: 'ambiguous', candidates: found.map(({ image, name }) => name ?? describe(image)) };
  const isId = digits.length >= LEAST_DIGITS;
  const isName = isReference(selector) && digits === '';
  return { problem: isId || isName ? 'unknown' : 'malformed', candidates: [] };
}

/** The names that a selector means. A name that it spells in full comes before names that end with it. */
function withName(selector: string, images: readonly LocalImage[]): SelectedImage[] {
  const wanted = parseReference(selector);
  const all = images.flatMap((image) => [...image.tags, ...image.digests].map((name) => ({ image, name })));
  const full = all.filter(({ name }) => formatReference(parseReference(name)) === formatReference(wanted));
  if (full.length > 0 || wanted.namesHost) return full;
  return all.filter(({ name }) => ending(parseReference(name)) === ending(wanted));
}

/** A reference without its host. */
function ending({ host, repository, ...rest }: ImageReference): string {
  const path = host === PUBLIC_HUB.host ? repository.replace(/^library\//, '') : repository;
  return formatReference({ ...rest, host: '', repository: path });
}

const describe = ({ id, tags }: LocalImage) => [id.slice(0, 'sha256:'.length + 12), ...tags.slice(0, 1)].join(' ');
