import { configProblems } from '../../../router-schema/check.ts';
import { canonicalJson } from '../../../wire/digest.ts';
import type { RouterPair } from '../../../wire/router.ts';
import { routerConfigText } from './config.ts';

/** The configuration of the hub with what others have put into it. */
export interface MergedConfig {
  /** the text that was there when it means the same */
  text: string;
  pairs: readonly RouterPair[];
  /** pairs of others that were left out, each with why; and why all that was there was replaced */
  leftOut: readonly string[];
}

/** Pairs of others that are kept. */
const MOST_FOREIGN = 256;

const SINGLE: ReadonlySet<string> = new Set(['router', 'site']);
const BRIDGES = [
  ['tcpListener', '-listener'],
  ['tcpConnector', '-connector'],
] as const;

/**
 * Puts our pairs in place of our former ones, and keeps the pairs of others. A pair of theirs that the router could not start with, beside ours, is
 * left out: the hub is more than a foreign listener.
 */
export function mergePairs(present: string | undefined, own: readonly RouterPair[]): MergedConfig {
  const before = present === undefined ? [] : pairsIn(present);
  if (!before)
    return { text: routerConfigText(own), pairs: own, leftOut: ['it was no list of pairs, and was replaced'] };
  const { pairs, leftOut } = withForeign(
    own,
    before.filter((pair) => !isOurs(pair, own)),
  );
  const text = routerConfigText(pairs);
  const isSame = present !== undefined && present !== text && sorted(before) === sorted(pairs);
  return { text: isSame ? present : text, pairs, leftOut };
}

function withForeign(own: readonly RouterPair[], foreign: readonly RouterPair[]): Omit<MergedConfig, 'text'> {
  if (foreign.length > MOST_FOREIGN)
    return { pairs: own, leftOut: [`there are more than ${MOST_FOREIGN} pairs of others`] };
  // Ours alone are right.
  if (foreign.length === 0) return { pairs: own, leftOut: [] };
  const together = [...own, ...foreign];
  if (configProblems(together).length === 0) return { pairs: together, leftOut: [] };
  const pairs = [...own];
  const leftOut: string[] = [];
  for (const pair of foreign) {
    const [problem] = configProblems([...pairs, pair]);
    if (problem === undefined) pairs.push(pair);
    else leftOut.push(problem);
  }
  return { pairs, leftOut };
}

/** Whether a pair is one of ours, or was. */
function isOurs([entity, attributes]: RouterPair, own: readonly RouterPair[]): boolean {
  if (SINGLE.has(entity)) return true;
  const { name } = attributes;
  if (BRIDGES.some(([kind, suffix]) => kind === entity && typeof name === 'string' && name.endsWith(suffix)))
    return true;
  const key = keyOf(entity, attributes);
  return key !== undefined && own.some(([kind, of]) => kind === entity && keyOf(kind, of) === key);
}

/** By what an entity of a kind is known. */
const KEYS: Readonly<Record<string, string>> = { address: 'prefix', log: 'module' };
const keyOf = (entity: string, attributes: RouterPair[1]) => attributes[KEYS[entity] ?? 'name'];

function pairsIn(text: string): RouterPair[] | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return Array.isArray(parsed) && parsed.every(isPair) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

const isPair = (pair: unknown): pair is RouterPair =>
  Array.isArray(pair) &&
  pair.length === 2 &&
  typeof pair[0] === 'string' &&
  typeof pair[1] === 'object' &&
  pair[1] !== null;

const sorted = (pairs: readonly RouterPair[]) =>
  pairs
    .map((pair) => canonicalJson(pair))
    .sort()
    .join('\n');
