import { type Document, isMap, isScalar, Lexer, LineCounter, parseAllDocuments, visit } from 'yaml';
import { invalid } from './errors.ts';
import { requireText } from './text.ts';

/**
 * Limits of a file. The largest application that can be stored needs less than half of each; without limits, parsing a file
 * of one megabyte can take minutes.
 */
const LIMITS = {
  /** tokens of the lexer, counted before the file is parsed */
  tokens: 65_536,
  aliases: 256,
  depth: 64,
  /** values after aliases are resolved */
  values: 65_536,
  /** characters of text after aliases are resolved */
  text: 2 * 1024 * 1024,
} as const;

const malformed = (message: string) => invalid(message, 'MALFORMED_YAML');

/**
 * Parses an uploaded file: one document, within the limits of depth and size. Errors name the line and never contain the
 * text, which may have secrets.
 */
export function parseYaml(text: string): unknown {
  countTokens(text);
  const lines = new LineCounter();
  let value: unknown;
  try {
    const documents = parseAllDocuments(text, {
      merge: true,
      // The parser would compare all keys with each other; see requireUniqueKeys.
      uniqueKeys: false,
      prettyErrors: true,
      logLevel: 'silent',
      lineCounter: lines,
    });
    const [document] = documents;
    if (!Array.isArray(documents) || !document) throw malformed('the file is empty');
    if (documents.length > 1) throw malformed('the file holds several documents, send one at a time');
    const error = document.errors[0];
    if (error) throw notValid(error.code, error.linePos?.[0]);
    requireUniqueKeys(document, lines);
    // Resolved aliases are references to the same objects, which is cheap; their total size is checked below.
    value = document.toJS({ maxAliasCount: -1 });
  } catch (error) {
    if (error instanceof Error && 'status' in error) throw error;
    throw malformed('the file is not valid YAML');
  }
  requireMeasure(value);
  return value;
}

function notValid(code: string, at?: { line: number; col: number }) {
  return malformed(`the file is not valid YAML${at ? ` at line ${at.line}, column ${at.col}` : ''} (${code})`);
}

/** The lexer is fast for any text; the time for parsing depends on the number of tokens. */
function countTokens(text: string): void {
  let tokens = 0;
  let aliases = 0;
  let before = '';
  for (const token of new Lexer().lex(text)) {
    if (++tokens > LIMITS.tokens)
      throw malformed('the file holds more than any application needs; split it into several applications');
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

function requireUniqueKeys(document: Document.Parsed, lines: LineCounter): void {
  visit(document, {
    Node(_, node) {
      if (!isMap(node)) return;
      const keys = new Set<unknown>();
      for (const { key } of node.items) {
        if (!isScalar(key) || key.value === '<<') continue;
        if (keys.has(key.value)) throw notValid('DUPLICATE_KEY', lines.linePos(key.range?.[0] ?? 0));
        keys.add(key.value);
      }
    },
  });
}

/** Counts the values of a document with resolved aliases, which may be endless, up to the limits. */
function requireMeasure(document: unknown): void {
  let values = 0;
  let characters = 0;
  const count = (text: string) => {
    characters += text.length;
    if (characters > LIMITS.text) throw malformed(`the file holds more than ${LIMITS.text} characters ${FOLLOWED}`);
    requireText(text, 'the file', 'MALFORMED_YAML');
  };
  const walk = (value: unknown, depth: number): void => {
    if (++values > LIMITS.values) throw malformed(`the file holds more than ${LIMITS.values} values ${FOLLOWED}`);
    if (typeof value === 'string') count(value);
    if (typeof value !== 'object' || value === null) return;
    if (depth === LIMITS.depth)
      throw malformed(`the file is nested deeper than ${LIMITS.depth} levels, or within itself by an alias`);
    for (const [key, member] of Object.entries(value)) {
      if (!Array.isArray(value)) count(key);
      walk(member, depth + 1);
    }
  };
  walk(document, 0);
}

const FOLLOWED = 'once its aliases are followed';
