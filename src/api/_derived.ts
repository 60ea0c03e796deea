import type { AgreementCase } from './_agreement.ts';
import type { ResourceDefinition } from './meta.ts';
import { structuralOf } from './normal-form.ts';
import { CLOSED } from './schema.ts';
import type { Structural } from './structural.ts';

/** A document that differs in one member from one that is accepted. Its verdict is known only where a bound decides it. */
export interface DerivedCase extends Omit<AgreementCase, 'accepted'> {
  accepted?: false;
  /** the member that differs */
  path: Path;
  /** its value; undefined when it was removed */
  value: unknown;
}

type Path = readonly (string | number)[];
interface Variant {
  what: string;
  value: unknown;
  accepted?: false;
}

/** Texts and numbers with which parsers and validations often have problems. */
const ODD_TEXTS = ['', ' ', 'A', 'a.b', '-a', 'a-', 'a b', 'é', '😀', 'a\n', '__proto__', '0', '../x', '/x', 'true'];
const ODD_NUMBERS = [-1, 1.5, 2 ** 53, 1e21];

/**
 * Documents made from the schema of a kind: every member of the accepted document with every field takes values at its bounds and
 * beyond them, of every other type, null, and odd ones; it is removed, and gets an unknown neighbour.
 */
export function derivedCases(definition: ResourceDefinition, cases: readonly AgreementCase[]): DerivedCase[] {
  const whole = cases.find(({ name }) => name === EVERY_FIELD)?.spec;
  if (whole === undefined) throw new Error(`the table of ${definition.kind} has no case "${EVERY_FIELD}"`);
  const found: DerivedCase[] = [];
  const walk = (schema: Structural, value: unknown, path: Path, base: unknown) => {
    for (const { what, value: other, accepted } of variantsOf(schema, value, path))
      found.push({
        name: `${path.join('.') || 'spec'}: ${what}`,
        spec: withValue(slim(structuralOf(definition.spec), base, path), path, other),
        path,
        value: other,
        ...(accepted === false && { accepted }),
      });
    for (const [name, member] of membersOf(schema)) {
      const present = (value as Record<string, unknown>)[name];
      const at = [...path, name];
      if (present !== undefined) walk(member, present, at, base);
      else walk(member, sample(member), at, withValue(base, at, sample(member)));
    }
    const [first] = Object.keys(schema.additionalProperties ? (value as object) : {});
    if (first !== undefined && schema.additionalProperties)
      walk(schema.additionalProperties, (value as Record<string, unknown>)[first], [...path, first], base);
    if (schema.items && Array.isArray(value) && value.length > 0) walk(schema.items, value[0], [...path, 0], base);
  };
  walk(structuralOf(definition.spec), whole, [], whole);
  return found;
}

/** Members of an object beyond which it is made smaller. */
const MANY = 8;

/**
 * The document without what the member at a path does not need: the identity, and of an object with many members all but those that are
 * required. Small documents cost less.
 */
function slim(schema: Structural, value: unknown, [first, ...rest]: Path, isRoot = true): unknown {
  if (first === undefined || typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value))
    return value.map((item, index) => (index === first ? slim(schema.items as Structural, item, rest, false) : item));
  const { properties = {}, required = [] } = schema;
  const isMany = Object.keys(value).length > MANY;
  const isKept = (name: string) =>
    name === first || (isMany ? required.includes(name) : !(isRoot && (name === 'uuid' || name === 'id')));
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => isKept(name))
      .map(([name, member]) => {
        const below = properties[name];
        return [name, name === first && below ? slim(below, member, rest, false) : member];
      }),
  );
}

/** The members of a schema; of names outside of our hands, such as sysctls, only the first of each form. */
function membersOf({ properties = {}, ...schema }: Structural): [string, Structural][] {
  const members = Object.entries(properties);
  if (!schema[CLOSED]) return members;
  const forms = new Map(members.toReversed().map((entry) => [JSON.stringify({ ...entry[1], description: '' }), entry]));
  return [...forms.values()];
}

/** The case of each table from which the others are made. */
const EVERY_FIELD = 'every field';

/** A value that fits the schema, as far as types go. */
function sample(schema: Structural): unknown {
  const { type, properties = {}, required = [], items } = schema;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  if (type === 'object')
    return Object.fromEntries(required.map((name) => [name, sample(properties[name] as Structural)]));
  if (type === 'array') return items ? [sample(items)] : [];
  if (type === 'integer' || type === 'number') return Math.max(1, Number(schema.minimum ?? 1));
  return type === 'boolean' ? true : 'a';
}

