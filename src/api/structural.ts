import { z } from 'zod';
import { judgedMember, RULES, type Rule, toCel } from './rules.ts';
import { CLOSED } from './schema.ts';

/** A structural schema for a CRD of apiextensions.k8s.io/v1. */
export interface Structural {
  type?: string;
  description?: string;
  properties?: Record<string, Structural>;
  items?: Structural;
  additionalProperties?: Structural;
  required?: string[];
  [keyword: string]: unknown;
}

/** Members of the JSON Schema of zod that a structural schema does not have. */
const FOREIGN = ['$schema', 'propertyNames', 'readOnly', 'id', RULES] as const;

/** Members of JSON Schema that no structural schema can express. */
const UNSTRUCTURAL = ['oneOf', 'allOf', 'not', '$ref', 'nullable', 'const'];

/**
 * Converts a zod schema to a structural schema. Throws on what cannot be converted (unions, transforms, dates): an error of
 * the schema's author, found when the CRDs are generated.
 */
export function toStructural(schema: z.ZodType): Structural {
  const json = z.toJSONSchema(schema, {
    target: 'openapi-3.0',
    io: 'input',
    reused: 'inline',
    cycles: 'throw',
    unrepresentable: 'any',
  });
  return adapt(json as Structural, '');
}

function adapt(node: Structural, path: string, ofParent: readonly Rule[] = []): Structural {
  const { type, properties, items, additionalProperties, anyOf, ...rest } = node;
  for (const keyword of FOREIGN) delete rest[keyword];
  const own = (node[RULES] ?? []) as readonly Rule[];
  const rules = [...ofParent, ...own.filter((rule) => judgedMember(rule) === undefined)];
  const isIntOrText = rest['x-kubernetes-int-or-string'] === true;
  const unsupported = UNSTRUCTURAL.filter((keyword) => keyword in rest);
  if (anyOf && !isIntOrText) unsupported.push('anyOf');
  if (!type && !isIntOrText && !rest['x-kubernetes-preserve-unknown-fields']) unsupported.push('no type');
  if (unsupported.length > 0)
    throw new Error(`schema at ${path || 'the root'} is not structural: ${unsupported.join(', ')}`);
  const at = (name: string) => (path ? `${path}.${name}` : name);
  return {
    ...(isIntOrText ? { anyOf: [{ type: 'integer' }, { type: 'string' }] } : type && { type }),
    ...rest,
    ...(type === 'integer' && integerFormat(rest)),
    // The API server drops an empty list, and whoever compares would find a difference.
    ...(rules.length > 0 && {
      'x-kubernetes-validations': rules.map((rule) => ({ rule: toCel(rule), message: rule.message })),
    }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, member]) => [
          name,
          adapt(
            member,
            at(name),
            own.filter((rule) => judgedMember(rule) === name),
          ),
        ]),
      ),
    }),
    ...(items && { items: adapt(items, `${path}[]`) }),
    ...(!properties &&
      typeof additionalProperties === 'object' && { additionalProperties: adapt(additionalProperties, `${path}{}`) }),
  };
}

/**
 * The format of an integer. One without bounds of its own keeps those of zod, the safe integers of JavaScript: the API server
 * has 64 bits, and would store a number that reads as another one here.
 */
function integerFormat({ minimum, maximum }: Structural) {
  const small =
    typeof maximum === 'number' && maximum < 2 ** 31 && typeof minimum === 'number' && minimum >= -(2 ** 31);
  return { format: small ? 'int32' : 'int64' };
}

/**
 * Drops unknown members, as the API server prunes them, for requests in which unknown fields are tolerated
 * (docs/spec/rest-v3.md#unknown-members). Returns the pruned copy and the dropped paths.
 */
export function prune(value: unknown, schema: Structural, path = ''): { value: unknown; dropped: string[] } {
  if (schema['x-kubernetes-preserve-unknown-fields'] || schema[CLOSED] || typeof value !== 'object' || value === null)
    return { value, dropped: [] };
  if (Array.isArray(value)) {
    if (!schema.items) return { value, dropped: [] };
    const items = value.map((item, index) => prune(item, schema.items as Structural, `${path}[${index}]`));
    return { value: items.map((item) => item.value), dropped: items.flatMap((item) => item.dropped) };
  }
  const kept: [string, unknown][] = [];
  const dropped: string[] = [];
  for (const [key, member] of Object.entries(value)) {
    const below = path ? `${path}.${key}` : key;
    const memberSchema = memberOf(schema, key);
    if (!memberSchema) {
      dropped.push(below);
      continue;
    }
    const pruned = prune(member, memberSchema, below);
    kept.push([key, pruned.value]);
    dropped.push(...pruned.dropped);
  }
  // fromEntries makes own members of any name, `__proto__` included.
  return { value: Object.fromEntries(kept), dropped };
}

/** A list or map with more members than its schema allows, and their number. */
export interface TooLong {
  path: (string | number)[];
  max: number;
  what: 'items' | 'keys';
}

/**
 * The first list or map with more members than allowed. It is checked before anything reads the members: the cost of a document
 * then depends on our bounds and not on its length.
 */
export function tooLong(value: unknown, schema: Structural): TooLong | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const isList = Array.isArray(value);
  const keys = Object.keys(value);
  const max = schema[isList ? 'maxItems' : 'maxProperties'];
  if (typeof max === 'number' && keys.length > max) return { path: [], max, what: isList ? 'items' : 'keys' };
  for (const key of keys) {
    const below = isList ? schema.items : memberOf(schema, key);
    const found = below && tooLong((value as Record<string, unknown>)[key], below);
    if (found) return { ...found, path: [isList ? Number(key) : key, ...found.path] };
  }
  return undefined;
}

/**
 * Removes null members of objects, as the API server does for fields that are not nullable. Unknown members stay, null or
 * not, so that they are refused.
 */
export function withoutNulls(value: unknown, schema: Structural): unknown {
  if (schema['x-kubernetes-preserve-unknown-fields'] || typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => (schema.items ? withoutNulls(item, schema.items) : item));
  return Object.fromEntries(
    Object.entries(value)
      .map(([key, member]) => ({ key, member, known: memberOf(schema, key) }))
      .filter(({ member, known }) => member !== null || !known)
      .map(({ key, member, known }) => [key, known ? withoutNulls(member, known) : member]),
  );
}

/** The schema of a member; names that every object inherits are not members. */
const memberOf = ({ properties, additionalProperties }: Structural, key: string): Structural | undefined =>
  properties && Object.hasOwn(properties, key) ? properties[key] : additionalProperties;
