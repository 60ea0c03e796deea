import type { ContainerField, EntryContainer } from '../../../../api/container/index.ts';
import { type Fields, fieldsOf, isEmpty, jsonOf, listOf, withoutEmpty } from '../../../../rules/body-values.ts';
import { isBusMapping, withoutBusVariables } from '../../../../rules/bus-access.ts';
import { isObject } from '../../../../rules/document.ts';
import { invalid } from '../../../../rules/errors.ts';

/** Reads a value of a container field; `field` is its place in the body, for messages. Throws DomainError. */
type ReadValue = (value: unknown, field: string) => unknown;

/** Fields that are lists of objects whose items may have members that mean "not set". */
type ItemField = {
  [F in ContainerField]: NonNullable<EntryContainer[F]> extends readonly object[] ? F : never;
}[ContainerField];

/**
 * Readers of container fields for which existing clients may send values that an entry cannot have; all other fields are
 * read unchanged. The flat JSON form and YAML documents have the same readers.
 */
const READERS: Readonly<Record<ItemField | 'annotations' | 'healthCheck', ReadValue>> = {
  env: environment,
  ports: items,
  volumes,
  extraHosts: items,
  devices: items,
  tmpfs: items,
  healthCheck: (value, field) =>
    Object.fromEntries(Object.entries(fieldsOf(value, field)).filter(([, member]) => !isEmpty(member))),
  annotations,
};

/** The value of a container field in the form of an entry. */
export function readContainerValue(name: ContainerField, value: unknown, field: string): unknown {
  const read = (READERS as Partial<Record<ContainerField, ReadValue>>)[name];
  return read ? read(value, field) : value;
}

/** Items of a list without members that are null or empty text. */
function items(value: unknown, field: string): Fields[] {
  return listOf(value, field).map((item, index) => withoutEmpty(fieldsOf(item, `${field}[${index}]`)));
}

/**
 * User interfaces send every member: empty text is a value unless the item has a reference. What reads show of the message bus is
 * left out: it is computed.
 */
function environment(value: unknown, field: string): Fields[] {
  const variables = listOf(value, field).map((item, index) => {
    const { value: literal, ...rest } = fieldsOf(item, `${field}[${index}]`);
    const variable = withoutEmpty(rest);
    if (literal === undefined || literal === null || (literal === '' && isReference(variable))) return variable;
    return { ...variable, value: asText(literal) };
  });
  return withoutBusVariables(variables);
}

const isReference = (variable: Fields) => !isEmpty(variable.valueFromSecret) || !isEmpty(variable.valueFromConfigMap);

/** Variables without the values that reads show beside references, so that what was read can be written. */
export function withoutReferredValues(env: unknown): unknown {
  if (!Array.isArray(env)) return env;
  return env.map((item) => (isObject(item) && isReference(item) ? { ...item, value: undefined } : item));
}

const VOLUME_SCOPES = ['private', 'shared'];

/** The controller alone makes the bindings of a service account and of the message bus. Only volumes have a scope, in any letter case. */
function volumes(value: unknown, field: string): Fields[] {
  return items(value, field).flatMap((volume, index) => {
    if (volume.type === 'serviceAccount' || isBusMapping(volume)) return [];
    if (volume.type !== 'volume') return [{ ...volume, scope: 'private' }];
    const { scope = 'private' } = volume;
    const lower = String(scope).toLowerCase();
    if (!VOLUME_SCOPES.includes(lower))
      throw invalid(
        `${field}[${index}].scope: ${JSON.stringify(scope)}; must be private or shared`,
        `${field}[${index}].scope`,
      );
    return [{ ...volume, scope: lower }];
  });
}

/** An object, or its JSON text. */
function annotations(value: unknown, field: string): Record<string, string> {
  const map = typeof value === 'string' ? jsonOf(value, field) : value;
  if (isEmpty(map)) return {};
  if (typeof map !== 'object' || Array.isArray(map))
    throw invalid(`${field}: must be an object with text values, or its JSON text`, field);
  return Object.fromEntries(
    Object.entries(map as Fields)
      .filter(([, member]) => member !== null)
      .map(([key, member]) => {
        if (typeof member === 'object') throw invalid(`${field}.${key}: must be text`, field);
        return [key, String(member)];
      }),
  );
}

/** Numbers and booleans become text. */
const asText = (value: unknown): unknown =>
  typeof value === 'number' || typeof value === 'boolean' ? String(value) : value;
