import type { BridgedService } from '../../../rules/bridges.ts';

/** The token by which a node selects every service. */
export const ALL_SERVICES = 'all';

/** The tokens of a node: the text after the first colon of each of its tags that has the prefix. */
export function serviceTokens(tags: readonly string[], prefix: string): ReadonlySet<string> {
  const tokens = tags.flatMap((tag) => {
    const colon = tag.indexOf(':');
    const token = tag.slice(colon + 1).trim();
    return colon >= 0 && tag.slice(0, colon).trim() === prefix && token !== '' ? [token] : [];
  });
  return new Set(tokens);
}

/** Tags of a service by which nodes find it: tags with `:` or `=` are annotations alone. */
export const eligibleTags = ({ tags }: Pick<BridgedService, 'tags'>): readonly string[] =>
  tags.filter((tag) => !/[:=]/.test(tag));
