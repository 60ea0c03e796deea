import type { AuditEvent } from '../rules/audit.ts';
import { PAGE, type Segment, type Segments } from './audit-segments.ts';

/** Segments of an audit log in memory, with conflicts. */
export function createMemorySegments() {
  let stored: Segment[] = [];
  let version = 0;
  const make = (events: readonly AuditEvent[], begunAt: number, name = `segment-${++version}`): Segment => ({
    name,
    resourceVersion: String(++version),
    begunAt,
    // as compressed ones
    bytes: events.length * 64,
    count: events.length,
    isShared: true,
    events: async () => [...events],
  });
  const isSame = (a: Segment) => (b: Segment) => a.name === b.name && a.resourceVersion === b.resourceVersion;
  const segments: Segments = {
    async *pages() {
      const newest = [...stored].sort((a, b) => b.begunAt - a.begunAt);
      for (let at = 0; at < newest.length; at += PAGE) yield newest.slice(at, at + PAGE);
    },
    async create(events, begunAt) {
      const segment = make(events, begunAt);
      stored.push(segment);
      return segment;
    },
    async replace(segment, events) {
      const known = stored.find(isSame(segment));
      if (!known) return undefined;
      const next = make(events, known.begunAt, known.name);
      stored = stored.map((one) => (one === known ? next : one));
      return next;
    },
    async remove({ name }) {
      stored = stored.filter((one) => one.name !== name);
    },
  };
  return { segments, stored: () => stored };
}
