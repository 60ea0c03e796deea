import { z } from 'zod';
import type { ResourceDefinition } from '../../../api/meta.ts';
import type { KindObject } from '../../../kinds/object.ts';
import type { plainTranslation } from '../../../kinds/plain.ts';
import { type KindCrud, plainShapes } from '../../../kinds/rest.ts';
import type { BuiltIn } from '../../../rules/built-in.ts';
import { isObject } from '../../../rules/document.ts';
import { v3Name } from '../../../rules/names.ts';
import { reservedRuleError } from '../rules/reserved-rules.ts';

interface RuleRoutes<T extends KindObject> {
  path: string;
  /** name of the file part */
  part: string;
  resource: ResourceDefinition;
  schema: z.ZodObject;
  translation: ReturnType<typeof plainTranslation<T>>;
  reserved: readonly BuiltIn<object>[];
  /** the body with the members of the spec */
  spelled: (body: unknown) => unknown;
}

/** The routes of a kind of bus rules. A JSON PATCH keeps what it does not name, a file replaces the rule. */
export function ruleCrud<T extends KindObject>(options: RuleRoutes<T>): KindCrud<T> {
  const { path, part, resource, schema, translation, reserved } = options;
  const isSystem = (rule: T) => reservedRuleError(reserved, v3Name(rule)) !== undefined;
  const requireFree = (name: unknown) => {
    const error = reservedRuleError(reserved, name);
    if (error) throw error;
  };
  /** A body may repeat that a rule is none of the system. */
  const fieldsOf = (body: unknown) => {
    if (!isObject(body) || body.isSystem !== false) return options.spelled(body);
    const { isSystem: _isSystem, ...fields } = body;
    return options.spelled(fields);
  };
  return {
    path,
    list: 'rules',
    listed: `${part}s`,
    replies: {
      create: { status: 201, body: 'object' },
      change: { status: 200, body: 'object' },
      delete: { status: 204 },
    },
    shapes: shapesOf(resource, schema),
    // Subjects are no expressions.
    templated: false,
    texts: {
      list: {
        summary: `All rules of ${part === 'busUserRule' ? 'bus users' : 'bus accounts'}, those of the system included`,
      },
      change: { description: 'Members that are absent stay; null removes one.' },
      delete: { description: 'Accounts or users with the rule get the default one.' },
    },
    ...translation,
    fromBody(body) {
      requireFree(isObject(body) ? body.name : undefined);
      return translation.fromBody(fieldsOf(body));
    },
    patch(rule, body) {
      requireFree(v3Name(rule));
      return translation.patch(rule, fieldsOf(body));
    },
    read: (rule, find) => ({ ...translation.read(rule, find), isSystem: isSystem(rule) }),
    undeletable: (rule) => reservedRuleError(reserved, v3Name(rule)),
    upload: { part, update: 'PATCH', replaces: true },
  };
}

function shapesOf(resource: ResourceDefinition, schema: z.ZodObject) {
  const shapes = plainShapes(resource, z.object(schema.shape));
  const read = shapes.read as z.ZodObject;
  return { ...shapes, read: read.extend({ isSystem: z.boolean().optional() }).meta({ id: resource.kind }) as never };
}
