import { invalid } from './errors.ts';

/** What the audit log keeps of one request that changed something, or of one socket (docs/resources/events.md). */
export interface AuditEvent {
  id: number;
  /** Unix ms */
  timestamp: number;
  eventType: (typeof EVENT_TYPES)[number];
  endpointType: (typeof ENDPOINT_TYPES)[number];
  /** user of the token, or the uuid of the node; empty for a request without a valid token */
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
  /**
   * What of one caller is recorded one by one: 2,000 events, then 1,000 a day. In seven days that is a fourteenth of what the
   * log keeps. Requests without a valid token are never recorded one by one.
   */
  perCaller: { burst: 2_000, perSecond: 1_000 / 86_400 },
  /**
   * The same of one node, and of all nodes together: in seven days less than a third of what the log keeps, so that no number
   * of nodes pushes out what users did.
   */
  perNode: { burst: 20, perSecond: 20 / 86_400 },
  ofAllNodes: { burst: 5_000, perSecond: 5_000 / 86_400 },
  /** characters that a request chose; an event with more counts as several, since the log is bounded in bytes, too */
  chosenText: 128,
  /** events that wait for the next write, of all users, of all nodes and of one caller; further ones are counted */
  waiting: { user: 500, agent: 250 },
  waitingOfOne: 250,
  /** time that one summary of a caller covers */
  summaryMs: 600_000,
  /** time between two writes of a replica, ms */
  writeMs: 10_000,
  /** events, compressed bytes and age of one segment, before the next one is begun */
  segmentEvents: 2_000,
  segmentBytes: 128 * 1024,
  segmentMs: 6 * 3_600_000,
  /** events and compressed bytes of all segments of an installation; the oldest segments beyond either go */
  events: 128_000,
  bytes: 8 * 2 ** 20,
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

/** Tells events apart: numbers that two processes gave can be equal. Of one summary it is the same while the summary counts. */
export const eventKey = ({ id, actorId, requestId, method, endpointPath, resourceId }: AuditEvent): string =>
  [id, actorId, requestId, method, endpointPath, resourceId].join(' ');

/** A segment as the rules of its age and size see it. */
interface SegmentSize {
  /** Unix ms */
  begunAt: number;
  /** compressed */
  bytes: number;
  /** how many events it has */
  count: number;
}

/** Whether events are added to the segment. One with a time far ahead is not ours, or of a machine whose clock was wrong. */
export const takesEvents = ({ begunAt, bytes, count }: SegmentSize, now: number): boolean =>
  Math.abs(now - begunAt) < AUDIT_BOUNDS.segmentMs &&
  bytes < AUDIT_BOUNDS.segmentBytes &&
  count < AUDIT_BOUNDS.segmentEvents;

/** Tells of one segment after another, the newest first, whether it is beyond the bounds of the log. */
export function createRetention(now: number): (segment: SegmentSize) => boolean {
  let [events, bytes] = [0, 0];
  return (segment) => {
    events += segment.count;
    bytes += segment.bytes;
    const isOld = segment.begunAt + AUDIT_BOUNDS.segmentMs < now - AUDIT_BOUNDS.days * DAY_MS;
    return isOld || events > AUDIT_BOUNDS.events || bytes > AUDIT_BOUNDS.bytes;
  };
}

const EQUAL = ['endpointType', 'resourceType', 'status', 'actorId', 'eventType'] as const;

const isAsked = (event: AuditEvent, query: EventQuery): boolean =>
  event.timestamp >= (query.startTime ?? 0) &&
  event.timestamp <= (query.endTime ?? Number.POSITIVE_INFINITY) &&
  (!query.method || query.method.includes(event.method)) &&
  EQUAL.every((field) => query[field] === undefined || query[field] === event[field]);

type Place = Pick<AuditEvent, 'id' | 'timestamp'>;
const newestFirst = (a: Place, b: Place) => b.timestamp - a.timestamp || b.id - a.id;

/** A page of events, newest first. */
export interface EventPage {
  events: AuditEvent[];
  total: number;
  limit: number;
  offset: number;
}

/** Reads a part of the log. */
type Part = () => Promise<readonly AuditEvent[]>;

/**
 * Makes a page out of the parts of a log, which are read one after another, those with events of the page twice: what is kept
 * of the other events is only where they are.
 */
export async function createPage(query: EventQuery, parts: AsyncIterable<Part>): Promise<EventPage> {
  const { limit, offset } = query;
  const places: (Place & { part: Part })[] = [];
  for await (const part of parts)
    for (const event of await part())
      if (isAsked(event, query)) places.push({ id: event.id, timestamp: event.timestamp, part });
  const total = places.length;
  const wanted = Map.groupBy(places.sort(newestFirst).slice(offset, offset + limit), ({ part }) => part);
  const events: AuditEvent[] = [];
  for (const [part, found] of wanted) {
    const ids = new Set(found.map(({ id }) => id));
    for (const event of await part()) if (ids.has(event.id)) events.push(event);
  }
  return { events: events.sort(newestFirst), total, limit, offset };
}

/** The event as v3 shows it. */
export const eventRead = (event: AuditEvent) => {
  const at = new Date(event.timestamp).toISOString();
  return { ...event, createdAt: at, updatedAt: at };
};

/** How many events the event counts as: 1 unless its request chose long texts. */
export const weightOf = ({ resourceId, endpointPath, requestId }: Omit<AuditEvent, 'id' | 'timestamp'>): number =>
  Math.max(1, (resourceId.length + endpointPath.length + requestId.length) / AUDIT_BOUNDS.chosenText);

/** Requests that were counted instead of recorded. */
export interface Uncounted {
  id: number;
  endpointType: AuditEvent['endpointType'];
  actorId: string;
  count: number;
  failed: number;
  since: number;
}

/** One event for the requests of a caller that exceeded a bound. */
export function summaryEvent({ id, endpointType, actorId, count, failed, since }: Uncounted): AuditEvent {
  return {
    id,
    timestamp: since,
    eventType: 'SUMMARY',
    endpointType,
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
export const boundedEvent = (event: AuditEvent): AuditEvent =>
  Object.fromEntries(
    Object.entries(event).map(([key, value]) => [
      key,
      typeof value === 'string' && value.length > AUDIT_BOUNDS.text ? value.slice(0, AUDIT_BOUNDS.text) : value,
    ]),
  ) as unknown as AuditEvent;
