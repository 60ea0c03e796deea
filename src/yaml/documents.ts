import { Composer, type Document, isAlias, isMap, isScalar, isSeq, Lexer, LineCounter, type Node, Parser } from 'yaml';

/** A text that is not the YAML of a document within the bounds. The message names the line and contains nothing of the text. */
export class YamlError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'YamlError';
  }
}

/** Bounds of a file; the largest application that can be stored needs less than half of each. */
const LIMITS = {
  /** tokens of the lexer, counted before the file is parsed */
  tokens: 65_536,
  aliases: 256,
  /** lines, which the parser takes apart one by one, also those of one text */
  lines: 131_072,
  /** levels of lists and maps */
  depth: 64,
  /** members that merge keys (`<<`) copy, also when the map has them already */
  merged: 65_536,
  /** values once aliases are followed */
  values: 65_536,
  /** characters of text once aliases are followed */
  text: 2 * 1024 * 1024,
} as const;

const malformed = (message: string) => new YamlError(message);

/**
 * Parses an uploaded file: one document, within `LIMITS`, each of which is checked before the work that it bounds. Throws a
 * YamlError, which never contains the text: that may have secrets.
 */
export function readYaml(text: string): unknown {
  countTokens(text);
  const { documents, lines } = parse(text);
  const [document] = documents;
  if (!document) throw malformed('the file is empty');
  if (documents.length > 1) throw SEVERAL();
  return readDocument(document, lines);
}

/**
 * The documents of a file, each a function that reads it: within `LIMITS` but for those of the whole file. For files of the
 * caller's own machine. Throws as `readYaml`, as do these functions.
 */
export function yamlDocuments(text: string): (() => unknown)[] {
  const { documents, lines } = parse(text);
  return documents.map((document) => () => readDocument(document, lines));
}

function parse(text: string): { documents: Document.Parsed[]; lines: LineCounter } {
  const lines = new LineCounter();
  const composer = new Composer({
    // The parser would run the members of a merged map again for each merge, nested ones included.
    merge: false,
    // The parser would compare all keys of a map with each other.
    uniqueKeys: false,
    // Sets, ordered maps and binary data are no JSON.
    resolveKnownTags: false,
    logLevel: 'silent',
  });
  // The parser would make an error, with its stack, of each letter that is wrong, and go on; it reports again what is thrown here.
  let first: YamlError | undefined;
  const onError = (source: ErrorSource, code: string, _message?: string, isWarning?: boolean) => {
    if (isWarning) return;
    const [offset = 0] = typeof source === 'number' ? [source] : 'offset' in source ? [source.offset] : source;
    first ??= malformed(`the file is not valid YAML${placeOf(lines.linePos(offset))} (${code})`);
    throw first;
  };
  Object.assign(composer, { onError });
  function* tokens() {
    for (const token of new Parser(lines.addNewLine).parse(text)) {
      if (token.type === 'error') onError(token, 'UNEXPECTED_TOKEN');
      yield token;
    }
  }
  try {
    return { documents: [...composer.compose(tokens())], lines };
  } catch (error) {
    if (error instanceof YamlError) throw error;
    throw malformed('the file is not valid YAML');
  }
}

/** Where the parser sees an error. */
type ErrorSource = number | readonly number[] | { offset: number };

function readDocument(document: Document.Parsed, lines: LineCounter): unknown {
  const [error] = document.errors;
  if (error) throw malformed(`the file is not valid YAML${placeOf(lines.linePos(error.pos[0]))} (${error.code})`);
  const value = new Reader(lines).read(document.contents, 0);
  requireMeasure(value);
  return value;
}

const placeOf = ({ line, col }: { line: number; col: number }) => ` at line ${line}, column ${col}`;

const SEVERAL = () => malformed('the file holds several documents, send one at a time');

/** The lexer is fast for any text; the time for parsing depends on the numbers of tokens and lines. */
function countTokens(text: string): void {
  let lines = 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1))
    if (++lines > LIMITS.lines) throw malformed(`the file has more than ${LIMITS.lines} lines; split it`);
  let tokens = 0;
  let documents = 0;
  let aliases = 0;
  let before = '';
  for (const token of new Lexer().lex(text)) {
    if (++tokens > LIMITS.tokens)
      throw malformed(`the file holds more than ${LIMITS.tokens} words and marks; split it`);
    if (token === '---' && before !== SCALAR && ++documents > 1) throw SEVERAL();
    if (token.startsWith('*') && before !== SCALAR && ++aliases > LIMITS.aliases)
      throw malformed(`the file uses more than ${LIMITS.aliases} aliases`);
    // Nested complex keys take a parser minutes, and no valid document has one.
    if (token === '?' && before !== SCALAR)
      throw malformed('the file has a key after a question mark; write it without: "key: value"');
    before = token;
  }
}

/** The token before a text. */
const SCALAR = '\u001f';

type Members = Record<string, unknown>;

