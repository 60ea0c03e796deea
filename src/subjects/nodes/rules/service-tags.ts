/** A tag of a node around its first colon, such as `skerry.dev/service: north`. */
interface TagWords {
  prefix: string;
  /** by which it selects services where the prefix is SERVICE_ANNOTATION_TAG */
  token: string;
}

/** The words of a tag that may select services; undefined for any other one. */
export function tagWords(tag: string): TagWords | undefined {
  const colon = tag.indexOf(':');
  const token = tag.slice(colon + 1).trim();
  return colon < 0 || token === '' ? undefined : { prefix: tag.slice(0, colon).trim(), token };
}

/** The key of the index `serviceTag`: the nodes with this token. */
export const serviceTagKey = ({ prefix, token }: TagWords): string => `${prefix}:${token}`;
