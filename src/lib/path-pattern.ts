/**
 * Patterns of the paths of HTTP routes. A segment is literal, or `{name}`, which stands for one segment that is not empty, or
 * `{name}:verb`, which stands for a segment with this end. `*` at the end stands for any further text, also for none.
 */

/** A row of a table that has a path, with the decoded parameters of the path. */
export interface PathMatch<T> {
  value: T;
  parameters: Record<string, string>;
}

interface Row<T> {
  names: readonly string[];
  value: T;
}

interface Node<T> {
  literals: Map<string, Node<T>>;
  parameter?: Node<T>;
  /** parameters with a verb behind them, by verb */
  verbs: Map<string, Node<T>>;
  /** patterns that end here with `*`, by the text before it; the longest text first */
  prefixes: { text: string; row: Row<T> }[];
  row?: Row<T>;
}

const newNode = <T>(): Node<T> => ({ literals: new Map(), verbs: new Map(), prefixes: [] });

/** Names of the parameters of a pattern, in order. */
export const parameterNames = (pattern: string): string[] =>
  [...pattern.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);

/**
 * A function that finds the rows whose patterns match a path, the most specific first: at each segment a literal is before a
 * parameter, a parameter with a verb before one without, and a long text before `*` before a short one. The time that it takes does not depend on the number of rows.
 *
 * Throws when two patterns match the same paths. The function throws URIError when a parameter is not valid percent-encoding.
 */
export function pathTable<T>(
  rows: Iterable<readonly [pattern: string, value: T]>,
): (path: string) => Iterable<PathMatch<T>> {
  const root = newNode<T>();
  for (const [pattern, value] of rows) add(root, pattern, { names: parameterNames(pattern), value });
  return function* (path) {
    for (const { row, values } of matches(root, path.split('/'), 0, []))
      yield {
        value: row.value,
        parameters: Object.fromEntries(row.names.map((name, i) => [name, decodeURIComponent(values[i] ?? '')])),
      };
  };
}

function add<T>(root: Node<T>, pattern: string, row: Row<T>): void {
  const twice = new Error(`two rows have the pattern ${pattern}`);
  let node = root;
  for (const segment of pattern.split('/')) {
    if (segment.endsWith('*')) {
      const text = segment.slice(0, -1);
      if (node.prefixes.some((one) => one.text === text)) throw twice;
      node.prefixes.push({ text, row });
      node.prefixes.sort((a, b) => b.text.length - a.text.length);
      return;
    }
    const [isParameter, verb] = /^\{\w+\}(:\w+)?$/.exec(segment) ?? [];
    if (isParameter && verb === undefined) {
      node.parameter ??= newNode();
      node = node.parameter;
    } else node = childOf(verb === undefined ? node.literals : node.verbs, verb ?? segment);
  }
  if (node.row) throw twice;
  node.row = row;
}

function childOf<T>(children: Map<string, Node<T>>, text: string): Node<T> {
  const child = children.get(text) ?? newNode<T>();
  children.set(text, child);
  return child;
}

function* matches<T>(
  node: Node<T>,
  segments: readonly string[],
  at: number,
  values: readonly string[],
): Generator<{ row: Row<T>; values: readonly string[] }, void> {
  const segment = segments[at];
  if (segment === undefined) {
    if (node.row) yield { row: node.row, values };
    return;
  }
  const literal = node.literals.get(segment);
  if (literal) yield* matches(literal, segments, at + 1, values);
  for (const { text, row } of node.prefixes) if (segment.startsWith(text)) yield { row, values };
  const colon = segment.lastIndexOf(':');
  const verb = colon > 0 ? node.verbs.get(segment.slice(colon)) : undefined;
  if (verb) yield* matches(verb, segments, at + 1, [...values, segment.slice(0, colon)]);
  if (node.parameter && segment !== '') yield* matches(node.parameter, segments, at + 1, [...values, segment]);
}

/** Routes by method and path. Both functions throw URIError as those of `pathTable` do. */
export interface RouteTable<T> {
  /** The most specific of the routes that have the method and match the path. */
  find(method: string, path: string): PathMatch<T> | undefined;
  /** The methods of all routes that match the path, sorted. */
  methodsOf(path: string): string[];
}

/** Throws when two routes with one method match the same paths. */
export function routeTable<T extends { method: string }>(
  rows: Iterable<readonly [pattern: string, route: T]>,
): RouteTable<T> {
  const byMethod = Map.groupBy(rows, ([, { method }]) => method);
  const tables = new Map([...byMethod].map(([method, own]) => [method, pathTable(own)]));
  const first = ([match]: Iterable<PathMatch<T>> = []) => match;
  return {
    find: (method, path) => first(tables.get(method)?.(path)),
    methodsOf: (path) => [...tables].flatMap(([method, table]) => (first(table(path)) ? [method] : [])).sort(),
  };
}

/** All spellings of a path: the path itself, and one for each row whose first text the path begins with, as a whole segment. */
export function spellingsOf(path: string, table: readonly (readonly [ours: string, other: string])[]): string[] {
  const others = table.filter(([ours]) => path === ours || path.startsWith(`${ours}/`));
  return [path, ...others.map(([ours, other]) => other + path.slice(ours.length))];
}