function variantsOf(schema: Structural, value: unknown, path: Path): Variant[] {
  const isAny = schema['x-kubernetes-preserve-unknown-fields'] === true;
  const isItem = typeof path.at(-1) === 'number';
  return [
    ...(path.length > 0 && !isItem ? [{ what: 'removed', value: undefined }] : []),
    { what: 'null', value: null },
    ...(isAny
      ? []
      : OTHER_TYPES.filter(([, other]) => typeOf(other) !== schema.type).map(([what, other]) => ({
          what,
          value: other,
        }))),
    ...(isAny ? [] : boundsOf(schema, value)),
  ];
}

const OTHER_TYPES: readonly [string, unknown][] = [
  ['digits', '7'],
  ['a number', 7],
  ['true', true],
  ['a list', []],
  ['an object', {}],
];
const typeOf = (value: unknown) => (Array.isArray(value) ? 'array' : typeof value);

interface Bounds {
  type?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  maxItems?: number;
}

/** Values at the bounds of a schema and beyond them. */
function boundsOf(schema: Structural, value: unknown): Variant[] {
  const { type, minimum, maximum, maxLength, maxItems } = schema as Bounds;
  if (schema['x-kubernetes-int-or-string'])
    return [...texts({ maxLength }), ...ODD_NUMBERS.map((number) => ({ what: `${number}`, value: number }))];
  switch (type) {
    case 'string':
      return Array.isArray(schema.enum) ? enumerated(schema.enum) : texts(schema as Bounds);
    case 'integer':
    case 'number':
      return [
        ...ODD_NUMBERS.map((number) => ({ what: `${number}`, value: number })),
        ...(minimum === undefined ? [] : [{ what: 'the minimum', value: minimum }, beyond('below', minimum - 1)]),
        ...(maximum === undefined ? [] : [{ what: 'the maximum', value: maximum }, beyond('above', maximum + 1)]),
      ];
    case 'array': {
      const [first] = value as unknown[];
      const copies = Array.from({ length: (maxItems ?? 0) + 1 }, () => first);
      return first === undefined || maxItems === undefined || maxItems > 1_000
        ? []
        : [
            { what: 'a null item', value: [null] },
            { what: 'an item twice', value: [first, first] },
            beyond('one item too many', copies),
          ];
    }
    case 'object':
      return UNKNOWN.filter((name) => schema.properties && !Object.hasOwn(schema.properties, name)).map((name) => ({
        what: `an unknown member ${name}`,
        value: { ...(value as object), [name]: 1 },
      }));
    default:
      return [];
  }
}

/** One that no schema has, and those that other kinds have. */
const UNKNOWN = ['zzUnknown', 'uuid', 'id', 'nodes'];

const beyond = (what: string, value: unknown): Variant => ({ what, value, accepted: false });

const texts = ({ minLength = 0, maxLength = 64, pattern }: Bounds): Variant[] => [
  ...(pattern === undefined ? ['', 'é\n'] : ODD_TEXTS).map((value) => ({ what: JSON.stringify(value), value })),
  ...(minLength > 1 ? [beyond('too short', 'a'.repeat(minLength - 1))] : []),
  ...(maxLength > LONG
    ? []
    : [
        { what: 'the greatest length', value: (pattern === undefined ? '😀' : 'a').repeat(maxLength) },
        beyond('too long', 'a'.repeat(maxLength + 1)),
      ]),
];

/** Longer texts cost more than they show: a table has the few bounds beyond. */
const LONG = 5_000;

const enumerated = (words: readonly string[]): Variant[] => [
  ...words.map((word) => ({ what: word, value: word })),
  beyond('another word', `${words[0]}x`),
  { what: 'in capital letters', value: words[0]?.toUpperCase() },
];

/** A copy with another value at a path; undefined removes it. */
function withValue(document: unknown, path: Path, value: unknown): unknown {
  const [first, ...rest] = path;
  if (first === undefined) return value;
  if (typeof first === 'number')
    return (document as unknown[]).map((item, index) => (index === first ? withValue(item, rest, value) : item));
  const { [first]: member, ...others } = (document ?? {}) as Record<string, unknown>;
  const changed = withValue(member, rest, value);
  return changed === undefined ? others : { ...others, [first]: changed };
}
