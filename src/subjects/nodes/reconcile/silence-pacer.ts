import type { StatusWriteOptions } from '../../../controllers/status-writer.ts';
import { createWritePacer } from '../../../controllers/write-pacer.ts';
import { hasEventsOfItsOwn, SILENCE_WRITES, type SilenceChange } from '../rules/mass-silence.ts';

/** Limits the rate of writes that silence alone causes in one kind, and decides which of them record events. */
export interface SilencePacer {
  /** 0 when an object may be written, which uses up its turn; else the milliseconds until the next call. */
  waitMs(key: string, change: SilenceChange | undefined): number;
  /** How a status that `waitMs` let through is to be written. */
  writeOptions(key: string, change: SilenceChange | undefined, suspected: boolean): StatusWriteOptions;
  forget(key: string): void;
  /** whether an object waits for the write that begins its silence */
  isWaiting(key: string): boolean;
  /** number of objects that wait for that write */
  readonly waiting: number;
}

/** `clock` gives Unix ms. */
export function createSilencePacer(clock: () => number): SilencePacer {
  const pacers = {
    begins: createWritePacer(SILENCE_WRITES.begins.perSecond, clock),
    ends: createWritePacer(SILENCE_WRITES.ends.perSecond, clock),
  };
  /** objects whose silence began without an event */
  const beganWithout = new Set<string>();
  /** when unreachable objects were last written */
  const writtenAt = new Map<string, number>();

  function waitToContinue(key: string): number {
    const left = (writtenAt.get(key) ?? 0) + SILENCE_WRITES.continues.everyMs - clock();
    if (left <= 0) writtenAt.set(key, clock());
    return Math.max(0, left);
  }

  return {
    waitMs(key, change) {
      if (change !== 'begins') pacers.begins.release(key);
      if (change !== 'ends') pacers.ends.release(key);
      if (change === 'continues') return waitToContinue(key);
      writtenAt.delete(key);
      if (change === undefined) return 0;
      const wait = pacers[change].take(key);
      if (change === 'begins' && wait === 0) writtenAt.set(key, clock());
      return wait;
    },
    writeOptions(key, change, suspected) {
      const withEvents = hasEventsOfItsOwn(change, {
        suspected,
        waiting: pacers.ends.waiting,
        beganWithout: change !== 'continues' && beganWithout.has(key),
      });
      if (change === 'begins' && !withEvents) beganWithout.add(key);
      if (change === 'ends' || change === undefined) beganWithout.delete(key);
      if (change === 'begins' || change === 'ends') return { withEvents, onDuration: pacers[change].observeWrite };
      return {};
    },
    forget(key) {
      pacers.begins.release(key);
      pacers.ends.release(key);
      beganWithout.delete(key);
      writtenAt.delete(key);
    },
    isWaiting: pacers.begins.isWaiting,
    get waiting() {
      return pacers.begins.waiting;
    },
  };
}
