import { z } from 'zod';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { type Call, grouped, route, type TaggedRoute } from '../../../rest/contract/route.ts';
import * as shapes from '../../../rest/crud/shapes.ts';
import { readDocument, requireName } from '../../../rules/document.ts';

/** What the work on a role or a binding needs of a request. */
export type Changing = Pick<Call, 'deps' | 'caller' | 'signal'>;

/** What differs between roles and role bindings, as REST serves them. */
interface RbacTable<Body extends z.ZodType, Changes extends z.ZodType, Shape extends z.ZodType> {
  kind: 'Role' | 'RoleBinding';
  /** the kind for people: `role binding` */
  noun: string;
  /** of the paths, and of permissions */
  resource: 'roles' | 'rolebindings';
  /** keys of the stores that have to be complete */
  needs: readonly string[];
  /** members of a document beside its metadata */
  topLevel: readonly string[];
  body: Body;
  changes: Changes;
  shape: Shape;
  about: { list?: string; change: string };
  /** statuses with which a deletion is refused */
  deletion: readonly number[];
  list(deps: RestDependencies): z.input<Shape>[];
  get(call: Changing, name: string): Promise<z.input<Shape>>;
  create(call: Changing, body: unknown): Promise<z.input<Shape>>;
  change(call: Changing, name: string, body: unknown): Promise<z.input<Shape>>;
  remove(call: Changing, name: string): Promise<undefined>;
}

/** The seven routes of roles, or of role bindings. */
export function rbacRoutes<Body extends z.ZodType, Changes extends z.ZodType, Shape extends z.ZodType>(
  table: RbacTable<Body, Changes, Shape>,
): readonly TaggedRoute[] {
  const { kind, noun, resource, body, changes, shape, about } = table;
  const path = `/${resource}`;
  const needs = () => table.needs;
  const access = (verb: 'get' | 'patch' | 'delete') => ({ resource, verb, name: 'name' });
  const named = { params: shapes.nameParam, needs };
  const upload = { kind: 'file', part: kind.toLowerCase(), members: body } as const;
  const json = <T extends z.ZodType>(documents: T, id: string) => ({
    ...({ kind: 'json', schema: shapes.anyObject, documents: documents.meta({ id }), shows: shape } as const),
  });
  const reply = { status: 200, schema: shape } as const;
  const created = { status: 201, schema: shape } as const;
  /** The JSON body that is equivalent to a document. */
  const readFile = (document: unknown, name?: string) => {
    const { metadata, spec } = readDocument(document, kind, { topLevel: table.topLevel, isClosed: true });
    requireName(metadata.name, name, 'metadata.name');
    return { name: metadata.name, ...spec };
  };

  return grouped(`${noun.charAt(0).toUpperCase()}${noun.slice(1)}s`, [
    route({
      method: 'GET',
      path,
      operation: `list${kind}s`,
      summary: `All ${noun}s`,
      ...(about.list !== undefined && { description: about.list }),
      access: { resource, verb: 'list' },
      needs,
      reply: { status: 200, schema: z.array(shape) },
      handler: ({ deps }) => table.list(deps),
    }),
    route({
      method: 'POST',
      path,
      operation: `create${kind}`,
      summary: `Create a ${noun}`,
      access: { resource, verb: 'create' },
      needs,
      body: json(body, `New${kind}`),
      reply: created,
      errors: [400, 409],
      handler: (call) => table.create(call, call.body),
    }),
    route({
      method: 'POST',
      path: `${path}/yaml`,
      operation: `create${kind}FromYaml`,
      summary: `Create a ${noun} from a file`,
      description: `A document of kind ${kind}.`,
      access: { resource, verb: 'create' },
      needs,
      body: upload,
      reply: created,
      errors: [400, 409],
      handler: (call) => table.create(call, readFile(call.document)),
    }),
    route({
      method: 'GET',
      path: `${path}/{name}`,
      operation: `get${kind}`,
      summary: `One ${noun}`,
      access: access('get'),
      ...named,
      reply,
      handler: (call) => table.get(call, call.params.name),
    }),
    route({
      method: 'PATCH',
      path: `${path}/{name}`,
      operation: `update${kind}`,
      summary: about.change,
      access: access('patch'),
      ...named,
      body: json(changes, `${kind}Changes`),
      reply,
      errors: [400, 404, 409],
      handler: (call) => table.change(call, call.params.name, call.body),
    }),
    route({
      method: 'PATCH',
      path: `${path}/yaml/{name}`,
      operation: `update${kind}FromYaml`,
      summary: `Change a ${noun} from a file`,
      access: access('patch'),
      ...named,
      body: upload,
      reply,
      errors: [400, 404, 409],
      handler: (call) => table.change(call, call.params.name, readFile(call.document, call.params.name)),
    }),
    route({
      method: 'DELETE',
      path: `${path}/{name}`,
      operation: `delete${kind}`,
      summary: `Delete a ${noun}`,
      access: access('delete'),
      ...named,
      reply: { status: 204 },
      errors: table.deletion,
      handler: (call) => table.remove(call, call.params.name),
    }),
  ]);
}
