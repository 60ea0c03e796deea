import { z } from 'zod';
import { BOUNDS } from '../../../../api/bounds.ts';
import type { RestErrorCode } from '../../../../api/error-codes.ts';
import { oneOf, text } from '../../../../api/schema.ts';
import { isObject, requireUnchanged } from '../../../../rules/document.ts';
import { DomainError, invalid } from '../../../../rules/errors.ts';
import { validateSpec } from '../../../../rules/validate.ts';
import { canonicalJson } from '../../../../wire/digest.ts';
import { isBase64, withoutBreaks } from './base64.ts';
import { type CoreContent, requireKept, SECRET_TYPES, type SecretType, violationAt } from './rules.ts';

/**
 * Bodies of Secrets and ConfigMaps (docs/spec/rest-v3.md#secrets-and-config-maps). They are closed: an unknown member is refused.
 * Messages name keys and never values.
 */

type Texts = Readonly<Record<string, string>>;
/** What a body says of the content; a member that it does not have stays as it is. */
interface GivenContent {
  /** text by key; base64 by key for the type tls */
  data?: Texts;
  /** base64 by key: bytes that are no text */
  binaryData?: Texts;
  immutable?: boolean;
}

interface Created extends GivenContent {
  name: string;
  data: Texts;
}

const nameSchema = text({ min: 1, max: BOUNDS.anyName });
const SECRET_HEAD = z.strictObject({
  name: nameSchema.optional(),
  type: oneOf(...SECRET_TYPES).optional(),
  immutable: z.boolean().optional(),
});
// There is no vault: `useVault` is accepted, since clients of v3 send it, and has no effect.
const CONFIG_MAP_HEAD = z.strictObject({
  name: nameSchema.optional(),
  immutable: z.boolean().optional(),
  useVault: z.boolean().optional(),
});

/** A create body. */
export function secretFromBody(body: unknown): Created & { type: SecretType } {
  const { type, ...given } = readSecret(body);
  if (given.name === undefined) throw invalid('name: is required', 'name');
  if (type === undefined) throw invalid(`type: is required: one of ${SECRET_TYPES.join(', ')}`, 'type');
  const created = { ...inBase64(given as Created, type), type };
  requireKept(created);
  return created;
}

/** A PATCH body: `data` replaces the data; the type may be repeated. */
export function secretPatch(body: unknown, stored: { name: string; type: SecretType }): GivenContent {
  const { name, type, ...given } = readSecret(body);
  requireUnchanged('name', name, stored.name);
  if (type !== undefined && type !== stored.type)
    throw new DomainError(400, 'SECRET_TYPE_MISMATCH', `type: is ${stored.type} and cannot become ${type}`, {
      field: 'type',
    });
  return inBase64(given, stored.type);
}

function readSecret(body: unknown): GivenContent & { name?: string; type?: SecretType } {
  const { data, binaryData, ...rest } = fieldsOf(body);
  const head = validateSpec(SECRET_HEAD, rest);
  if (isNullish(data)) throw invalid('data: is required', 'data');
  return { ...head, ...contentOf(data, binaryData) };
}

export function configMapFromBody(body: unknown): Created {
  const given = readConfigMap(body);
  if (given.name === undefined) throw invalid('name: is required', 'name');
  if (given.data === undefined) throw invalid('data: is required', 'data');
  requireKept(given as Created);
  return given as Created;
}

/** A PATCH body: absent members stay. */
export function configMapPatch(body: unknown, stored: { name: string }): GivenContent {
  const { name, ...changes } = readConfigMap(body);
  requireUnchanged('name', name, stored.name);
  return changes;
}

function readConfigMap(body: unknown): GivenContent & { name?: string } {
  const { data, binaryData, ...rest } = fieldsOf(body);
  const { useVault: _, ...head } = validateSpec(CONFIG_MAP_HEAD, rest);
  return { ...head, ...contentOf(data, binaryData) };
}

/** The content after a PATCH: bytes that are no text stay unless the body has some, or a text under their key. */
export function patchedContent<C extends CoreContent & { immutable?: boolean }>(
  stored: C,
  { data = stored.data, binaryData, immutable }: GivenContent,
): C {
  const { binaryData: before = {}, ...rest } = stored;
  const bytes = binaryData ?? Object.fromEntries(Object.entries(before).filter(([key]) => !Object.hasOwn(data, key)));
  const patched = {
    ...rest,
    data,
    ...(Object.keys(bytes).length > 0 && { binaryData: bytes }),
    ...(immutable !== undefined && { immutable }),
  } as C;
  requireKept(patched);
  return patched;
}

/** Refuses a change of an immutable object, which may be sent again as it is: so does the API server. */
export function requireMutable(
  what: string,
  code: RestErrorCode<400>,
  { before, after }: Record<'before' | 'after', CoreContent & { immutable?: boolean }>,
): void {
  if (!before.immutable || canonicalJson(before) === canonicalJson(after)) return;
  throw new DomainError(400, code, `${what} is immutable: delete it and create it again`);
}

function fieldsOf(body: unknown): Record<string, unknown> {
  if (!isObject(body)) throw invalid('body: must be an object');
  return body;
}

export const isNullish = (value: unknown): value is null | undefined => value === undefined || value === null;

function contentOf(data: unknown, binaryData: unknown): Pick<GivenContent, 'data' | 'binaryData'> {
  return {
    ...(!isNullish(data) && { data: readTexts(data, 'data') }),
    ...(!isNullish(binaryData) && { binaryData: base64Of(readTexts(binaryData, 'binaryData'), 'binaryData') }),
  };
}

/** Text by key; null is empty text, as it is for the API server. */
export function readTexts(data: unknown, member: string): Texts {
  if (!isObject(data)) throw invalid(`${member}: must be an object with text values`, member);
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => {
      if (value !== null && typeof value !== 'string')
        throw violationAt(key, 'must be text; in YAML put it in quotes', member);
      return [key, value ?? ''];
    }),
  );
}

/** Values in base64 as core objects keep them. */
export const base64Of = (data: Texts, member: string): Texts =>
  Object.fromEntries(
    Object.entries(data).map(([key, value]) => {
      if (!isBase64(value)) throw violationAt(key, 'must be base64', member);
      return [key, withoutBreaks(value)];
    }),
  );

/** The data of a tls Secret is base64; spaces, which folded text in YAML has, do not count. */
function inBase64<T extends GivenContent>(given: T, type: SecretType): T {
  if (type !== 'tls' || !given.data) return given;
  const plain = Object.entries(given.data).map(([key, value]) => [key, value.replaceAll(/\s/g, '')]);
  return { ...given, data: base64Of(Object.fromEntries(plain), 'data') };
}
