import { jsonOr } from '../../domain/json.ts';
import { isWanted, type VolumePath, type WantedVolumes } from './wanted.ts';

/** How long what nothing wants stays, ms. */
export const GRACE = 24 * 3600 * 1000;

/** Since when nothing wants a volume. */
export interface Unreferenced {
  /** Unix ms of the wall clock, for people */
  at: number;
  /** in counted time (counted-time.ts), which alone decides */
  since: number;
  /** a person removed the microservice and its volumes with it: a prune need not wait */
  cleanup?: true;
}

/** By volume. A volume without a record is wanted, or is new here: its time begins when it is seen. */
export type UnreferencedRecords = ReadonlyMap<VolumePath, Unreferenced>;

/** The records as they are now. A record that was lost begins anew; an earlier time is never concluded. Pure. */
export function updateUnreferenced(
  before: UnreferencedRecords,
  {
    volumes,
    isComplete,
    wanted,
    now,
    wall,
  }: {
    volumes: Iterable<VolumePath>;
    /** the volumes are all that the disk has */
    isComplete: boolean;
    wanted: WantedVolumes | undefined;
    /** counted time */
    now: number;
    wall: number;
  },
): UnreferencedRecords {
  // Nothing is concluded while the desired state is not known: the counted time stands still as well.
  if (!wanted) return before;
  const after = new Map<VolumePath, Unreferenced>();
  const known = isComplete ? volumes : new Set([...volumes, ...before.keys()]);
  for (const path of known) {
    if (isWanted(path, wanted)) continue;
    const record = before.get(path);
    // Counted time behind a record is another count, whose beginning is not known.
    after.set(path, record && record.since <= now ? record : { at: wall, since: now });
  }
  return isSame(before, after) ? before : after;
}

function isSame(before: UnreferencedRecords, after: UnreferencedRecords): boolean {
  return before.size === after.size && [...after].every(([path, record]) => before.get(path) === record);
}

/** Why a prune has to wait for a volume, for people; undefined when it need not. */
export function graceLeft(record: Unreferenced | undefined, now: number): string | undefined {
  if (record?.cleanup) return undefined;
  const passed = record ? now - record.since : 0;
  if (passed >= GRACE) return undefined;
  return `nothing wants it, for ${spanText(passed)} of the ${spanText(GRACE)} that it stays; force skips the rest`;
}

const spanText = (ms: number) => {
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
};

/** The records as they are saved. */
export function unreferencedText(records: UnreferencedRecords): string {
  return JSON.stringify(Object.fromEntries(records));
}

/** Reads what `unreferencedText` wrote; a record that cannot be read is a lost one. */
export function readUnreferenced(text: string | undefined): UnreferencedRecords {
  const saved = text === undefined ? undefined : jsonOr(text, undefined);
  const entries = saved !== null && typeof saved === 'object' ? Object.entries(saved) : [];
  return new Map(
    entries.flatMap(([path, record]): [VolumePath, Unreferenced][] => {
      const { at, since, cleanup } = (record ?? {}) as Partial<Record<keyof Unreferenced, unknown>>;
      if (!Number.isFinite(at) || !Number.isFinite(since)) return [];
      return [[path, { at: Number(at), since: Number(since), ...(cleanup === true && { cleanup }) }]];
    }),
  );
}
