import { z } from 'zod';

/**
 * Building blocks of the kinds. Each block states a constraint for zod, which checks it, and for the CRD,
 * through `.meta()`, which structural.ts reads. It has only constraints that both can express, so that REST and kubectl
 * accept the same documents.
 */

interface TextOptions {
  max: number;
  min?: number;
  /** in the common subset of RE2 and JavaScript; commonPattern() refuses the rest */
  pattern?: string;
  /** what would be valid, as text; the API server shows the pattern itself */
  expects?: string;
  /** documentation of formats that no regular expression describes */
  description?: string;
}

/** Text of `min`..`max` Unicode code points, as the API server counts them (JavaScript counts UTF-16 units). */
export function text({ max, min = 0, pattern, expects, description }: TextOptions) {
  const shape = pattern === undefined ? undefined : commonPattern(pattern);
  return z
    .string()
    .superRefine((value, context) => {
      const length = codePoints(value);
      if (length < min)
        context.addIssue({
          code: 'custom',
          message:
            min === 1 ? 'must not be empty' : expects ? `must be ${expects}` : `must have at least ${min} characters`,
        });
      else if (length > max)
        context.addIssue({ code: 'custom', message: `must have at most ${max} characters, has ${length}` });
      else if (shape && !shape.test(value))
        context.addIssue({ code: 'custom', message: expects ? `must be ${expects}` : `must match ${pattern}` });
    })
    .meta({
      ...(min > 0 && { minLength: min }),
      maxLength: max,
      ...(pattern !== undefined && { pattern }),
      ...(description !== undefined && { description }),
    });
}

/** Integer within bounds, which are part of the CRD. */
export const integer = (min: number, max: number) =>
  z
    .number({ error: ({ input }) => (input === undefined ? undefined : 'must be an integer') })
    .min(min)
    .max(max)
    .refine(Number.isInteger, 'must be an integer')
    .meta({ type: 'integer' });

/** The reason why a member has no effect (withoutEffect). */
export const WITHOUT_EFFECT_KEY = 'x-skerry-without-effect';

/** A member that requests of v3 clients may have and that nothing reads: who asks for it over REST gets a warning with the reason. */
export const withoutEffect = <T extends z.ZodType>(schema: T, reason: string) =>
  schema.optional().meta({ description: `Accepted without effect: ${reason}.`, [WITHOUT_EFFECT_KEY]: reason });

/** One of the given words. */
export const oneOf = <const T extends readonly [string, ...string[]]>(...words: T) => z.enum(words);

/** List whose items the given fields identify; several owners can apply separate items server-side. */
export function mapList<T extends z.ZodType<Record<string, unknown>>>(
  item: T,
  keys: readonly string[],
  max: number,
  min = 0,
) {
  const list = z.array(item).max(max);
  return (min > 0 ? list.min(min) : list)
    .superRefine((items, context) => {
      const seen = new Set<string>();
      items.forEach((entry, index) => {
        const key = JSON.stringify(keys.map((name) => entry[name] ?? null));
        if (seen.has(key)) {
          const shown = keys.map((name) => `${name} ${JSON.stringify(entry[name])}`).join(', ');
          context.addIssue({ code: 'custom', path: [index], message: `duplicate: another item has ${shown}` });
        }
        seen.add(key);
      });
    })
    .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': [...keys] });
}

/** List that one owner replaces as a whole. */
export const atomicList = <T extends z.ZodType>(item: T, max: number) =>
  z.array(item).max(max).meta({ 'x-kubernetes-list-type': 'atomic' });

/** Map from any text to a value. The API server cannot bound keys; domain verdicts do. */
export const mapOf = <T extends z.ZodType>(value: T, max: number) =>
  z
    .record(z.string(), value)
    .refine((map) => Object.keys(map).length <= max, `must have at most ${max} keys`)
    .meta({ maxProperties: max });

/** What the API server takes for an integer; zod's own takes 53 bits only. */
const isInt64 = (value: number) => Number.isInteger(value) && value >= -(2 ** 63) && value < 2 ** 63;

/** An integer or text: digits mean an id, anything else a name. */
export const integerOrText = (max: number) =>
  z
    .union([z.number().refine(isInt64, 'must be an integer').meta({ type: 'integer' }), z.string()])
    .refine((value) => typeof value === 'number' || codePoints(value) <= max, `must have at most ${max} characters`)
    .meta({ 'x-kubernetes-int-or-string': true, maxLength: max });

/** Each text means less than 2^53 bytes. */
const BYTES_PATTERN = '^(-1|[0-9]{1,15}|[0-9]{1,12}[kK]|[0-9]{1,9}[mM]|[0-9]{1,6}[gG]|[0-9]{1,3}[tT])$';
const BYTES_EXPECTED = 'must be an integer, -1, or a number with one letter of k, m, g and t, at most 999t';

/** Bytes: an integer, -1 for no limit, or text with a single-letter suffix of 1,024 bytes and its powers. `byteSizeOf` has the number. */
export const byteSize = () =>
  z
    .union([
      z
        .number()
        .refine(isInt64, 'must be an integer')
        .refine((value) => value >= -1, 'must be at least -1')
        .refine((value) => value <= Number.MAX_SAFE_INTEGER, `must be at most ${Number.MAX_SAFE_INTEGER}`)
        .meta({ type: 'integer' }),
      z.string(),
    ])
    .refine((value) => typeof value === 'number' || commonPattern(BYTES_PATTERN).test(value), BYTES_EXPECTED)
    .meta({
      'x-kubernetes-int-or-string': true,
      minimum: -1,
      maximum: Number.MAX_SAFE_INTEGER,
      pattern: BYTES_PATTERN,
    });

const SUFFIXES = 'kmgt';

/** The number of bytes of a value of `byteSize`. */
export function byteSizeOf(value: number | string): number {
  if (typeof value === 'number') return value;
  const power = SUFFIXES.indexOf(value.slice(-1).toLowerCase()) + 1;
  return Number.parseInt(value, 10) * 1024 ** power;
}

/** Any JSON value, stored unchanged. A domain verdict bounds its size, since CEL cannot measure it. */
export const anyJson = () => z.unknown().meta({ 'x-kubernetes-preserve-unknown-fields': true });

/**
 * Key of the metadata that marks an object whose members are external names (sysctls, ulimits): an unknown one
 * is refused everywhere, even where unknown fields are tolerated.
 */
export const CLOSED = 'x-skerry-closed';

/** Object with a fixed set of names as members. */
export const closedObject = <T extends z.ZodRawShape>(shape: T) => z.strictObject(shape).meta({ [CLOSED]: true });

/** Object that refuses unknown fields, as the API server does under strict field validation. */
export const object = <T extends z.ZodRawShape>(shape: T) => z.strictObject(shape);

function codePoints(value: string): number {
  let count = 0;
  for (const _ of value) count++;
  return count;
}

/**
 * Compiles a pattern that RE2 and JavaScript read alike. Refuses look-around, back references, `\s`, `\b` and `\w`-like
 * classes that differ, and flags; throws when the pattern itself is invalid, which is a programming error.
 */
export function commonPattern(pattern: string): RegExp {
  if (/\(\?(?!:)/.test(pattern))
    throw new Error(`pattern ${pattern}: look-around and named groups differ between engines`);
  if (/\\[^.\\/$^|?*+()[\]{}-]/.test(pattern))
    throw new Error(`pattern ${pattern}: only escaped punctuation is allowed`);
  return new RegExp(pattern, 'u');
}
