import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { ANNOTATIONS, FIELD_MANAGERS, GROUP, LABELS } from '../api/names.ts';
import { CORE_RESOURCES, type Secret } from '../api/resources.ts';
import { isConflict, isNotFound, type KubeClient } from '../kube/mod.ts';
import type { AuditEvent } from '../rules/audit.ts';

const pack = promisify(gzip);
const unpack = promisify(gunzip);

/** A part of the audit log as it is stored: one Secret with compressed lines of JSON. */
export interface Segment {
  readonly name: string;
  readonly resourceVersion: string;
  /** Unix ms when it was begun */
  readonly begunAt: number;
  /** compressed */
  readonly bytes: number;
  /** Events that it has. Of a segment without that number it is an estimate. */
  readonly count: number;
  /** All replicas add to it. A former version adds to a segment of its own process, which others leave to it. */
  readonly isShared: boolean;
  /** Decompresses it. */
  events(): Promise<AuditEvent[]>;
}

/** Where the segments of all replicas are. */
export interface Segments {
  /** Newest first, a few at a time. */
  pages(signal: AbortSignal): AsyncIterable<readonly Segment[]>;
  create(events: readonly AuditEvent[], begunAt: number): Promise<Segment>;
  /** Undefined when it was changed or removed in between. */
  replace(segment: Segment, events: readonly AuditEvent[]): Promise<Segment | undefined>;
  remove(segment: Segment): Promise<void>;
}

const KEY = 'events';
const TYPE = `${GROUP}/audit-log`;
const CALL_MS = 10_000;
/** A page has so many segments. */
export const PAGE = 4;
/** Compressed bytes that an event takes at least, for the estimate of segments that do not tell their number. */
const SMALLEST_EVENT = 64;
/** Longest decompressed segment: texts of events have a bound, and so has their number. */
const UNPACKED = 16 * 2 ** 20;

export function createSegments({ client, namespace }: { client: KubeClient; namespace: string }): Segments {
  const call = { fieldManager: FIELD_MANAGERS.controller, timeoutMs: CALL_MS };
  const ref = ({ name }: { name: string }) => ({ namespace, name });

  async function write(events: readonly AuditEvent[], begunAt: number, known?: Segment): Promise<Segment> {
    const packed = await pack(events.map((event) => JSON.stringify(event)).join('\n'));
    const name = known?.name ?? nameOf(begunAt);
    const secret: Secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: {
        ...ref({ name }),
        labels: { [LABELS.auditLog]: 'true' },
        annotations: { [ANNOTATIONS.auditEvents]: String(events.length) },
        ...(known && { resourceVersion: known.resourceVersion }),
      },
      type: TYPE,
      data: { [KEY]: packed.toString('base64') },
    };
    const stored = known
      ? await client.replace(CORE_RESOURCES.secrets, secret, call)
      : await client.create(CORE_RESOURCES.secrets, secret, call);
    return segmentOf(stored);
  }

  return {
    async *pages(signal) {
      const query = { namespace, labelSelector: `${LABELS.auditLog}=true`, limit: PAGE, signal };
      for await (const { items } of client.listPages(CORE_RESOURCES.secrets, query)) yield items.map(segmentOf);
    },
    create: (events, begunAt) => write(events, begunAt),
    async replace(segment, events) {
      try {
        return await write(events, segment.begunAt, segment);
      } catch (error) {
        if (isConflict(error) || isNotFound(error)) return undefined;
        throw error;
      }
    },
    async remove(segment) {
      await client.delete(CORE_RESOURCES.secrets, ref(segment), { timeoutMs: CALL_MS });
    },
  };
}

/** Names sort as text, so that lists have the newest segment first; the end of a name makes it unique. */
const LATEST = 10 ** 13;
const nameOf = (begunAt: number) => `skerry-audit-${LATEST - begunAt}-${randomBytes(3).toString('hex')}`;
const begunAtOf = (name: string) => LATEST - Number(/^skerry-audit-(\d+)-/.exec(name)?.[1] ?? LATEST);

function segmentOf({ metadata, data }: Secret): Segment {
  const packed = Buffer.from(data?.[KEY] ?? '', 'base64');
  const told = metadata.annotations?.[ANNOTATIONS.auditEvents];
  const isShared = told !== undefined && /^\d{1,9}$/.test(told);
  return {
    name: metadata.name,
    resourceVersion: metadata.resourceVersion ?? '',
    begunAt: begunAtOf(metadata.name),
    bytes: packed.length,
    count: isShared ? Number(told) : Math.ceil(packed.length / SMALLEST_EVENT),
    isShared,
    events: () => eventsOf(packed),
  };
}

/** A segment that someone else has damaged has no events: it must not end every read. */
async function eventsOf(packed: Buffer): Promise<AuditEvent[]> {
  try {
    const text = (await unpack(packed, { maxOutputLength: UNPACKED })).toString();
    return text === '' ? [] : text.split('\n').map((line) => JSON.parse(line) as AuditEvent);
  } catch {
    return [];
  }
}
