import { z } from 'zod';
import { replyShape as reply } from '../../kinds/rest.ts';
import {
  AUDIT_BOUNDS,
  DAY_MS,
  ENDPOINT_TYPES,
  EVENT_METHODS,
  EVENT_STATUSES,
  EVENT_TYPES,
  eventRead,
  readTime,
} from '../../rules/audit.ts';
import { grouped, route } from '../contract/route.ts';

const text = z.string().max(AUDIT_BOUNDS.text);
const time = z.string().max(64).describe('seconds or milliseconds since 1970, or a date as in ISO 8601');
const method = z.enum(EVENT_METHODS);
const count = z.number().int();

const eventShape = reply(
  {
    id: count,
    timestamp: count.describe('Unix ms'),
    eventType: z.enum(EVENT_TYPES),
    endpointType: z.enum(ENDPOINT_TYPES),
    actorId: z.string(),
    method: z.string(),
    resourceType: z.string(),
    resourceId: z.string(),
    endpointPath: z.string(),
    ipAddress: z.string(),
    status: z.enum(EVENT_STATUSES),
    statusCode: count,
    statusMessage: z.string(),
    requestId: z.string(),
    createdAt: z.string(),
    updatedAt: z.string(),
  },
  'Event',
);

export const eventRoutes = grouped('Events', [
  route({
    method: 'GET',
    path: '/events',
    operation: 'listEvents',
    summary: 'Who changed what, newest first',
    description:
      'Requests that changed something, or tried to. What another replica recorded is shown within seconds; what is older than seven days is removed.',
    access: { resource: 'events', verb: 'list' },
    query: z.strictObject({
      limit: z.coerce.number().int().min(1).max(1000).default(200).describe('most events of a page'),
      offset: z.coerce.number().int().min(0).max(AUDIT_BOUNDS.offset).default(0).describe('events before the page'),
      startTime: time.optional(),
      endTime: time.optional(),
      endpointType: z.enum(ENDPOINT_TYPES).optional(),
      resourceType: text.optional(),
      status: z.enum(EVENT_STATUSES).optional(),
      method: z.union([method, z.array(method).max(EVENT_METHODS.length)]).optional(),
      actorId: text.optional(),
      eventType: z.enum(EVENT_TYPES).optional(),
    }),
    reply: {
      status: 200,
      schema: reply({ events: z.array(eventShape), total: count, limit: count, offset: count }),
    },
    async handler({ deps, query, signal }) {
      const { startTime, endTime, method, ...rest } = query;
      const page = await deps.audit.read(
        {
          ...rest,
          ...(startTime !== undefined && { startTime: readTime(startTime, 'startTime') }),
          ...(endTime !== undefined && { endTime: readTime(endTime, 'endTime') }),
          ...(method !== undefined && { method: [method].flat() }),
        },
        signal,
      );
      return { ...page, events: page.events.map(eventRead) };
    },
  }),
  route({
    method: 'DELETE',
    path: '/events',
    operation: 'deleteEvents',
    summary: 'Remove events that are older than some days, or all with 0',
    access: { resource: 'events', verb: 'delete' },
    body: { kind: 'json', schema: z.strictObject({ days: z.number().int().min(0).max(365) }) },
    reply: {
      status: 200,
      schema: reply({
        deletedCount: count,
        deletedBefore: z.string().nullable(),
        deletedAt: z.string(),
        deletedAll: z.boolean(),
      }),
    },
    async handler({ deps, body, signal }) {
      const now = deps.clock();
      const deletedAll = body.days === 0;
      const before = deletedAll ? Number.POSITIVE_INFINITY : now - body.days * DAY_MS;
      return {
        deletedCount: await deps.audit.removeBefore(before, signal),
        deletedBefore: deletedAll ? null : new Date(before).toISOString(),
        deletedAt: new Date(now).toISOString(),
        deletedAll,
      };
    },
  }),
]);
