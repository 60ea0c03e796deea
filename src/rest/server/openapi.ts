import { z } from 'zod';
import { type ApiOperation, documentOf } from '../../api/openapi.ts';
import { parameterNames } from '../../lib/path-pattern.ts';
import { BASE } from '../contract/base.ts';
import type { AnyRoute, TaggedRoute } from '../contract/route.ts';
import { errorShape } from '../crud/shapes.ts';

const DONE: Readonly<Record<AnyRoute['reply']['status'], string>> = {
  200: 'Done',
  201: 'Created',
  202: 'Accepted',
  204: 'Done; no body',
  302: 'Leads elsewhere, by the header Location',
};

/** What each error of REST means, by its status. */
const ERRORS: Readonly<Record<number, { name: string; description: string }>> = {
  400: { name: 'BadRequest', description: 'Something about the request is wrong' },
  401: { name: 'Unauthenticated', description: 'No valid token' },
  403: { name: 'Forbidden', description: 'Not allowed' },
  404: { name: 'NotFound', description: 'Something the path or the body names does not exist' },
  409: { name: 'Conflict', description: 'It exists, is in use, or changed at the same time' },
  413: { name: 'TooLarge', description: 'The body is too large, or a budget of what is stored would be exceeded' },
  415: { name: 'UnsupportedType', description: 'The body is of another type' },
  429: { name: 'TooOften', description: 'Asked too often; try again after Retry-After' },
  431: { name: 'HeadersTooLarge', description: 'The path, its query and the headers are longer than 16 KiB together' },
  500: { name: 'Fault', description: 'A fault of the controller' },
  501: { name: 'NotAvailable', description: 'Not available in this version' },
  503: { name: 'Unavailable', description: 'Not now; try again after Retry-After' },
};

/** The OpenAPI document of REST, docs/openapi.json. */
export const openApiDocument = (routes: readonly TaggedRoute[]) =>
  documentOf({
    info: {
      title: 'Skerry REST API',
      version: '3',
      description:
        'Runs containers on machines outside a Kubernetes cluster, steered from inside it. Every answer carries X-Timestamp (clock of the controller, Unix ms) and request-id.',
    },
    securitySchemes: {
      authToken: { type: 'http', scheme: 'bearer', description: 'Any bearer token that the cluster accepts.' },
    },
    operations: routes.map(operation),
    error: { schema: errorShape, responses: ERRORS },
  });

function operation(route: TaggedRoute): ApiOperation {
  const { method, path, operation: id, tag, summary, access, params, query, body, reply } = route;
  const permission = typeof access === 'object' ? { resource: access.resource, verb: access.verb } : undefined;
  const needs = permission && `Needs \`${permission.verb}\` on \`${permission.resource}\`.`;
  return {
    ...{ method, path: `${BASE}${path}`, id, tag, summary, params, query },
    description: [route.description, needs].filter(Boolean).join('\n\n'),
    security: access === 'public' ? [] : ['authToken'],
    extensions: {
      ...(permission && { 'x-permission': permission }),
    },
    ...(body && { body: bodyOf(body) }),
    replies: {
      [reply.status]: {
        description: DONE[reply.status],
        ...(reply.schema && { content: { 'application/json': reply.schema } }),
      },
    },
    errors: statusesOf(route),
  };
}

/** The error statuses of every route, and of this route. */
function statusesOf({ method, access, guessable, path, query, body, errors }: AnyRoute): number[] {
  const isOpen = access === 'public';
  const isOfObject = parameterNames(path).length > 0;
  const mayConflict = method === 'POST' || (isOfObject && method !== 'GET' && method !== 'HEAD');
  return [
    ...(isOpen ? [] : [401, 403]),
    ...(isOpen && !guessable ? [] : [429]),
    ...(isOfObject || query || body ? [400] : []),
    ...(body ? [413, 415] : []),
    ...(errors ?? [...(isOfObject ? [404] : []), ...(mayConflict ? [409] : [])]),
    500,
    503,
  ];
}

function bodyOf(body: NonNullable<AnyRoute['body']>): NonNullable<ApiOperation['body']> {
  if (body.kind === 'json')
    return { required: !body.optional, content: { 'application/json': body.documents ?? body.schema } };
  const file = { type: 'string', contentMediaType: 'application/yaml' } as const;
  return {
    required: true,
    content: {
      'multipart/form-data': z
        .unknown()
        .meta({ type: 'object', required: [body.part], properties: { [body.part]: file } }),
      'application/x-yaml': z.string().meta({ description: 'A YAML document' }),
    },
  };
}
