import type { z } from 'zod';
import { structuralOf } from '../api/normal-form.ts';
import { isObject, quoted, requireUnchanged } from '../rules/document.ts';
import { invalid } from '../rules/errors.ts';
import { idOf, uuidOf } from '../rules/identity.ts';
import { v3Name } from '../rules/names.ts';
import { validateSpec } from '../rules/validate.ts';
import type { KindObject } from './object.ts';
import type { KindCrud, Write } from './rest.ts';

export interface PlainOptions {
  /** refuses unknown members of a body, which are dropped otherwise (docs/spec/rest-v3.md#unknown-members) */
  closed?: true;
  /** the name of a kind whose objects have no name of their own in the spec */
  name?: z.ZodType<string>;
}

/** The translation of a kind whose JSON has the members of its spec. Empty members are absent. */
export function plainTranslation<T extends KindObject>(
  schema: z.ZodType<T['spec']>,
  { closed, name: nameSchema }: PlainOptions = {},
): Pick<KindCrud<T>, 'fromBody' | 'patch' | 'read' | 'closed'> {
  const validated = (fields: object) => validateSpec(schema, fields, { tolerant: !closed }) as Write<T>['spec'];
  const { properties = {} } = structuralOf(schema);
  const identity = IDENTITY.filter(([member]) => member in properties);
  const fieldsOf = (body: unknown, options?: { nulls: boolean }) =>
    without(
      setFieldsOf(body, options),
      identity.map(([member]) => member),
    );
  return {
    ...(closed && { closed }),
    fromBody(body) {
      const { name, ...fields } = fieldsOf(body);
      if (name === undefined) throw invalid('name: is required', 'name');
      if (typeof name !== 'string') throw invalid(`name: ${quoted(name)} is not valid: must be text`, 'name');
      if (nameSchema) {
        validateSpec(nameSchema, name, { path: 'name' });
        return { name, spec: validated(fields) };
      }
      const { name: checked = name, ...spec } = validated({ ...fields, name }) as T['spec'];
      return { name: checked, spec: spec as Write<T>['spec'] };
    },
    patch(object, body) {
      const { name, ...fields } = fieldsOf(body, { nulls: true });
      if (isObject(body)) for (const [member, of] of identity) requireUnchanged(member, body[member], of(object));
      requireUnchanged('name', name, v3Name(object));
      return { spec: validated({ ...object.spec, ...fields }) };
    },
    read(object) {
      const { name: _name, uuid: _uuid, id: _id, nodes: _nodes, ...spec } = object.spec;
      return { name: v3Name(object), ...spec };
    },
  };
}

/** Members that the controller gives: a body may repeat them. */
const IDENTITY = [
  ['uuid', uuidOf],
  ['id', idOf],
] as const;

/** Members of a body; empty text means that a member is not set. */
function setFieldsOf(body: unknown, { nulls = false } = {}): Record<string, unknown> {
  if (!isObject(body)) throw invalid('body: must be an object');
  const isUnset = (value: unknown) => value === '' || value === null;
  return Object.fromEntries(
    Object.entries(body)
      .filter(([, value]) => nulls || !isUnset(value))
      .map(([key, value]) => [key, isUnset(value) ? null : value]),
  );
}

const without = (fields: Record<string, unknown>, members: readonly string[]) =>
  Object.fromEntries(Object.entries(fields).filter(([member]) => !members.includes(member)));
