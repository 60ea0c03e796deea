import type { BridgedService } from '../../../rules/bridges.ts';
import { tagWords } from '../../nodes/rules/service-tags.ts';

/** The token by which a node selects every service. */
export const ALL_SERVICES = 'all';

/** The tokens of a node: the text after the first colon of each of its tags that has the prefix. */
export function serviceTokens(tags: readonly string[], prefix: string): ReadonlySet<string> {
  const words = tags.flatMap((tag) => tagWords(tag) ?? []);
  return new Set(words.filter((one) => one.prefix === prefix).map(({ token }) => token));
}

/** Tags of a service by which nodes find it: tags with `:` or `=` are annotations alone. */
export const eligibleTags = ({ tags }: Pick<BridgedService, 'tags'>): readonly string[] =>
  tags.filter((tag) => !/[:=]/.test(tag));