/**
 * Makes the value of a parsed document in a time that is linear in its nodes and in the members that it merges. Aliases become
 * references to one object. The own members of a map win over merged ones, and earlier merges over later ones
 * (https://yaml.org/type/merge.html).
 */
class Reader {
  readonly #lines: LineCounter;
  /** the latest value of each anchor */
  readonly #anchors = new Map<string, unknown>();
  /** lists and maps that are not complete */
  readonly #open = new Set<unknown>();
  #merged = 0;

  constructor(lines: LineCounter) {
    this.#lines = lines;
  }

  read(node: unknown, depth: number): unknown {
    if (isAlias(node)) return this.#followed(node);
    if (isMap(node)) return this.#filled({}, node, depth, (into) => this.#readMembers(into, node.items, depth));
    if (isSeq(node))
      return this.#filled([] as unknown[], node, depth, (into) => {
        for (const item of node.items) into.push(this.read(item, depth + 1));
      });
    const value = isScalar(node) ? node.value : null;
    if (isScalar(node) && node.anchor) this.#anchors.set(node.anchor, value);
    return typeof value === 'bigint' ? Number(value) : value;
  }

  #followed(node: Node & { source: string }): unknown {
    if (!this.#anchors.has(node.source)) throw this.#error('an alias of an anchor that does not stand before it', node);
    const value = this.#anchors.get(node.source);
    if (this.#open.has(value)) throw this.#error('a list or map within itself by an alias', node);
    return value;
  }

  #filled<T extends object>(into: T, node: Node & { anchor?: string }, depth: number, fill: (into: T) => void): T {
    if (depth === LIMITS.depth) throw malformed(`the file is nested deeper than ${LIMITS.depth} levels`);
    if (node.anchor) this.#anchors.set(node.anchor, into);
    this.#open.add(into);
    fill(into);
    this.#open.delete(into);
    return into;
  }

  #readMembers(into: Members, pairs: readonly { key: unknown; value: unknown }[], depth: number): void {
    const own = new Set<string>();
    for (const { key, value } of pairs) {
      if (isMergeKey(key)) {
        this.#merge(into, value, depth);
        continue;
      }
      const name = this.#keyOf(key, depth);
      if (own.has(name)) throw this.#error('a key twice in one map', key);
      own.add(name);
      define(into, name, this.read(value, depth + 1));
    }
  }

  #keyOf(key: unknown, depth: number): string {
    const value = this.read(key, depth + 1);
    if (typeof value === 'object' && value !== null) throw this.#error('a key that is a list or a map', key);
    return value === null ? '' : String(value);
  }

  #merge(into: Members, node: unknown, depth: number): void {
    const value = this.read(node, depth + 1);
    for (const source of Array.isArray(value) ? value : [value]) {
      if (typeof source !== 'object' || source === null || Array.isArray(source))
        throw this.#error('a merge key (<<) of something that is neither a map nor a list of maps', node);
      const members = Object.keys(source);
      this.#merged += Math.max(1, members.length);
      if (this.#merged > LIMITS.merged)
        throw malformed(`the file merges more than ${LIMITS.merged} members by "<<"; write fewer merges`);
      for (const name of members) if (!Object.hasOwn(into, name)) define(into, name, source[name]);
    }
  }

  #error(what: string, node: unknown) {
    const offset = (node as Partial<Node> | null)?.range?.[0];
    const at = offset === undefined ? undefined : this.#lines.linePos(offset);
    return malformed(`the file has ${what}${at ? placeOf(at) : ''}`);
  }
}

/** A quoted "<<" is an ordinary key. */
const isMergeKey = (key: unknown) => isScalar(key) && key.value === '<<' && (key.type ?? 'PLAIN') === 'PLAIN';

/** An own member also when it is called `__proto__`. */
function define(into: Members, name: string, value: unknown): void {
  if (name in into && !Object.hasOwn(into, name))
    Object.defineProperty(into, name, { value, writable: true, enumerable: true, configurable: true });
  else into[name] = value;
}

/** Counts the values of a document whose aliases are references, which may multiply, up to the limits. */
function requireMeasure(document: unknown): void {
  let values = 0;
  let characters = 0;
  const count = (text: string) => {
    characters += text.length;
    if (characters > LIMITS.text) throw malformed(`the file holds more than ${LIMITS.text} characters ${FOLLOWED}`);
  };
  const walk = (value: unknown, depth: number): void => {
    if (++values > LIMITS.values) throw malformed(`the file holds more than ${LIMITS.values} values ${FOLLOWED}`);
    if (typeof value === 'string') count(value);
    if (typeof value !== 'object' || value === null) return;
    if (depth === LIMITS.depth) throw malformed(`the file is nested deeper than ${LIMITS.depth} levels ${FOLLOWED}`);
    for (const [key, member] of Object.entries(value)) {
      if (!Array.isArray(value)) count(key);
      walk(member, depth + 1);
    }
  };
  walk(document, 0);
}

const FOLLOWED = 'once its aliases are followed';
