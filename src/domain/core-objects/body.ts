import { z } from 'zod';
import { BOUNDS } from '../../api/bounds.ts';
import { oneOf, text } from '../../api/schema.ts';
import { DomainError, invalid } from '../errors.ts';
import { isObject, quoted, requireUnchanged } from '../upload/document.ts';
import { validateSpec } from '../upload/validate.ts';

/**
 * Bodies and documents of Secrets and ConfigMaps (docs/spec/rest-v3.md#secrets-and-config-maps). They are closed: an unknown
 * member is refused. Messages name keys and never values.
 */

export const SECRET_TYPES = ['Opaque', 'tls'] as const;
export type SecretType = (typeof SECRET_TYPES)[number];

export interface SecretBody {
  name?: string;
  type?: SecretType;
  /** text by key; base64 by key for the type tls */
  data: Record<string, string>;
}

export interface ConfigMapBody {
  name?: string;
  data?: Record<string, string>;
  immutable?: boolean;
}

type Fields = Record<string, unknown>;

const nameSchema = text({ min: 1, max: BOUNDS.anyName });
const SECRET_HEAD = z.strictObject({ name: nameSchema.optional(), type: oneOf(...SECRET_TYPES).optional() });
// There is no vault: `useVault` is accepted, since clients of v3 send it, and has no effect.
const CONFIG_MAP_HEAD = z.strictObject({
  name: nameSchema.optional(),
  immutable: z.boolean().optional(),
  useVault: z.boolean().optional(),
});

/** A create body. */
export function secretFromBody(body: unknown): Required<SecretBody> {
  const { name, type, data } = readSecret(body);
  if (name === undefined) throw invalid('name: is required', 'name');
  if (type === undefined) throw invalid(`type: is required: one of ${SECRET_TYPES.join(', ')}`, 'type');
  return { name, type, data: checked(data, type) };
}

/** A PATCH body: `data` replaces the data; the type may be repeated. */
export function secretPatch(body: unknown, stored: { name: string; type: SecretType }): Record<string, string> {
  const { name, type, data } = readSecret(body);
  requireUnchanged('name', name, stored.name);
  if (type !== undefined && type !== stored.type)
    throw new DomainError(400, 'SECRET_TYPE_MISMATCH', `type: is ${stored.type} and cannot become ${type}`, {
      field: 'type',
    });
  return checked(data, stored.type);
}

function readSecret(body: unknown): SecretBody {
  const { data, ...head } = fieldsOf(body);
  const { name, type } = validateSpec(SECRET_HEAD, head);
  return { ...(name !== undefined && { name }), ...(type && { type }), data: textsOf(data) };
}

export function configMapFromBody(body: unknown): Required<ConfigMapBody> {
  const { name, data, immutable = false } = readConfigMap(body);
  if (name === undefined) throw invalid('name: is required', 'name');
  if (data === undefined) throw invalid('data: is required', 'data');
  return { name, data, immutable };
}

/** A PATCH body: absent members stay. */
export function configMapPatch(body: unknown, stored: { name: string }): Pick<ConfigMapBody, 'data' | 'immutable'> {
  const { name, ...changes } = readConfigMap(body);
  requireUnchanged('name', name, stored.name);
  return changes;
}

function readConfigMap(body: unknown): ConfigMapBody {
  const { data, ...head } = fieldsOf(body);
  const { name, immutable } = validateSpec(CONFIG_MAP_HEAD, head);
  return {
    ...(name !== undefined && { name }),
    ...(data !== undefined && data !== null && { data: textsOf(data) }),
    ...(immutable !== undefined && { immutable }),
  };
}

function fieldsOf(body: unknown): Fields {
  if (!isObject(body)) throw invalid('body: must be an object');
  return body;
}

/** Text by key, within the bounds of core objects. */
function textsOf(data: unknown): Record<string, string> {
  if (data === undefined || data === null) throw invalid('data: is required', 'data');
  if (!isObject(data)) throw invalid('data: must be an object with text values', 'data');
  const keys = Object.keys(data);
  if (keys.length > BOUNDS.coreObjectKeys)
    throw invalid(`data: must have at most ${BOUNDS.coreObjectKeys} keys`, 'data');
  let bytes = 0;
  for (const key of keys) {
    const value = data[key];
    if (key === '' || [...key].length > BOUNDS.path)
      throw invalid(`data: the key ${quoted(key)} must have 1 to ${BOUNDS.path} characters`, 'data');
    if (typeof value !== 'string') throw invalid(`data.${key}: must be text; in YAML put it in quotes`, `data.${key}`);
    bytes += Buffer.byteLength(value);
  }
  if (bytes > BOUNDS.coreObjectBytes)
    throw invalid(
      `data: has ${bytes} bytes; at most ${BOUNDS.coreObjectBytes} are allowed`,
      'data',
      'OBJECT_TOO_LARGE',
    );
  return data as Record<string, string>;
}

