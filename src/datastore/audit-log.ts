import { jittered } from '../lib/backoff.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { createTokenBuckets } from '../lib/token-bucket.ts';
import {
  AUDIT_BOUNDS,
  type AuditEvent,
  boundedEvent,
  createPage,
  createRetention,
  DAY_MS,
  type EventPage,
  type EventQuery,
  eventKey,
  summaryEvent,
  takesEvents,
  type Uncounted,
  weightOf,
} from '../rules/audit.ts';
import type { Segment, Segments } from './audit-segments.ts';

/**
 * The audit log (docs/decisions/2026-11-22-the-audit-log.md). `record` costs its caller nothing: events wait in memory for
 * the next write. Reads have the events of this replica at once, and those of others once they are written.
 */
export interface AuditLog extends AsyncDisposable {
  record(event: Omit<AuditEvent, 'id' | 'timestamp'>): void;
  read(query: EventQuery, signal: AbortSignal): Promise<EventPage>;
  /** Removes events that are older; resolves with their number. */
  removeBefore(time: number, signal: AbortSignal): Promise<number>;
  /** Writes what waits. Never rejects. */
  flush(): Promise<void>;
}

export interface AuditLogOptions {
  segments: Segments;
  log?: Log;
  metrics?: { audit?(outcome: 'recorded' | 'counted', count: number): void };
  clock?: Clock;
}

/** How often one write is tried while other replicas write at the same moment. */
const ATTEMPTS = 5;

/** Callers whose requests are counted apart; the others share one count. */
const MOST_CALLERS = 50;

/** Key of the count of all nodes: no user has this name. */
const NODES = ' nodes';

type Counted = Pick<AuditEvent, 'endpointType' | 'actorId' | 'status'>;

