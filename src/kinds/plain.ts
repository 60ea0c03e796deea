import type { z } from 'zod';
import { invalid } from '../domain/errors.ts';
import { v3Name } from '../domain/names.ts';
import { isObject, quoted } from '../domain/upload/document.ts';
import { validateSpec } from '../domain/upload/validate.ts';
import type { KindObject } from './definition.ts';
import type { KindCrud, Write } from './rest.ts';

export interface PlainOptions {
  /** refuses unknown members of a body, which are dropped otherwise (docs/spec/rest-v3.md#unknown-members) */
  closed?: boolean;
  /** the name of a kind whose objects have no name of their own in the spec */
  name?: z.ZodType<string>;
}

/** The translation of a kind whose JSON has the members of its spec. Empty members are absent. */
export function plainTranslation<T extends KindObject>(
  schema: z.ZodType<T['spec']>,
  { closed = false, name: nameSchema }: PlainOptions = {},
): Pick<KindCrud<T>, 'fromBody' | 'patch' | 'read'> {
  const validated = (fields: object) => validateSpec(schema, fields, { tolerant: !closed }) as Write<T>['spec'];
  return {
    fromBody(body) {
      const { name, ...fields } = fieldsOf(body);
      if (typeof name !== 'string') throw invalid('name: is required', 'name');
      if (nameSchema) {
        validateSpec(nameSchema, name, { path: 'name' });
        return { name, spec: validated(fields) };
      }
      const { name: checked = name, ...spec } = validated({ ...fields, name }) as T['spec'];
      return { name: checked, spec: spec as Write<T>['spec'] };
    },
    patch(object, body) {
      const { name, ...fields } = fieldsOf(body, { nulls: true });
      if (name !== undefined && name !== null) requireSameName(String(name), v3Name(object));
      return { spec: validated({ ...object.spec, ...fields }) };
    },
    read(object) {
      const { name: _name, uuid: _uuid, id: _id, nodes: _nodes, ...spec } = object.spec;
      return { name: v3Name(object), ...spec };
    },
  };
}

/** Members of a body. The controller gives uuid and number; empty text means that a member is not set. */
function fieldsOf(body: unknown, { nulls = false } = {}): Record<string, unknown> {
  if (!isObject(body)) throw invalid('body: must be an object');
  const { uuid: _uuid, id: _id, nodes: _nodes, ...fields } = body;
  const isUnset = (value: unknown) => value === '' || value === null;
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, value]) => nulls || !isUnset(value))
      .map(([key, value]) => [key, isUnset(value) ? null : value]),
  );
}

function requireSameName(name: string, stored: string): void {
  if (name !== stored) throw invalid(`name: ${quoted(name)}; is immutable and is ${quoted(stored)}`, 'name');
}
