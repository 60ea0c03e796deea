import { describe, expect, test } from 'vitest';
import { createVirtualClock } from '../kube/_util.ts';
import { AUDIT_BOUNDS, type AuditEvent, DAY_MS } from '../rules/audit.ts';
import { createMemorySegments } from './_audit.ts';
import { createAuditLog } from './audit-log.ts';
import type { Segment } from './audit-segments.ts';

const signal = new AbortController().signal;
const EVENT: Omit<AuditEvent, 'id' | 'timestamp'> = {
  eventType: 'HTTP',
  endpointType: 'user',
  actorId: 'ann',
  method: 'POST',
  resourceType: 'applications',
  resourceId: 'plant-a',
  endpointPath: '/application',
  ipAddress: '',
  status: 'SUCCESS',
  statusCode: 201,
  statusMessage: '',
  requestId: 'r',
};
const ALL = { limit: 1000, offset: 0 };

function setUp(memory = createMemorySegments(), clock = createVirtualClock()) {
  let writes = 0;
  const { segments } = memory;
  const counted = (call: 'create' | 'replace') =>
    ((...args: never[]) => {
      writes++;
      return (segments[call] as (...args: never[]) => unknown)(...args);
    }) as never;
  const log = createAuditLog({
    segments: { ...segments, create: counted('create'), replace: counted('replace') },
    clock,
  });
  const record = (fields: Partial<AuditEvent> = {}) => log.record({ ...EVENT, ...fields });
  const ids = async () => (await log.read(ALL, signal)).events.map(({ resourceId }) => resourceId);
  return { ...memory, clock, log, record, ids, writes: () => writes };
}

