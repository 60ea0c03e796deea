import { invalid } from './errors.ts';

/** What the audit log keeps of one request that changed something, or of one socket (docs/resources/events.md). */
export interface AuditEvent {
  id: number;
  /** Unix ms */
  timestamp: number;
  eventType: (typeof EVENT_TYPES)[number];
  endpointType: (typeof ENDPOINT_TYPES)[number];
  /** user of the token; empty for a request without a valid one */
  actorId: string;
  method: string;
  resourceType: string;
  resourceId: string;
  /** without the query */
  endpointPath: string;
  /** empty when addresses are not recorded */
  ipAddress: string;
  status: (typeof EVENT_STATUSES)[number];
  statusCode: number;
  statusMessage: string;
  requestId: string;
}

export const EVENT_TYPES = ['HTTP', 'WS_CONNECT', 'WS_DISCONNECT', 'SUMMARY'] as const;
export const ENDPOINT_TYPES = ['user', 'agent'] as const;
export const EVENT_STATUSES = ['SUCCESS', 'FAILED'] as const;
export const EVENT_METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** Bounds of the audit log: what it costs is theirs, whatever callers do. */
export const AUDIT_BOUNDS = {
  /** age of the oldest event */
  days: 7,
  /** characters of a text */
  text: 256,
  /** requests of one caller that are recorded one by one */
  perCaller: { burst: 2_000, perSecond: 1 },
  /** events that wait for the next write; further ones are counted */
  waiting: 500,
  /** time between two writes of a replica, ms */
  writeMs: 10_000,
  /** events, compressed bytes and age of one segment, and the number of segments of an installation */
  segmentEvents: 2_000,
  segmentBytes: 128 * 1024,
  segmentMs: 6 * 3_600_000,
  segments: 64,
  /** offset of a read */
  offset: 100_000,
} as const;

export const DAY_MS = 86_400_000;

/** What a read asks for. */
export interface EventQuery {
  limit: number;
  offset: number;
  /** Unix ms, inclusive */
  startTime?: number;
  endTime?: number;
  endpointType?: string;
  resourceType?: string;
  status?: string;
  method?: readonly string[];
  actorId?: string;
  eventType?: string;
}

/** Seconds or milliseconds since 1970, or a date as in ISO 8601. Throws DomainError. */
export function readTime(text: string, field: string): number {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : undefined;
  // A number of seconds reaches this bound in the year 5138, one of milliseconds did in 1973.
  if (number !== undefined) return number < 100_000_000_000 ? number * 1000 : number;
  const date = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(date))
    throw invalid(
      `${field}: ${JSON.stringify(text.slice(0, 64))}; must be seconds or milliseconds since 1970, or a date such as 2026-01-31T08:00:00Z`,
      field,
    );
  return date;
}

const EQUAL = ['endpointType', 'resourceType', 'status', 'actorId', 'eventType'] as const;

const isAsked = (event: AuditEvent, query: EventQuery): boolean =>
  event.timestamp >= (query.startTime ?? 0) &&
  event.timestamp <= (query.endTime ?? Number.POSITIVE_INFINITY) &&
  (!query.method || query.method.includes(event.method)) &&
  EQUAL.every((field) => query[field] === undefined || query[field] === event[field]);

const newestFirst = (a: AuditEvent, b: AuditEvent) => b.timestamp - a.timestamp || b.id - a.id;

/** Collects one page of the newest events out of many, in bounded memory. */
export function createPage(query: EventQuery) {
  const needed = query.offset + query.limit;
  let total = 0;
  let kept: AuditEvent[] = [];
  const prune = () => {
    kept = kept.sort(newestFirst).slice(0, needed);
  };
  return {
    add(events: Iterable<AuditEvent>) {
      for (const event of events) {
        if (!isAsked(event, query)) continue;
        total++;
        kept.push(event);
        if (kept.length >= 2 * needed + 1_000) prune();
      }
    },
    result() {
      prune();
      return { events: kept.slice(query.offset), total, limit: query.limit, offset: query.offset };
    },
  };
}

/** The event as v3 shows it. */
export const eventRead = (event: AuditEvent) => {
  const at = new Date(event.timestamp).toISOString();
  return { ...event, createdAt: at, updatedAt: at };
};

/** Requests that were counted instead of recorded. */
export interface Uncounted {
  actorId: string;
  count: number;
  failed: number;
  since: number;
}

/** One event for the requests of a caller that exceeded a bound. */
export function summaryEvent(
  { actorId, count, failed, since }: Uncounted,
  { id, timestamp }: { id: number; timestamp: number },
): AuditEvent {
  return {
    id,
    timestamp,
    eventType: 'SUMMARY',
    endpointType: 'user',
    actorId,
    method: '',
    resourceType: '',
    resourceId: '',
    endpointPath: '',
    ipAddress: '',
    status: failed === 0 ? 'SUCCESS' : 'FAILED',
    statusCode: 0,
    statusMessage: `${count} more requests since ${new Date(since).toISOString()}, ${failed} of them failed`,
    requestId: '',
  };
}

/** An event whose texts are as long as the log allows. */
export const bounded = (event: AuditEvent): AuditEvent =>
  Object.fromEntries(
    Object.entries(event).map(([key, value]) => [
      key,
      typeof value === 'string' && value.length > AUDIT_BOUNDS.text ? value.slice(0, AUDIT_BOUNDS.text) : value,
    ]),
  ) as unknown as AuditEvent;
