import { z } from 'zod';
import { parameterNames } from '../lib/path-pattern.ts';

type Json = Record<string, unknown>;

/** One operation of an API, without anything that is particular to that API. */
export interface ApiOperation {
  method: string;
  /** parameters in braces */
  path: string;
  /** unique */
  id: string;
  tag: string;
  summary: string;
  description?: string;
  /** names of the security schemes of which one is needed; empty for an operation without a token */
  security: readonly string[];
  params?: z.ZodType;
  query?: z.ZodType;
  body?: { required: boolean; content: Content };
  /** by status */
  replies: Readonly<Record<number, { description: string; content?: Content }>>;
  /** statuses of errors */
  errors: readonly number[];
  /** further members, such as `x-internal` */
  extensions?: Json;
}

/** Schemas by media type. */
type Content = Readonly<Record<string, z.ZodType>>;

/** An API as a whole. */
export interface Api {
  info: { title: string; version: string; description: string };
  securitySchemes: Json;
  operations: readonly ApiOperation[];
  error: {
    schema: z.ZodType;
    /** by status: the name of the shared response, and what it means */
    responses: Readonly<Record<number, { name: string; description: string }>>;
  };
}

/** The OpenAPI 3.1 document of an API. The same operations give the same document. */
export function documentOf({ info, securitySchemes, operations, error }: Api): Json {
  const paths: Record<string, Json> = {};
  const named: Record<string, Json> = {};
  const schemaOf = (schema: z.ZodType) => jsonSchema(schema, named);
  for (const one of operations)
    paths[one.path] = { ...paths[one.path], [one.method.toLowerCase()]: describe(one, error.responses, schemaOf) };
  const errorContent = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } };
  return {
    openapi: '3.1.0',
    info,
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    tags: [...new Set(operations.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: {
        Error: schemaOf(error.schema),
        ...Object.fromEntries(Object.entries(named).sort(([a], [b]) => (a < b ? -1 : 1))),
      },
      responses: Object.fromEntries(
        Object.values(error.responses).map(({ name, description }) => [name, { description, content: errorContent }]),
      ),
      securitySchemes,
    },
  };
}

type SchemaOf = (schema: z.ZodType) => Json;

function describe(one: ApiOperation, responses: Api['error']['responses'], schemaOf: SchemaOf): Json {
  const contentOf = (content: Content) =>
    Object.fromEntries(Object.entries(content).map(([type, schema]) => [type, { schema: schemaOf(schema) }]));
  const properties = (schema: z.ZodType | undefined) =>
    ((schema && schemaOf(schema))?.properties ?? {}) as Record<string, Json>;
  const inPath = properties(one.params);
  const parameters = [
    ...parameterNames(one.path).map((name) => ({
      ...{ name, in: 'path', required: true },
      schema: inPath[name] ?? { type: 'string' },
    })),
    ...Object.entries(properties(one.query)).map(([name, schema]) => ({ name, in: 'query', schema })),
  ];
  return {
    operationId: one.id,
    tags: [one.tag],
    summary: one.summary,
    ...(one.description && { description: one.description }),
    security: one.security.map((name) => ({ [name]: [] })),
    ...one.extensions,
    ...(parameters.length > 0 && { parameters }),
    ...(one.body && { requestBody: { required: one.body.required, content: contentOf(one.body.content) } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(one.replies).map(([status, { description, content }]) => [
          status,
          { description, ...(content && { content: contentOf(content) }) },
        ]),
      ),
      ...Object.fromEntries(
        [...new Set(one.errors)]
          .sort((a, b) => a - b)
          .map((status) => [status, { $ref: `#/components/responses/${responses[status]?.name}` }]),
      ),
    },
  };
}

/** The JSON Schema of a message. Schemas with an id are put into `named` and referred to. */
function jsonSchema(schema: z.ZodType, named: Record<string, Json>): Json {
  const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' });
  const { $schema: _, $defs = {}, ...rest } = forApi(json) as Json & { $defs?: Record<string, Json> };
  const { id, ...own } = rest as Json & { id?: string };
  for (const [name, { id: _id, ...definition }] of Object.entries($defs)) named[name] = definition;
  if (typeof id !== 'string') return own;
  named[id] = own;
  return { $ref: `#/components/schemas/${id}` };
}

/** Adapts references to OpenAPI and removes keywords that only CRDs have. */
function forApi(value: unknown, key = ''): unknown {
  if (key === '$ref' && typeof value === 'string') return value.replace('#/$defs/', '#/components/schemas/');
  if (Array.isArray(value)) return value.map((item) => forApi(item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !name.startsWith('x-'))
      .map(([name, member]) => [name, forApi(member, name)]),
  );
}