describe('the audit log', () => {
  test('shows an event at once, and stores it within ten seconds', async () => {
    const { record, ids, clock, stored } = setUp();
    record({ resourceId: 'a' });
    expect(await ids()).toEqual(['a']);
    expect(stored()).toEqual([]);
    await clock.advance(11_000);
    expect(stored()).toHaveLength(1);
    expect(await ids()).toEqual(['a']);
  });

  test('adds to one segment also after a machine whose clock was a year ahead began some', async () => {
    const memory = createMemorySegments();
    const ahead = setUp(memory, createVirtualClock(Date.now() + 365 * DAY_MS));
    for (let i = 0; i < 6; i++) {
      ahead.record();
      await ahead.clock.advance(AUDIT_BOUNDS.segmentMs);
    }
    expect(memory.stored()).toHaveLength(6);
    const { record, clock } = setUp(memory, createVirtualClock(Date.now()));
    for (let i = 0; i < 5; i++) {
      record();
      await clock.advance(12_000);
    }
    expect(memory.stored()).toHaveLength(7);
  });

  test('writes once in ten seconds at most, however many requests there are', async () => {
    const { record, clock, writes } = setUp();
    for (let i = 0; i < 60; i++) {
      record({ actorId: `user-${i}` });
      await clock.advance(1_000);
    }
    expect(writes()).toBeGreaterThan(3);
    expect(writes()).toBeLessThanOrEqual(7);
  });

  test('has the newest event first, page by page, by the filters of the query', async () => {
    const { record, log, clock } = setUp();
    for (const resourceId of ['a', 'b', 'c']) {
      record({ resourceId, method: resourceId === 'b' ? 'DELETE' : 'POST' });
      await clock.advance(12_000);
    }
    const { events, total } = await log.read({ limit: 1, offset: 1 }, signal);
    expect([total, events[0]?.resourceId]).toEqual([3, 'b']);
    const deleted = await log.read({ ...ALL, method: ['DELETE'] }, signal);
    expect(deleted).toMatchObject({ total: 1, events: [{ resourceId: 'b' }] });
    const since = await log.read({ ...ALL, startTime: events[0]?.timestamp ?? 0 }, signal);
    expect(since.events.map(({ resourceId }) => resourceId)).toEqual(['c', 'b']);
  });

  test('counts what exceeds its bounds for each caller, and one caller does not silence another', async () => {
    const { record, log, clock } = setUp();
    for (let i = 0; i < 2 * AUDIT_BOUNDS.waiting.user; i++) record({ status: i % 2 ? 'FAILED' : 'SUCCESS' });
    await clock.advance(11_000);
    record({ actorId: 'bob' });
    const { events, total } = await log.read(ALL, signal);
    expect(total).toBe(AUDIT_BOUNDS.waitingOfOne + 2);
    expect(events.find(({ eventType }) => eventType === 'SUMMARY')).toMatchObject({
      actorId: 'ann',
      status: 'FAILED',
      statusMessage: expect.stringMatching(/^750 more requests since .*, 375 of them failed$/),
    });
    expect(events.some(({ actorId }) => actorId === 'bob')).toBe(true);
  });

  test('keeps of one caller in seven days less than a tenth of what it keeps of all, also with long texts', async () => {
    for (const [endpointPath, most] of [
      ['/application', 9_000],
      ['x'.repeat(1_000), 9_000 / 2],
    ] as const) {
      const { record, log, clock } = setUp();
      for (let i = 0; i < 7 * 24; i++) {
        for (let n = 0; n < 300; n++) record({ endpointPath });
        await clock.advance(DAY_MS / 24);
      }
      const { total } = await log.read({ limit: 1, offset: 0, eventType: 'HTTP' }, signal);
      expect(total).toBeLessThanOrEqual(most);
      expect(total).toBeGreaterThan(most / 3);
      expect(9_000).toBeLessThan(AUDIT_BOUNDS.events / 10);
    }
  });

  test('counts what exceeds the share of a node, and no number of nodes silences a user', async () => {
    const { record, log, clock } = setUp();
    const node = (actorId: string) => record({ endpointType: 'agent', actorId });
    for (let i = 0; i < 100; i++) node('one');
    for (let i = 0; i < 700; i++) node(`node-${i}`);
    record({ actorId: 'bob', resourceId: 'his' });
    await clock.advance(11_000);
    const ofNodes = await log.read({ ...ALL, endpointType: 'agent', eventType: 'HTTP' }, signal);
    expect(ofNodes.total).toBe(AUDIT_BOUNDS.waiting.agent);
    expect(ofNodes.events.filter(({ actorId }) => actorId === 'one')).toHaveLength(AUDIT_BOUNDS.perNode.burst);
    expect((await log.read({ ...ALL, endpointType: 'user' }, signal)).events).toMatchObject([{ resourceId: 'his' }]);
    expect((await log.read({ ...ALL, eventType: 'SUMMARY' }, signal)).events).toMatchObject([
      { endpointType: 'agent', actorId: '', statusMessage: expect.stringMatching(/^550 more requests/) },
    ]);
  });

  test('keeps of all nodes in seven days less than a third of what it keeps', () => {
    const { burst, perSecond } = AUDIT_BOUNDS.ofAllNodes;
    const most = burst + (perSecond * AUDIT_BOUNDS.days * DAY_MS) / 1000;
    expect(most).toBeLessThan(AUDIT_BOUNDS.events / 3);
  });

  test('keeps the events of users when those of nodes cannot be written either', async () => {
    const memory = createMemorySegments();
    const { clock } = setUp(memory);
    const create = () => Promise.reject(new Error('down'));
    const log = createAuditLog({ segments: { ...memory.segments, create }, clock });
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < AUDIT_BOUNDS.waiting.agent; i++)
        log.record({ ...EVENT, endpointType: 'agent', actorId: `node-${round}-${i}` });
      log.record({ ...EVENT, resourceId: `his-${round}` });
      await clock.advance(12_000);
    }
    const { events } = await log.read({ ...ALL, endpointType: 'user', eventType: 'HTTP' }, signal);
    expect(events.map(({ resourceId }) => resourceId)).toEqual(['his-2', 'his-1', 'his-0']);
  });

  test('only counts requests without a valid token, at most one event in ten minutes', async () => {
    const { record, log, clock, ids } = setUp();
    record({ resourceId: 'theirs' });
    for (let i = 0; i < 360; i++) {
      for (let n = 0; n < 100; n++) record({ actorId: '', status: 'FAILED' });
      await clock.advance(10_000);
    }
    expect(await ids()).toContain('theirs');
    const { events } = await log.read({ ...ALL, eventType: 'SUMMARY' }, signal);
    expect(events.length).toBeLessThanOrEqual(7);
    const counted = events.map(({ statusMessage }) => Number(statusMessage.split(' ')[0]));
    expect(counted.reduce((sum, count) => sum + count)).toBe(36_000);
    expect((await log.read(ALL, signal)).total).toBe(events.length + 1);
  });

  test('reads one page at a time, and reads again only the segments that have events of the page', async () => {
    const memory = createMemorySegments();
    const { record, clock } = setUp(memory);
    for (let i = 0; i < 20; i++) {
      record({ resourceId: String(i) });
      await clock.advance(AUDIT_BOUNDS.segmentMs);
    }
    let [open, most, reads] = [0, 0, 0];
    const counting = (segment: Segment): Segment => ({
      ...segment,
      async events() {
        reads++;
        most = Math.max(most, ++open);
        await Promise.resolve();
        open--;
        return segment.events();
      },
    });
    async function* pages() {
      for await (const page of memory.segments.pages(signal)) yield page.map(counting);
    }
    const log = createAuditLog({ segments: { ...memory.segments, pages }, clock });
    const found = await Promise.all([0, 10, 18].map((offset) => log.read({ limit: 2, offset }, signal)));
    expect(found.map(({ events }) => events.map(({ resourceId }) => resourceId))).toEqual([
      ['19', '18'],
      ['9', '8'],
      ['1', '0'],
    ]);
    expect([most, reads]).toEqual([1, 3 * (memory.stored().length + 2)]);
  });

  test('keeps what could not be written for the next write', async () => {
    const { record, ids, clock, segments, stored } = setUp();
    const { create } = segments;
    let fails = true;
    const log = createAuditLog({
      segments: {
        ...segments,
        create: async (...args) => (fails ? Promise.reject(new Error('down')) : create(...args)),
      },
      clock,
    });
    log.record(EVENT);
    await clock.advance(30_000);
    expect(stored()).toEqual([]);
    fails = false;
    await clock.advance(12_000);
    expect(await ids()).toEqual(['plant-a']);
    record();
  });

  test('has the events of another replica once they are written', async () => {
    const memory = createMemorySegments();
    const [one, other] = [setUp(memory), setUp(memory)];
    one.record({ resourceId: 'one' });
    other.record({ resourceId: 'other' });
    expect(await one.ids()).toEqual(['one']);
    await other.log.flush();
    expect((await one.ids()).sort()).toEqual(['one', 'other']);
  });

  test('writes what waits when its process ends', async () => {
    const { record, log, stored } = setUp();
    record();
    await log[Symbol.asyncDispose]();
    expect(await stored()[0]?.events()).toHaveLength(1);
  });

  test('removes events that are older than a time, and a replica that adds to their segment does not bring them back', async () => {
    const memory = createMemorySegments();
    const [one, other] = [setUp(memory), setUp(memory)];
    one.record({ resourceId: 'old' });
    await one.clock.advance(20_000);
    one.record({ resourceId: 'new' });
    await one.log.flush();
    const before = one.clock.wall() - 10_000;
    expect(await other.log.removeBefore(before, signal)).toBe(1);
    one.record({ resourceId: 'newer' });
    await one.log.flush();
    expect(await one.ids()).toEqual(['newer', 'new']);
    expect(await one.log.removeBefore(Number.POSITIVE_INFINITY, signal)).toBe(2);
    expect(await one.ids()).toEqual([]);
  });

  test('keeps a bounded number of segments, and none beyond seven days', async () => {
    const { record, clock, stored, ids } = setUp();
    for (let i = 0; i < 40; i++) {
      record({ resourceId: String(i) });
      await clock.advance(AUDIT_BOUNDS.segmentMs);
    }
    expect(stored().length).toBeLessThanOrEqual((AUDIT_BOUNDS.days * DAY_MS) / AUDIT_BOUNDS.segmentMs + 2);
    expect(await ids()).toHaveLength((AUDIT_BOUNDS.days * DAY_MS) / AUDIT_BOUNDS.segmentMs);
  });

  test('has every event after 200 starts of its process, in one segment', async () => {
    const memory = createMemorySegments();
    for (let i = 0; i < 200; i++) {
      const { record, log } = setUp(memory);
      record({ resourceId: String(i) });
      await log[Symbol.asyncDispose]();
    }
    expect(memory.stored()).toHaveLength(1);
    expect(await setUp(memory).ids()).toHaveLength(200);
  });

  test('has no event twice, and loses none, when two processes write at the same moment', async () => {
    const memory = createMemorySegments();
    const [one, other] = [setUp(memory), setUp(memory)];
    for (let i = 0; i < 20; i++) {
      one.record({ resourceId: `one-${i}` });
      other.record({ resourceId: `other-${i}` });
      await Promise.all([one.log.flush(), other.log.flush()]);
    }
    const names = (await one.ids()).sort();
    expect(new Set(names).size).toBe(40);
    expect(names).toHaveLength(40);
    expect(memory.stored().length).toBeLessThanOrEqual(2);
  });

  test('has an event once whose write was carried out although its response was lost', async () => {
    const memory = createMemorySegments();
    const { clock } = setUp(memory);
    let isLost = false;
    const unclear =
      <A extends unknown[], R>(write: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        const result = await write(...args);
        if (isLost) throw new Error('the response is lost');
        return result;
      };
    const { create, replace } = memory.segments;
    const log = createAuditLog({
      segments: { ...memory.segments, create: unclear(create), replace: unclear(replace) },
      clock,
    });
    for (const resourceId of ['created', 'added']) {
      log.record({ ...EVENT, resourceId });
      isLost = true;
      await log.flush();
      isLost = false;
      await log.flush();
    }
    const { events } = await log.read(ALL, signal);
    expect(events.map(({ resourceId }) => resourceId).sort()).toEqual(['added', 'created']);
  });

  test('removes the oldest segments beyond its bounds, also when the process that began the last one ended before it did', async () => {
    const memory = createMemorySegments();
    const { clock, record, log, stored } = setUp(memory);
    const now = clock.wall();
    const full = Array.from({ length: AUDIT_BOUNDS.segmentEvents }, (_, id) => ({ ...EVENT, id, timestamp: now }));
    const most = AUDIT_BOUNDS.events / AUDIT_BOUNDS.segmentEvents;
    for (let age = most + 10; age > 0; age--) await memory.segments.create(full, now - age);
    record({ resourceId: 'new' });
    await log.flush();
    expect(stored()).toHaveLength(most);
    expect(Math.min(...stored().map(({ begunAt }) => begunAt))).toBe(now - most + 1);
  });

  test('leaves the segments of former versions to their processes, and those from the future', async () => {
    const memory = createMemorySegments();
    const { clock, record, log, stored } = setUp(memory);
    const event = { ...EVENT, id: 1, timestamp: clock.wall() };
    const former = await memory.segments.create([event], clock.wall());
    Object.assign(former, { isShared: false });
    const future = await memory.segments.create([event], clock.wall() + DAY_MS);
    for (let i = 0; i < 3; i++) {
      record();
      await log.flush();
    }
    expect(stored()).toHaveLength(3);
    expect(stored()).toEqual(expect.arrayContaining([former, future]));
  });

  test('keeps no text that is longer than its bound', async () => {
    const { record, log } = setUp();
    record({ endpointPath: 'x'.repeat(10_000) });
    expect((await log.read(ALL, signal)).events[0]?.endpointPath).toHaveLength(AUDIT_BOUNDS.text);
  });
});
