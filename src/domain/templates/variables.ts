import { BOUNDS } from '../../api/bounds.ts';
import type { TemplateVariables } from '../../api/v3/index.ts';
import { invalid } from '../errors.ts';
import { type Fields, fieldsOf, listOf, textOf } from '../microservice/body-values.ts';

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
