import { Liquid, type Template } from 'liquidjs';
import { LOOK_UPS, type LookUpName, type Rendering } from '../rules/renderer.ts';
import type { RenderFailure } from './messages.ts';

/**
 * Renders the expressions of a document. The limits here give errors that name the text that exceeds them; what holds against
 * hostile texts is the process around it (renderer.ts), which has a limited memory and is ended when it takes too long.
 */
const LIMITS = {
  /** characters of one text with expressions */
  text: 64 * 1024,
  /** texts with expressions in one document */
  texts: 16_384,
  /** characters of all results of a document */
  output: 2 * 1024 * 1024,
  /** members and items of all results of a document */
  values: 65_536,
  /** levels of one result */
  depth: 32,
  /** different look-ups of one document */
  lookUps: 1_024,
  /** characters of the JSON of what one look-up gets */
  argument: 4 * 1024,
} as const;

/** A text that cannot be rendered. */
export class RenderError extends Error {
  readonly failure: RenderFailure;

  constructor(path: RenderFailure['path'], message: string) {
    super(message);
    this.failure = { path: [...path], message };
  }
}

/** Tags that read files. */
const FILE_TAGS = ['include', 'render', 'layout', 'block'];

const HAS_EXPRESSION = /\{\{|\{%/;
type Json = Record<string, unknown>;

/** The document with its expressions replaced, in place. Throws RenderError. */
export async function renderDocument(
  { document, variables = {}, only, parsesOnly }: Rendering,
  lookUp: (filter: LookUpName, input: unknown) => Promise<unknown>,
): Promise<Json> {
  const liquid = createLiquid(lookUp);
  const scope = Object.assign(Object.create(null) as Json, variables, { self: document });
  const budget = createBudget();
  const parsedTexts = new Map<string, Template[]>();
  let texts = 0;

  async function render(text: string, path: RenderFailure['path']): Promise<unknown> {
    if (++texts > LIMITS.texts) throw new Error(`the document has more than ${LIMITS.texts} texts with expressions`);
    if (text.length > LIMITS.text) throw new Error(`a text with expressions has at most ${LIMITS.text} characters`);
    try {
      const templates = parsedTexts.get(text) ?? liquid.parse(text);
      parsedTexts.set(text, templates);
      if (parsesOnly) return text;
      return budget.copy(await liquid.render(templates, scope));
    } catch (error) {
      throw new RenderError(path, reasonOf(error));
    }
  }

  /** Depth first, so that later texts read what earlier ones became. Keys are never rendered, and neither are results. */
  async function walk(holder: object, path: (string | number)[]): Promise<void> {
    for (const [key, value] of Object.entries(holder)) {
      const at = [...path, Array.isArray(holder) ? Number(key) : key];
      if (typeof value === 'string') {
        if (HAS_EXPRESSION.test(value)) set(holder, key, await render(value, at).catch(located(at)));
      } else if (typeof value === 'object' && value !== null) await walk(value, at);
    }
  }

  for (const path of only ?? [[]]) {
    const parent = path.slice(0, -1).reduce<unknown>(memberOf, document);
    const last = path.at(-1);
    const value = last === undefined ? document : memberOf(parent, last);
    if (typeof value === 'object' && value !== null) await walk(value, [...path]);
    else if (typeof value === 'string' && HAS_EXPRESSION.test(value) && last !== undefined)
      set(parent as object, last, await render(value, path).catch(located(path)));
  }
  return document;
}

const memberOf = (value: unknown, key: string) =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? (value as Json)[key] : undefined;

/** Sets an own member, whatever its name. */
const set = (holder: object, key: string, value: unknown) =>
  Object.defineProperty(holder, key, { value, enumerable: true, configurable: true, writable: true });

const located =
  (path: RenderFailure['path']) =>
  (error: unknown): never => {
    throw error instanceof RenderError ? error : new RenderError(path, reasonOf(error));
  };

function createLiquid(lookUp: (filter: LookUpName, input: unknown) => Promise<unknown>): Liquid {
  const liquid = new Liquid({
    strictVariables: true,
    strictFilters: true,
    // `if` and the filter `default` may ask for what is absent
    lenientIf: true,
    ownPropertyOnly: true,
    // ends most endless loops also where the controller that would kill this process was killed itself
    renderLimit: 10_000,
    keepOutputType: true,
    dynamicPartials: false,
    relativeReference: false,
    templates: {},
  });
  for (const tag of FILE_TAGS) delete liquid.tags[tag];
  // An object has members that nobody registered, such as `constructor`.
  Object.setPrototypeOf(liquid.filters, null);
  Object.setPrototypeOf(liquid.tags, null);
  // The controller makes each look-up once, however often a loop asks for it.
  const known = new Map<string, Promise<unknown>>();
  for (const filter of LOOK_UPS)
    liquid.registerFilter(filter, (input: unknown) => {
      const argument = argumentOf(input);
      const text = JSON.stringify(argument) ?? '';
      if (text.length > LIMITS.argument)
        throw new Error(`${filter}: its argument has more than ${LIMITS.argument} characters`);
      const key = `${filter} ${text}`;
      const found = known.get(key);
      if (found) return found;
      if (known.size >= LIMITS.lookUps) throw new Error(`the document looks up more than ${LIMITS.lookUps} objects`);
      const result = lookUp(filter, argument);
      known.set(key, result);
      return result;
    });
  liquid.registerFilter('toNumber', parsed);
  liquid.registerFilter('toBoolean', parsed);
  liquid.registerFilter('toString', (value: unknown) =>
    typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? ''),
  );
  return liquid;
}

/** Of an object, such as a microservice, only the members that look-ups read. */
function argumentOf(input: unknown): unknown {
  if (typeof input !== 'object' || input === null) return input;
  const { nodeUuid, agentName } = input as Json;
  return { nodeUuid, agentName };
}

/** The value of JSON text; anything else unchanged. */
function parsed(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

/** Copies results, so that a document never contains itself or one value twice, up to the limits of a document. */
function createBudget() {
  let values = 0;
  let characters = 0;
  const count = (text: string) => {
    characters += text.length;
    if (characters > LIMITS.output) throw new Error(`the results have more than ${LIMITS.output} characters`);
    return text;
  };
  function copy(value: unknown, depth = 0): unknown {
    if (++values > LIMITS.values) throw new Error(`the results have more than ${LIMITS.values} values`);
    if (depth > LIMITS.depth) throw new Error(`the result is nested deeper than ${LIMITS.depth} levels`);
    if (typeof value === 'string') return count(value);
    if (typeof value === 'number') return Number.isFinite(value) ? value : null;
    if (typeof value === 'boolean' || value === null) return value;
    if (typeof value !== 'object') return null;
    if (Array.isArray(value)) return value.map((item) => copy(item, depth + 1));
    const result: Json = {};
    for (const [key, member] of Object.entries(value)) set(result, count(key), copy(member, depth + 1));
    return result;
  }
  return { copy };
}

/** Longest reason that a message has. */
const REASON = 300;

/** The reason without the excerpt of the text that the library adds, which may be secret. */
function reasonOf(error: unknown): string {
  const { originalError, message } = error as { originalError?: Error; message?: unknown };
  const [line = ''] = String(originalError?.message ?? message ?? error).split('\n');
  return line.replace(/, (file:|line:).*$/s, '').slice(0, REASON) || 'cannot be rendered';
}