/** Longer than a hundred lines: all methods share what waits. */
export function createAuditLog(options: AuditLogOptions): AuditLog {
  const { segments, log = silentLog, metrics = {}, clock = systemClock } = options;
  const budget = createTokenBuckets({ clock, ...AUDIT_BOUNDS.perCaller });
  const ofNode = createTokenBuckets({ clock, ...AUDIT_BOUNDS.perNode });
  const ofAllNodes = createTokenBuckets({ clock, ...AUDIT_BOUNDS.ofAllNodes });
  /** the last read: they take turns, since each keeps the compressed log in memory */
  let reading: Promise<unknown> = Promise.resolve();
  let waiting: AuditEvent[] = [];
  const uncounted = new Map<string, Uncounted>();
  let counter = Math.floor(Math.random() * 1000);
  let writing: Promise<void> | undefined;
  let cancelTimer: (() => void) | undefined;
  let lastWrite = Number.NEGATIVE_INFINITY;
  let isOver = false;

  /** Grows with time, and differs between events of one millisecond. */
  const nextId = (timestamp: number) => timestamp * 1000 + (counter++ % 1000);

  function schedule() {
    if (cancelTimer || writing || isOver) return;
    const due = lastWrite + jittered(AUDIT_BOUNDS.writeMs, 0.1, Math.random) - clock.now();
    cancelTimer = clock.after(Math.max(1_000, due), () => {
      cancelTimer = undefined;
      void flush();
    });
  }

  function count({ endpointType, actorId: id, status }: Counted, timestamp: number) {
    // Nodes share one count, so that they leave the room for users.
    const actorId = endpointType === 'user' && (uncounted.has(id) || uncounted.size < MOST_CALLERS) ? id : '';
    const key = endpointType === 'user' ? actorId : NODES;
    const known = uncounted.get(key) ?? {
      id: nextId(timestamp),
      endpointType,
      actorId,
      count: 0,
      failed: 0,
      since: timestamp,
    };
    known.count++;
    if (status === 'FAILED') known.failed++;
    uncounted.set(key, known);
    metrics.audit?.('counted', 1);
  }

  function flush(): Promise<void> {
    writing ??= write()
      .catch((error: unknown) => log.warn({ err: error }, 'The audit log cannot be written'))
      .finally(() => {
        writing = undefined;
        lastWrite = clock.now();
        if (waiting.length > 0 || uncounted.size > 0) schedule();
      });
    return writing;
  }

  async function write() {
    const now = clock.wall();
    const batch = waiting;
    const summaries = [...uncounted].filter(([, { since }]) => isOver || since + AUDIT_BOUNDS.summaryMs <= now);
    const fresh = [...batch, ...summaries.map(([, one]) => summaryEvent(one))];
    if (fresh.length === 0) return;
    waiting = [];
    for (const [key] of summaries) uncounted.delete(key);
    try {
      await store(fresh, now);
      metrics.audit?.('recorded', fresh.length);
    } catch (error) {
      // They wait for the next write, as far as there is room.
      const all = [...batch, ...waiting];
      const room = { ...AUDIT_BOUNDS.waiting };
      waiting = all.filter((event) => room[event.endpointType]-- > 0);
      const kept = new Set(waiting);
      for (const event of all) if (!kept.has(event)) count(event, event.timestamp);
      for (const [key, one] of summaries) {
        const later = uncounted.get(key);
        uncounted.set(key, {
          ...one,
          count: one.count + (later?.count ?? 0),
          failed: one.failed + (later?.failed ?? 0),
        });
      }
      throw error;
    }
  }

  /**
   * Adds the events to the segment that takes some, whichever process began it: starts of processes begin none. An event of
   * an earlier write whose outcome was unclear replaces itself.
   */
  async function store(fresh: readonly AuditEvent[], now: number) {
    const keys = new Set(fresh.map(eventKey));
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const open = await findOpen(now);
      if (!open) {
        await segments.create(fresh, now);
        return clean(now, AbortSignal.timeout(60_000)).catch((err: unknown) =>
          log.warn({ err }, 'Old parts of the audit log cannot be removed'),
        );
      }
      const known = (await open.events()).filter((event) => !keys.has(eventKey(event)));
      if (await segments.replace(open, [...known, ...fresh])) return;
    }
    throw new Error(`other replicas wrote the audit log ${ATTEMPTS} times in between`);
  }

  /** Looks at the newest few segments, behind those from the future. */
  async function findOpen(now: number): Promise<Segment | undefined> {
    for await (const newest of segments.pages(AbortSignal.timeout(60_000))) {
      const open = newest.find((segment) => segment.isShared && takesEvents(segment, now));
      if (open || newest.some(({ begunAt }) => begunAt <= now)) return open;
    }
    return undefined;
  }

  /**
   * Whether the event is recorded: a caller without a valid token has no share, every other one has its own, and all nodes
   * together have one.
   */
  function hasRoom(event: AuditEvent): boolean {
    const { actorId, endpointType } = event;
    const alike = waiting.filter((other) => other.endpointType === endpointType);
    if (actorId === '' || alike.length >= AUDIT_BOUNDS.waiting[endpointType]) return false;
    if (endpointType === 'agent') return ofNode.take(actorId) && ofAllNodes.take(NODES);
    if (alike.filter((other) => other.actorId === actorId).length >= AUDIT_BOUNDS.waitingOfOne) return false;
    if (!budget.take(actorId)) return false;
    budget.charge(actorId, weightOf(event) - 1);
    return true;
  }

  async function read(query: EventQuery, signal: AbortSignal): Promise<EventPage> {
    await writing;
    const startTime = Math.max(query.startTime ?? 0, clock.wall() - AUDIT_BOUNDS.days * DAY_MS);
    const own = [...waiting, ...Array.from(uncounted.values(), summaryEvent)];
    const known = new Set(own.map(eventKey));
    async function* parts() {
      yield async () => own;
      for await (const found of segments.pages(signal))
        for (const segment of found) {
          // What it has was recorded, or counted, for a while before it was begun.
          if (segment.begunAt - 2 * AUDIT_BOUNDS.summaryMs > (query.endTime ?? Number.POSITIVE_INFINITY)) continue;
          // Events that waited when the read began may have been written since.
          yield async () => (await segment.events()).filter((event) => !known.has(eventKey(event)));
        }
    }
    return createPage({ ...query, startTime }, parts());
  }

  /** Removes segments beyond the bounds; every replica does when it begins one. */
  async function clean(now: number, signal: AbortSignal) {
    const isBeyond = createRetention(now);
    for await (const page of segments.pages(signal))
      for (const segment of page) if (isBeyond(segment)) await segments.remove(segment);
  }

  return {
    record(event) {
      if (isOver) return;
      const timestamp = clock.wall();
      const kept = boundedEvent({ ...event, id: nextId(timestamp), timestamp });
      if (hasRoom(kept)) waiting.push(kept);
      else count(event, timestamp);
      schedule();
    },

    read(query, signal) {
      const turn = reading.then(() => {
        signal.throwIfAborted();
        return read(query, signal);
      });
      reading = turn.catch(() => {});
      return turn;
    },

    async removeBefore(time, signal) {
      await flush();
      let removed = 0;
      for (const [actorId, { since }] of uncounted) if (since < time && uncounted.delete(actorId)) removed++;
      for await (const found of segments.pages(signal))
        for (const segment of found) {
          const events = await segment.events();
          const left = events.filter(({ timestamp }) => timestamp >= time);
          if (left.length === events.length) continue;
          // A segment that a replica has just written has more events, which are not older.
          const written = left.length === 0 ? await segments.remove(segment) : await segments.replace(segment, left);
          if (left.length === 0 || written) removed += events.length - left.length;
        }
      return removed;
    },

    flush,

    async [Symbol.asyncDispose]() {
      isOver = true;
      cancelTimer?.();
      await writing;
      await flush();
    },
  };
}
