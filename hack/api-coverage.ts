import { type AnyRoute, spellings, tableOf } from '../src/rest/contract/route.ts';
import { SOCKET_ACCESS } from '../src/rest/server/sockets.ts';
import { SOCKET_PATHS } from '../src/sessions/paths.ts';
import { shapeOf, type V3Operation } from './v3-operations.ts';

/** One operation of v3: the route that serves it, and the tests that request it. */
export interface Coverage {
  operation: V3Operation;
  route?: AnyRoute;
  /** paths of test files */
  tests: readonly string[];
}

/** The most files that a cell names. */
const SHOWN = 2;

/**
 * Which route serves each operation, and which test files request it. A test requests an operation when its source has the
 * method and a path that the router would give to its route: `.post('/node'`, `request('GET', ...)`. Loops over all routes
 * count for none.
 */
export function coverageOf(
  operations: readonly V3Operation[],
  routes: readonly AnyRoute[],
  tests: ReadonlyMap<string, string>,
): Coverage[] {
  const byShape = new Map(routes.map((route) => [shapeOf(route), route]));
  const find = createMatcher(routes);
  const files = new Map<AnyRoute, Set<string>>();
  for (const [file, source] of tests) {
    const words = new Set(Array.from(source.matchAll(WORD), ([, word = '']) => word));
    for (const { method, path } of requestsIn(source))
      for (const route of find(method, path, words)) files.set(route, (files.get(route) ?? new Set()).add(file));
  }
  return operations.map((operation) => {
    const route = byShape.get(shapeOf(operation));
    const requested = [...((route && files.get(route)) ?? [])].sort(byLevel);
    return { operation, ...(route && { route }), tests: requested };
  });
}

/** What an expression in a path becomes. */
const EXPRESSION = 'expression';
/** A word in quotes, such as the parameter of a test. */
const WORD = /'([\w-]+)'/g;

/**
 * The route to which the router gives a request. An expression is a parameter of the path, or else a word that the file has
 * in quotes, as tests have that run for several kinds.
 */
function createMatcher(routes: readonly AnyRoute[]) {
  const table = tableOf(routes);
  const shapes = routes.flatMap((route) => spellings(route.path).map((path) => ({ route, parts: path.split('/') })));
  return (method: string, path: string, words: ReadonlySet<string>): AnyRoute[] => {
    const plain = path.replace(/\/$/, '');
    // A test may request a path that is not valid percent-encoding.
    const exact = table.find(method, plain.replaceAll('%', '%25'));
    if (exact) return [exact.value];
    const given = plain.split('/');
    return shapes
      .filter(
        ({ route, parts }) =>
          route.method === method &&
          parts.length === given.length &&
          parts.every(
            (part, i) => part.startsWith('{') || part === given[i] || (given[i] === EXPRESSION && words.has(part)),
          ),
      )
      .map(({ route }) => route);
  };
}

/** Tests on a real API server first, then in memory, then on whole processes, then tests of cost, which show a status alone. */
const levelOf = (file: string) =>
  file.endsWith('cost.test.ts') ? 3 : file.startsWith('e2e/') ? 2 : file.endsWith('.api.test.ts') ? 0 : 1;
const byLevel = (a: string, b: string) => levelOf(a) - levelOf(b) || (a < b ? -1 : 1);

