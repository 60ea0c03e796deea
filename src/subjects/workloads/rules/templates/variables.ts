import { BOUNDS } from '../../../../api/bounds.ts';
import type { TemplateVariables } from '../../../../api/v3/index.ts';
import { type Fields, fieldsOf, listOf, textOf } from '../../../../rules/body-values.ts';
import { quoted } from '../../../../rules/document.ts';
import { invalid } from '../../../../rules/errors.ts';
import { nearestOf } from '../../../../rules/nearest.ts';

/** A reference to a template, as a body or an entry has it. */
export interface TemplateRef {
  name: string;
  variables: Fields;
}

/** Reads `{name, variables}`; `field` is its place, for messages. Throws DomainError. */
export function readTemplateRef(value: unknown, field: string): TemplateRef {
  const { name, variables } = fieldsOf(value, field);
  return { name: textOf(name, `${field}.name`), variables: readVariables(variables, `${field}.variables`) };
}

/** Variables come as a map, or as a list of `{key, value}`. */
function readVariables(value: unknown, field: string): Fields {
  if (value === undefined || value === null) return {};
  const pairs = Array.isArray(value)
    ? listOf(value, field).map((item, index): [string, unknown] => {
        const at = `${field}[${index}]`;
        const variable = fieldsOf(item, at);
        return [textOf(variable.key, `${at}.key`), variable.value];
      })
    : Object.entries(fieldsOf(value, field));
  if (pairs.length > BOUNDS.templateVariables)
    throw invalid(`${field}: must have at most ${BOUNDS.templateVariables} variables`, field);
  return Object.fromEntries(pairs.filter(([, given]) => given !== undefined && given !== null));
}

/**
 * What is wrong with variables that take no effect: the template neither declares them nor has their names in an expression.
 * Undefined when there are none.
 */
export function unusedVariables(
  { variables: declared = [], ...spec }: { variables?: TemplateVariables | undefined },
  { name, variables }: TemplateRef,
  field: string,
): string | undefined {
  const keys = declared.map(({ key }) => key);
  const others = Object.keys(variables).filter((key) => !keys.includes(key));
  if (others.length === 0) return undefined;
  const used = namesIn(spec);
  const unused = others.filter((key) => !used.has(key));
  if (unused.length === 0) return undefined;
  const [first = ''] = unused;
  const nearest = nearestOf(first, keys);
  const which = unused.slice(0, VARIABLES_NAMED).map(quoted).join(', ');
  const more = unused.length - VARIABLES_NAMED;
  return `${field}.variables: the template "${name}" has no variable ${which}${more > 0 ? ` and ${more} more` : ''}${nearest ? `; did you mean ${nearest}?` : ''}`;
}

/** Most variables that a message names. */
const VARIABLES_NAMED = 8;

/** The names in the expressions of a template; of `a.b`, a as well. */
function namesIn(value: unknown, names = new Set<string>()): Set<string> {
  if (typeof value === 'string' && /\{[{%]/.test(value))
    for (const word of value.split(/[^A-Za-z0-9_.-]/)) names.add(word).add(word.split('.', 1)[0] ?? '');
  else if (typeof value === 'object' && value !== null) for (const one of Object.values(value)) namesIn(one, names);
  return names;
}

/** The values of a template's variables: its defaults, then what is given. Throws for one that has neither. */
export function variablesOf(
  declared: TemplateVariables | undefined,
  { name, variables }: TemplateRef,
  field: string,
): Fields {
  const values: Fields = {};
  for (const { key, defaultValue } of declared ?? []) {
    const value = Object.hasOwn(variables, key) ? variables[key] : defaultValue;
    if (value === undefined || value === null)
      throw invalid(
        `${field}.variables.${key}: is required, since the template "${name}" has no default for it`,
        `${field}.variables`,
        'TEMPLATE_VARIABLE_MISSING',
      );
    values[key] = value;
  }
  return { ...variables, ...values };
}
