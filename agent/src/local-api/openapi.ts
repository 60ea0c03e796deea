import { z } from 'zod';
import { type ApiOperation, documentOf } from '../../../src/api/openapi.ts';
import { ROUTES } from './routes.ts';
import { API_ERRORS } from './server/errors.ts';
import { formSchema } from './server/form.ts';
import type { LocalAccess, LocalRoute } from './server/route.ts';

/** What each error of the local API means, by its status. */
const ERRORS: Readonly<Record<number, { name: string; description: string }>> = {
  400: { name: 'InvalidArgument', description: 'Something about the request is wrong' },
  401: { name: 'Unauthorized', description: 'No valid token of this agent' },
  403: { name: 'Forbidden', description: 'Not allowed, or not served by this listener' },
  404: { name: 'NotFound', description: 'Something that the path names does not exist' },
  409: { name: 'Conflict', description: 'Not possible in the present state' },
  413: { name: 'PayloadTooLarge', description: 'The body is too large' },
  500: { name: 'Internal', description: 'A fault of the agent' },
  501: { name: 'NotImplemented', description: 'Not available in this version' },
  503: { name: 'Unavailable', description: 'The container engine is not connected, or the disk takes no writes' },
  504: { name: 'ExecStartTimeout', description: 'The program of a terminal does not run after 15 s' },
};

/** Which tokens open a route. */
const SECURITY = { open: [], admin: ['admin'], workload: ['microservice'] } as const;
const isGrant = (access: LocalAccess) => typeof access === 'object';

const errorSchema = () =>
  z.object({
    success: z.literal(false),
    error: z.object({
      code: z.enum(Object.keys(API_ERRORS)),
      message: z.string(),
      details: z.record(z.string(), z.unknown()).optional(),
      requestId: z.string(),
    }),
  });

/** The OpenAPI document of the local API, docs/local-api.openapi.json. The agent itself does not need it, and does not load this file. */
export const localApiDocument = () =>
  documentOf({
    info: {
      title: 'Local API of the Skerry agent',
      version: '1',
      description:
        'The API of an agent on its own machine (docs/spec/agent-local-api.md), on a unix socket that only its owner can open. Probes, and the routes of microservices, also over TCP.',
    },
    securitySchemes: {
      admin: { type: 'http', scheme: 'bearer', description: 'The admin token, from the file beside the socket' },
      microservice: { type: 'http', scheme: 'bearer', description: 'The token in the container of a microservice' },
    },
    operations: ROUTES.map(operation),
    error: { schema: errorSchema(), responses: ERRORS },
  });

function operation(route: LocalRoute): ApiOperation {
  const { method, path, operation: id, tag, summary, access, query, body, form, errors = [] } = route;
  return {
    ...{ method, path, id, tag, summary },
    ...(isGrant(access) && {
      description: `The role of a microservice may grant it: \`${access.verb}\` on \`${access.resource}\`.`,
    }),
    security: isGrant(access) ? ['admin', 'microservice'] : SECURITY[access],
    query: query?.(),
    ...(body && { body: { required: !body().safeParse({}).success, content: { 'application/json': body() } } }),
    ...(form && { body: { required: true, content: { 'multipart/form-data': formSchema() } } }),
    replies: repliesOf(route),
    errors: [
      ...(access === 'open' ? [] : [401, 403]),
      ...(query || body || form ? [400] : []),
      ...(body || form ? [413] : []),
      ...errors,
      500,
    ],
  };
}

const OTHERS = { 202: 'Begun', 503: 'Not ready' } as const;

function repliesOf({ reply, socket }: LocalRoute): ApiOperation['replies'] {
  if (!reply) return { 101: { description: `A WebSocket: ${socket}` } };
  const { form, schema, line, status } = reply;
  const data = schema();
  const content =
    typeof form === 'object'
      ? { [form.text.split(';')[0] as string]: data }
      : {
          'application/json': form === 'envelope' ? z.object({ success: z.literal(true), data }) : data,
          ...(line && { 'application/x-ndjson': line() }),
        };
  const done = { 200: { description: line ? 'Done; with `follow` a line for each entry' : 'Done', content } };
  if (status === 202) return { 202: { description: OTHERS[202], content } };
  return status ? { ...done, [status.other]: { description: OTHERS[status.other], content } } : done;
}