const METHOD_CALL = /\.(get|head|post|put|patch|delete)(?:<[^>()]*>)?\(\s*(?=[\w'"`])/g;
const REQUEST_CALL = /['"](GET|HEAD|POST|PUT|PATCH|DELETE)['"],\s*(?=[\w'"`])/g;
/** Before the method: a replica of src/agents/_util.ts, as `replica.as(node, key, 'GET', ...)`; its paths begin below /agent. */
const AGENT_CALL = /\.(?:as\([^'"`()]*|call\()$/;
/** Greatest length of such a call up to the method. */
const LOOK_BACK = 200;
/** `x`, `await x`, `x(...)` */
const NAME = /^(?:await )?(\w+)(?:\([^()]*\))?$/;
/** A constant may be made of another one, which is made of a third. */
const DEPTH = 3;

/**
 * Requests in the source of a test: a method and a path. The path is a literal, or the nearest constant or arrow function
 * above the call that has one; any other expression stands for one segment.
 */
export function requestsIn(source: string): { method: string; path: string }[] {
  return [METHOD_CALL, REQUEST_CALL].flatMap((call) =>
    Array.from(source.matchAll(call)).flatMap((match) => {
      const text = valueAt(source, match.index + match[0].length, DEPTH);
      const path = text?.split('?')[0]?.replace(/^(?:expression)?\/api\/v3(?=\/)/, '');
      const isAgent = AGENT_CALL.test(source.slice(Math.max(0, match.index - LOOK_BACK), match.index));
      const base = isAgent && !path?.startsWith('/agent/') ? '/agent' : '';
      return path?.startsWith('/') ? [{ method: (match[1] ?? '').toUpperCase(), path: base + path }] : [];
    }),
  );
}

/** The text of a literal or of a named value at a position. */
function valueAt(source: string, start: number, depth: number): string | undefined {
  const quote = source[start] ?? '';
  if (!`'"\``.includes(quote))
    return named(source, /^\w+(?![\w(])/.exec(source.slice(start, start + 64))?.[0] ?? '', start, depth);
  let text = '';
  for (let i = start + 1; i < source.length && source[i] !== quote; i++) {
    if (quote !== '`' || !source.startsWith('${', i)) {
      text += source[i];
      continue;
    }
    const end = endOfExpression(source, i + 2);
    const [, name = ''] = NAME.exec(source.slice(i + 2, end)) ?? [];
    text += named(source, name, start, depth) ?? EXPRESSION;
    i = end;
  }
  return text;
}

/** The first literal of the last declaration of a name above a position. */
function named(source: string, name: string, before: number, depth: number): string | undefined {
  if (name === '' || depth === 0) return undefined;
  const declaration = new RegExp(`\\bconst ${name}(?:: \\w+)? = [^;'"\`]*?(?=['"\`])`, 'g');
  const last = Array.from(source.slice(0, before).matchAll(declaration)).at(-1);
  return last && valueAt(source, last.index + last[0].length, depth - 1);
}

/** The position of the brace that closes an expression of a template literal. */
function endOfExpression(source: string, start: number): number {
  let depth = 1;
  for (let i = start; i < source.length; i++) {
    if (source[i] === '{') depth++;
    if (source[i] === '}' && --depth === 0) return i;
  }
  return source.length;
}

/** A WebSocket of the API, and the test files that open it. */
export interface SocketCoverage {
  path: string;
  access: string;
  tests: readonly string[];
}

/** Which test files open each socket: their source has its path, or that below `/agent`, with an expression for each parameter. */
export function socketCoverage(tests: ReadonlyMap<string, string>): SocketCoverage[] {
  return SOCKET_PATHS.map(({ path, of }) => {
    const expression = '(?:\\$?\\{[^}/]+\\}|[\\w-]+)';
    const literal = path.replace(/^\/agent/, '').replaceAll(/\{\w+\}/g, expression);
    const opened = new RegExp(`['"\`](?:/agent)?${literal}[?'"\`]`);
    const files = [...tests].flatMap(([file, source]) => (opened.test(source) ? [file] : []));
    const access = of === 'agent' ? 'token of the node' : `${SOCKET_ACCESS[of].verb} ${SOCKET_ACCESS[of].resource}`;
    return { path, access, tests: files.sort(byLevel) };
  });
}

/** The lines of a page of coverage: a table for each section. */
export function coverageTables<T>(sections: ReadonlyMap<string, readonly T[]>, rowOf: (row: T) => string): string[] {
  return [...sections].flatMap(([section, rows]) => [
    '',
    `## ${section}`,
    '',
    '| operation | route | access | test |',
    '|---|---|---|---|',
    ...rows.map(rowOf),
  ]);
}

/** docs/api-coverage.md. */
export function coveragePage(coverage: readonly Coverage[], sockets: readonly SocketCoverage[]): string {
  const sections = Map.groupBy(coverage, ({ operation }) => operation.section);
  const empty = coverage.filter(({ route, tests }) => !route || tests.length === 0);
  return [
    '# Coverage of the v3 API',
    '',
    'Generated by `npm run gen` from `hack/v3-operations.ts` (the operations), the routes (access rules) and the sources of the tests. Do not edit.',
    '',
    'Fleet, workloads and catalogs: every operation that v3 clients know, the permission that it needs in the API group',
    '`skerry.dev`, and test files that request it. That every operation responds 401 without a token and 403 to roles that lack',
    'the permission is tested for all of them in `src/assembly/every-route.test.ts`.',
    '',
    `${coverage.length} operations; ${empty.length} without a route or a test.`,
    ...coverageTables(sections, coverageRow),
    '',
    '## Sockets',
    '',
    'The WebSockets of [exec and log sessions](spec/sessions.md#sockets).',
    '',
    '| path | access | test |',
    '|---|---|---|',
    ...sockets.map(({ path, access, tests }) => `| \`${path}\` | ${access} | ${testFilesCell(tests)} |`),
    '',
  ].join('\n');
}

/** The cell of the test files, of which it names few. */
export const testFilesCell = (tests: readonly string[]) =>
  tests
    .slice(0, SHOWN)
    .map((file) => `\`${file}\``)
    .join(', ');

function coverageRow({ operation, route, tests }: Coverage): string {
  const { method, path } = operation;
  const cells = [
    route ? route.operation : '',
    `\`${method} ${path}\``,
    route ? accessOf(route) : '',
    testFilesCell(tests),
  ];
  return `| ${cells.join(' | ')} |`;
}

const accessOf = ({ access }: AnyRoute): string =>
  typeof access === 'string' ? access : `${access.verb} ${access.resource}`;
