import { z } from 'zod';
import { BASE } from './base.ts';
import { type AnyRoute, paramNames } from './route.ts';
import { errorShape } from './routes/shapes.ts';

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
  413: 'The body is too large',
  415: 'The body is of another type',
  500: 'A fault of the controller',
  501: 'Not available in this version',
  503: 'Not now; try again after Retry-After',
};

/** The OpenAPI 3.1 document of the routes. The same routes give the same document. */
export function openApiDocument(routes: readonly AnyRoute[], version = '3'): Json {
  const paths: Record<string, Json> = {};
  const tags = new Set<string>();
  for (const route of routes) {
    const path = `${BASE}${route.path}`;
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
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
      schemas: { Error: schemaOf(errorShape) },
      securitySchemes: {
        authToken: { type: 'http', scheme: 'bearer', description: 'Any bearer token that the cluster accepts.' },
      },
    },
  };
}

function operation(route: AnyRoute): Json {
  const { access, params, query, body, reply } = route;
  const permission = typeof access === 'object' ? `Needs \`${access.verb}\` on \`${access.resource}\`.` : undefined;
  const description = [route.description, permission].filter(Boolean).join('\n\n');
  const parameters = [...pathParameters(route.path, params), ...queryParameters(query)];
  return {
    operationId: route.operation,
    tags: [route.tag],
    summary: route.summary,
    ...(description && { description }),
    security: access === 'public' ? [] : [{ authToken: [] }],
    ...(typeof access === 'object' && { 'x-permission': { resource: access.resource, verb: access.verb } }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: requestBody(body) }),
    responses: {
      [reply.status]: {
        description: DESCRIPTION[reply.status],
        ...(reply.schema && { content: { 'application/json': { schema: schemaOf(reply.schema) } } }),
      },
      ...Object.fromEntries(statusesOf(route).map((status) => [status, refusal(status)])),
    },
  };
}

/** Refusals of every route, and those that this one adds. */
function statusesOf(route: AnyRoute): number[] {
  const isOpen = route.access === 'public';
  return [
    ...new Set([
      ...(isOpen ? [] : [401, 403]),
      ...(route.params || route.query || route.body ? [400] : []),
      ...(route.body ? [413, 415] : []),
      ...(route.errors ?? []),
      500,
      503,
    ]),
  ].sort();
}

const refusal = (status: number): Json => ({
  description: DESCRIPTION[status],
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
});

function pathParameters(path: string, params: z.ZodType | undefined): Json[] {
  const properties = params ? propertiesOf(schemaOf(params)) : {};
  return paramNames(path).map((name) => ({
    name,
    in: 'path',
    required: true,
    schema: properties[name] ?? { type: 'string' },
  }));
}

function queryParameters(query: z.ZodType | undefined): Json[] {
  if (!query) return [];
  return Object.entries(propertiesOf(schemaOf(query))).map(([name, schema]) => ({ name, in: 'query', schema }));
}

const propertiesOf = (schema: Json) => (schema.properties ?? {}) as Record<string, Json>;

function requestBody(body: NonNullable<AnyRoute['body']>): Json {
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

/** JSON Schema of what goes over the wire, without what only our CRDs understand. */
function schemaOf(schema: z.ZodType): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' });
  return withoutExtensions(json) as Json;
}

function withoutExtensions(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutExtensions);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !key.startsWith('x-'))
      .map(([key, member]) => [key, withoutExtensions(member)]),
  );
}
