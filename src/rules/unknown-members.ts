import { z } from 'zod';
import { API_VERSION, GROUP } from '../api/names.ts';
import { WITHOUT_EFFECT_KEY } from '../api/schema.ts';
import { isEmpty } from './body-values.ts';
import { cut } from './conditions.ts';
import { isObject, quoted } from './document.ts';
import { invalid } from './errors.ts';
import { nearestOf } from './nearest.ts';

/**
 * Members of bodies and files that no schema knows: they are dropped, since v3 does so, and named in a warning
 * (docs/spec/rest-v3.md#unknown-members).
 */

/** The schemas that tell the members of a file. */
export interface FileMembers {
  /** of the spec of a document, when the domain drops the members that it does not know */
  spec?: z.ZodType;
  /** of the JSON body with the same members, when the domain refuses members that it does not know */
  members?: z.ZodType;
}

/** A member without a schema: where it is, and the known member that it may mean. */
interface Unknown {
  /** of the object that has it */
  within: string;
  name: string;
  nearest?: string;
}

interface Found {
  /** the first `NAMED` */
  named: Unknown[];
  count: number;
  /** members that are accepted without effect, with the reason */
  idle: { path: string; reason: string }[];
}

/** The part of a JSON Schema that tells members apart. */
interface Shape {
  $ref?: string;
  $defs?: Record<string, Shape>;
  properties?: Record<string, Shape>;
  items?: Shape;
  [WITHOUT_EFFECT_KEY]?: string;
}

/** Most members that one warning names. */
const NAMED = 8;
/** Most characters of a path in a warning. */
const PATH_LENGTH = 120;

/** The warnings for members of a JSON body that are dropped. `shows` has members that a body may repeat without effect. */
export function bodyWarnings(body: unknown, schema: z.ZodType, shows?: z.ZodType): string[] {
  const found: Found = { named: [], count: 0, idle: [] };
  collect(openEntries(body), shapesOf(schema, shows), '', found);
  return [...dropped(found), ...withoutEffect(found)];
}

/**
 * The warnings for members of a document that are dropped, with its expressions replaced. Throws for an unknown member of a file
 * whose `apiVersion` is the product's own.
 */
export function fileWarnings(document: Record<string, unknown>, { spec, members }: FileMembers): string[] {
  const found: Found = { named: [], count: 0, idle: [] };
  if (!spec) {
    collect(document, shapesOf(members), '', found);
    collect(document.spec, shapesOf(members), 'spec', found);
    return withoutEffect(found);
  }
  const { apiVersion } = document;
  const own = typeof apiVersion === 'string' && apiVersion.startsWith(`${GROUP}/`);
  if (own && apiVersion !== API_VERSION)
    throw invalid(`apiVersion: ${quoted(apiVersion)}; must be ${API_VERSION}`, 'apiVersion');
  collect(document, [DOCUMENT], '', found);
  collect(openEntries(document.spec), shapesOf(spec), 'spec', found);
  const [first] = found.named;
  if (own && first) throw unknownField(first);
  return [...dropped(found), ...withoutEffect(found)];
}

function unknownField({ within, name, nearest }: Unknown) {
  const text = `unknown field ${quoted(name)}${nearest === undefined ? '' : `; did you mean ${nearest}?`}`;
  return invalid(within ? `${within}: ${text}` : text, within || undefined);
}

/** What a document has outside of its spec; the metadata of Kubernetes may stand in it. */
const DOCUMENT: Shape = {
  properties: { apiVersion: {}, kind: {}, metadata: {}, spec: {}, status: {} },
};

/** Entries beside a template may be in the form of files or of JSON bodies. */
const openEntries = (fields: unknown) =>
  isObject(fields) && !isEmpty(fields.template) ? { ...fields, microservices: undefined } : fields;

function dropped({ named, count }: Found): string[] {
  if (count === 0) return [];
  const all = named.map(({ within, name, nearest }) => {
    const path = cut(within ? `${within}.${name}` : name, PATH_LENGTH);
    return nearest === undefined ? path : `${path} (${nearest}?)`;
  });
  const more = count - named.length;
  return [`unknown members were dropped: ${all.join(', ')}${more > 0 ? ` and ${more} more` : ''}`];
}

const withoutEffect = ({ idle }: Found) => idle.map(({ path, reason }) => `${path}: has no effect: ${reason}`);

/** Whether a value asks for something: what v3 clients send by default does not. */
const asks = (value: unknown) => value !== false && !isEmpty(value);

/** The body has the first schema; what reads alone show is known, and is not looked into. */
function collect(value: unknown, shapes: readonly Shape[], path: string, found: Found): void {
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    const items = shapes.flatMap((shape) => shape.items ?? []);
    if (items.length > 0) for (const [index, item] of value.entries()) collect(item, items, `${path}[${index}]`, found);
    return;
  }
  // A schema without members takes any.
  const closed = shapes.filter((shape) => !isOpen(shape)).map(({ properties }) => properties ?? {});
  if (!shapes[0] || isOpen(shapes[0])) return;
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue;
    const below = path ? `${path}.${key}` : key;
    const known = closed.flatMap((properties) => (Object.hasOwn(properties, key) ? [properties[key] as Shape] : []));
    const reason = known[0]?.[WITHOUT_EFFECT_KEY];
    if (reason !== undefined && asks(member)) found.idle.push({ path: cut(below, PATH_LENGTH), reason });
    if (Object.hasOwn(closed[0] ?? {}, key)) collect(member, known, below, found);
    else if (known.length === 0 && ++found.count <= NAMED) {
      const nearest = nearestOf(key, closed.flatMap(Object.keys));
      found.named.push({ within: path, name: key, ...(nearest !== undefined && { nearest }) });
    }
  }
}

const isOpen = ({ properties }: Shape) => !properties || Object.keys(properties).length === 0;

const shapes = new WeakMap<z.ZodType, Shape>();

function shapesOf(...schemas: readonly (z.ZodType | undefined)[]): Shape[] {
  return schemas.flatMap((schema) => (schema ? [shapeOf(schema)] : []));
}

/** The members of a schema; made once. */
function shapeOf(schema: z.ZodType): Shape {
  const made = shapes.get(schema);
  if (made) return made;
  const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' }) as Shape;
  const shape = resolved(json, json.$defs ?? {});
  shapes.set(schema, shape);
  return shape;
}

function resolved(shape: Shape, defs: Readonly<Record<string, Shape>>): Shape {
  const { $ref, properties, items, [WITHOUT_EFFECT_KEY]: reason } = shape;
  if ($ref !== undefined) return resolved(defs[$ref.replace('#/$defs/', '')] ?? {}, defs);
  return {
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([key, one]) => [key, resolved(one, defs)])),
    }),
    ...(items && { items: resolved(items, defs) }),
    ...(reason !== undefined && { [WITHOUT_EFFECT_KEY]: reason }),
  };
}
