import type { z } from 'zod';
import { LocalApiError } from './errors.ts';

/** Characters of a refused text that an error repeats. */
const SHOWN = 50;

/**
 * Parses by a schema, or throws INVALID_ARGUMENT that names the first violation: the field, its value, and the values that are
 * valid. A schema may have a message of its own, which follows "is not": `a date and time`. A message that begins with the
 * field and a colon stands alone.
 */
export function validate<T extends z.ZodType>(schema: T, input: unknown): z.output<T> {
  const result = schema.safeParse(input, { error: wanted });
  if (result.success) return result.data;
  const [issue] = result.error.issues as [z.core.$ZodIssue];
  const unknown = issue.code === 'unrecognized_keys' ? [issue.keys[0] as string] : [];
  const field = [...issue.path, ...unknown].map(String).join('.').slice(0, SHOWN);
  const value = issue.path.reduce<unknown>(
    (at, step) => (at as Record<PropertyKey, unknown> | undefined)?.[step],
    input,
  );
  throw new LocalApiError('INVALID_ARGUMENT', sentence(issue, field, value), { field });
}

function sentence(issue: z.core.$ZodIssue, field: string, value: unknown): string {
  if (issue.message === UNKNOWN) return `${field} is no member of this body`;
  if (issue.message.startsWith(`${field}:`)) return issue.message;
  if (value === undefined) return `${field} is required: ${issue.message.replace(/^none of /, 'one of ')}`;
  const shown = typeof value === 'object' ? field : `${field} "${String(value).slice(0, SHOWN)}"`;
  if (issue.message.startsWith('none of ')) return `${shown} is ${issue.message}`;
  return `${shown} is not ${issue.message}`;
}

const UNKNOWN = 'unknown';

const TYPES: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

/** The message of a schema that has none of its own. */
function wanted(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return TYPES[issue.expected] ?? issue.expected;
    case 'invalid_value':
      return `none of ${issue.values.join(', ')}`;
    case 'unrecognized_keys':
      return UNKNOWN;
    case 'too_small':
      return `at least ${issue.minimum}${UNITS[issue.origin] ?? ''}`;
    case 'too_big':
      return `at most ${issue.maximum}${UNITS[issue.origin] ?? ''}`;
    default:
      return 'valid';
  }
}

const UNITS: Readonly<Record<string, string>> = { string: ' characters long', array: ' items long' };

/**
 * Throws INVALID_ARGUMENT for a parameter that a schema does not have, and for one twice that may not be repeated: who misspells
 * `dryRun` would get what the request does without it.
 */
export function requireKnown(query: URLSearchParams, { shape }: Pick<z.ZodObject, 'shape'>): void {
  for (const name of new Set(query.keys())) {
    const field = name.slice(0, SHOWN);
    const known = Object.hasOwn(shape, name) ? shape[name] : undefined;
    if (!known) throw new LocalApiError('INVALID_ARGUMENT', `${field} is no parameter of this request`, { field });
    if (query.getAll(name).length > 1 && !isList(known))
      throw new LocalApiError('INVALID_ARGUMENT', `${field} is there twice`, { field });
  }
}

/** The values of the parameters that a schema has; others are ignored. Of one that may not be repeated the first counts. */
export function queryOf(query: URLSearchParams, schema: z.ZodObject): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(schema.shape).flatMap(([name, field]) => {
      const values = query.getAll(name);
      if (values[0] === undefined) return [];
      return [[name, isList(field) ? values : values[0]]];
    }),
  );
}

const isList = (field: z.core.$ZodType): boolean => {
  const { type, innerType } = field._zod.def as { type: string; innerType?: z.core.$ZodType };
  return type === 'array' || (innerType !== undefined && isList(innerType));
};
