import { z } from 'zod';
import { BASE } from '../contract/base.ts';
import { type AnyRoute, paramNames } from '../contract/route.ts';
import { errorShape } from '../crud/shapes.ts';

type Json = Record<string, unknown>;

const DESCRIPTION: Readonly<Record<number, string>> = {
  200: 'Done',
  201: 'Created',
  202: 'Accepted',
  204: 'Done; no body',
  400: 'Something about the request is wrong',
  401: 'No valid token',
  403: 'Not allowed',
  404: 'Something the path or the body names does not exist',
  409: 'It exists, is in use, or changed at the same time',
  413: 'The body is too large, or a budget of what is stored would be exceeded',
  415: 'The body is of another type',
  429: 'Asked too often; try again after Retry-After',
  500: 'A fault of the controller',
  501: 'Not available in this version',
  503: 'Not now; try again after Retry-After',
};

/** The OpenAPI 3.1 document of the routes. The same routes give the same document. */
export function openApiDocument(routes: readonly AnyRoute[], version = '3'): Json {
  const paths: Record<string, Json> = {};
  const tags = new Set<string>();
  const named: Record<string, Json> = {};
  const schemaOf = (schema: z.ZodType) => jsonSchema(schema, named);
  for (const route of routes) {
    const path = `${BASE}${route.path}`;
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route, schemaOf) };
    tags.add(route.tag);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Skerry REST API',
      version,
      description:
        'Runs containers on machines outside a Kubernetes cluster, steered from inside it. Every answer carries X-Timestamp (clock of the controller, Unix ms) and request-id.',
    },
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    tags: [...tags].map((name) => ({ name })),
    paths,
    components: {
      schemas: { Error: schemaOf(errorShape), ...sorted(named) },
      responses: refusals(),
      securitySchemes: {
        authToken: { type: 'http', scheme: 'bearer', description: 'Any bearer token that the cluster accepts.' },
      },
    },
  };
}

type SchemaOf = (schema: z.ZodType) => Json;

function operation(route: AnyRoute, schemaOf: SchemaOf): Json {
  const { access, params, query, body, reply } = route;
  const permission = typeof access === 'object' ? `Needs \`${access.verb}\` on \`${access.resource}\`.` : undefined;
  const description = [route.description, permission].filter(Boolean).join('\n\n');
  const parameters = [...pathParameters(route.path, params, schemaOf), ...queryParameters(query, schemaOf)];
  return {
    operationId: route.operation,
    tags: [route.tag],
    summary: route.summary,
    ...(description && { description }),
    security: access === 'public' ? [] : [{ authToken: [] }],
    // OpenAPI Generator and the bundlers of Redocly omit operations with this member.
    ...(route.isLater && { 'x-internal': true }),
    ...(typeof access === 'object' && { 'x-permission': { resource: access.resource, verb: access.verb } }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: requestBody(body, schemaOf) }),
    responses: {
      [reply.status]: {
        description: DESCRIPTION[reply.status],
        ...(reply.schema && { content: { 'application/json': { schema: schemaOf(reply.schema) } } }),
      },
      ...Object.fromEntries(statusesOf(route).map((status) => [status, refusal(status)])),
    },
  };
}

/** The error statuses of every route, and those of this route. */
function statusesOf(route: AnyRoute): number[] {
  const isOpen = route.access === 'public';
  return [
    ...new Set([
      ...(isOpen ? [] : [401, 403]),
      ...(isOpen && !route.guessable ? [] : [429]),
      ...(paramNames(route.path).length > 0 || route.query || route.body ? [400] : []),
      ...(route.body ? [413, 415] : []),
      ...(route.errors ?? []),
      500,
      503,
    ]),
  ].sort();
}

const RESPONSE: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthenticated',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  413: 'TooLarge',
  415: 'UnsupportedType',
  429: 'TooOften',
  500: 'Fault',
  501: 'NotAvailable',
  503: 'Unavailable',
};
const refusal = (status: number): Json => ({ $ref: `#/components/responses/${RESPONSE[status]}` });

const refusals = (): Json =>
  Object.fromEntries(
    Object.entries(RESPONSE).map(([status, name]) => [
      name,
      {
        description: DESCRIPTION[Number(status)],
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
      },
    ]),
  );

function pathParameters(path: string, params: z.ZodType | undefined, schemaOf: SchemaOf): Json[] {
  const properties = params ? propertiesOf(schemaOf(params)) : {};
  return paramNames(path).map((name) => ({
    name,
    in: 'path',
    required: true,
    schema: properties[name] ?? { type: 'string' },
  }));
}

function queryParameters(query: z.ZodType | undefined, schemaOf: SchemaOf): Json[] {
  if (!query) return [];
  return Object.entries(propertiesOf(schemaOf(query))).map(([name, schema]) => ({ name, in: 'query', schema }));
}

const propertiesOf = (schema: Json) => (schema.properties ?? {}) as Record<string, Json>;

function requestBody(body: NonNullable<AnyRoute['body']>, schemaOf: SchemaOf): Json {
  if (body.kind === 'json')
    return {
      required: !body.optional,
      content: { 'application/json': { schema: schemaOf(body.documents ?? body.schema) } },
    };
  const yaml = { schema: { type: 'string', description: 'A YAML document' } };
  return {
    required: true,
    content: {
      'multipart/form-data': {
        schema: {
          type: 'object',
          required: [body.part],
          properties: { [body.part]: { type: 'string', contentMediaType: 'application/yaml' } },
        },
      },
      'application/x-yaml': yaml,
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

const sorted = (map: Record<string, Json>) =>
  Object.fromEntries(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)));