/** Values of a tls Secret are base64, in the form in which core objects keep them. */
function checked(data: Record<string, string>, type: SecretType): Record<string, string> {
  if (type !== 'tls') return data;
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => {
      const plain = value.replaceAll(/\s/g, '');
      if (!isBase64(plain)) throw invalid(`data.${key}: must be base64, as every value of a tls secret`, `data.${key}`);
      return [key, plain];
    }),
  );
}

const isBase64 = (value: string) => value.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(value);

/** The members of a document of each kind: at the top level, in the form of v3 (or inside `spec`), and in that of kubectl. */
const FORMS = {
  Secret: { v3: ['type', 'data'], core: ['type', 'data', 'stringData'] },
  ConfigMap: { v3: ['data', 'immutable', 'useVault'], core: ['data', 'immutable'] },
} as const;

/**
 * The JSON body that is equivalent to an uploaded document: in the form of v3 files, whose values are text, or in that of
 * kubectl (`apiVersion: v1`), where values of a Secret are base64 and those of `stringData` are text.
 */
export function bodyOfDocument(document: unknown, kind: keyof typeof FORMS): Fields {
  if (!isObject(document)) throw invalid(`the file must hold one YAML object of kind ${kind}`);
  const { apiVersion, kind: given, metadata, spec, ...top } = document;
  if (given !== kind) throw invalid(`kind: ${quoted(given)}; must be ${kind}`, 'kind');
  if (!isObject(metadata)) throw invalid('metadata: is required', 'metadata');
  if (typeof metadata.name !== 'string' || metadata.name === '')
    throw invalid('metadata.name: is required', 'metadata.name');
  const isCore = apiVersion === 'v1';
  if (isCore && spec !== undefined) throw invalid(`spec: a ${kind} of apiVersion v1 has none`, 'spec');
  if (spec !== undefined && spec !== null && !isObject(spec)) throw invalid('spec: must be an object', 'spec');
  const fields: Fields = { ...top, ...(isObject(spec) && spec) };
  const twice = Object.keys(isObject(spec) ? spec : {}).find((field) => field in top && top[field] !== fields[field]);
  if (twice) throw invalid(`${twice}: is given at the top level and in spec, with different values`, twice);
  const known: readonly string[] = FORMS[kind][isCore ? 'core' : 'v3'];
  const unknown = Object.keys(fields).find((field) => !known.includes(field));
  if (unknown !== undefined) throw invalid(`${unknown}: unknown field ${quoted(unknown)}`, unknown);
  const body = isCore && kind === 'Secret' ? bodyOfCoreSecret(fields) : fields;
  return { name: metadata.name, ...body };
}

const CORE_TYPES: Readonly<Record<string, SecretType>> = { Opaque: 'Opaque', 'kubernetes.io/tls': 'tls' };

function bodyOfCoreSecret({ type = 'Opaque', data, stringData }: Fields): Fields {
  const v3Type = CORE_TYPES[String(type)];
  if (!v3Type) throw invalid(`type: ${quoted(type)}; must be ${Object.keys(CORE_TYPES).join(' or ')}`, 'type');
  const encoded = data === undefined || data === null ? {} : checked(textsOf(data), 'tls');
  const texts = stringData === undefined || stringData === null ? {} : textsOf(stringData);
  if (v3Type === 'tls') {
    const fromText = Object.entries(texts).map(([key, value]) => [key, Buffer.from(value).toString('base64')]);
    return { type: v3Type, data: { ...encoded, ...Object.fromEntries(fromText) } };
  }
  const decoded = Object.entries(encoded).map(([key, value]) => {
    const plain = textOfBase64(value);
    if (plain === undefined)
      throw invalid(`data.${key}: must be UTF-8 text in base64; apply other bytes with kubectl`, `data.${key}`);
    return [key, plain];
  });
  return { type: v3Type, data: { ...Object.fromEntries(decoded), ...texts } };
}

/** Undefined for bytes that are no text. */
export function textOfBase64(value: string): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(value, 'base64'));
  } catch {
    return undefined;
  }
}
