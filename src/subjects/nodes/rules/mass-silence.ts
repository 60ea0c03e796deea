/**
 * Mass silence: when a large share of the live nodes falls silent at once, the cause is more likely the controller, its
 * network or its clock than the nodes. Statuses are then written slowly, and one event replaces thousands.
 */

/** The last sign of life of one node. */
export interface SilenceFacts {
  /** Unix ms */
  contactAt: number;
  /** its silence limit, ms */
  limit: number;
}

/** The silence of fewer nodes does not indicate a problem of the controller. */
const MIN_NODES = 3;
const SHARE = 0.3;

/** Suspects mass silence when more than 30 % of the nodes that were live one limit ago have fallen silent since. */
export function massSilence(
  nodes: readonly SilenceFacts[],
  now: number,
): { suspected: boolean; live: number; fellSilent: number } {
  const live = nodes.filter(({ contactAt, limit }) => now < contactAt + limit).length;
  const fellSilent = nodes.filter(
    ({ contactAt, limit }) => now >= contactAt + limit && now < contactAt + 2 * limit,
  ).length;
  return { suspected: fellSilent >= MIN_NODES && fellSilent > SHARE * (live + fellSilent), live, fellSilent };
}

/** How silence changes a stored object; `continues` means that an unreachable application loses another node. */
export type SilenceChange = 'begins' | 'ends' | 'continues';

/** The change from the stored to the present silence; undefined when there is no silence in either. */
export function silenceChange(stored: boolean, now: boolean): SilenceChange | undefined {
  if (stored && now) return 'continues';
  return now ? 'begins' : stored ? 'ends' : undefined;
}

/**
 * Writes that silence may cause, suspected or not: per second over all objects of a kind, or one object in `everyMs`.
 * They leave the CPU to long polls. Reads and responses to agents do not wait for them.
 */
export const SILENCE_WRITES = {
  begins: { perSecond: 20 },
  ends: { perSecond: 40 },
  continues: { everyMs: 10_000 },
} as const satisfies Record<SilenceChange, { perSecond: number } | { everyMs: number }>;

/** While more objects than this wait for the write that ends their silence, that write records no events. */
const FEW = 20;

/** Whether the write of a change records events about the object itself. */
export function hasEventsOfItsOwn(
  change: SilenceChange | undefined,
  circumstances: {
    suspected: boolean;
    /** objects that wait for the same change */
    waiting: number;
    /** the silence of this object began without an event */
    beganWithout: boolean;
  },
): boolean {
  if (change === 'begins') return !circumstances.suspected;
  return change !== 'ends' || !(circumstances.beganWithout || circumstances.waiting > FEW);
}
