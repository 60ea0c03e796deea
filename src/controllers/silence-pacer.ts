import type { Writing } from './status-writer.ts';
import { createPace } from './write-pacer.ts';

/**
 * What silence alone does to what is stored of an object: its node falls silent, is heard of again, or another of its
 * nodes does while it is unreachable anyway.
 */
export type Turn = 'silent' | 'back' | 'more';

/**
 * A second, in each kind (docs/decisions/2026-11-22-what-silence-writes.md). Who comes back waits for less. Reads say
 * the truth at once either way.
 */
const PER_SECOND = { silent: 20, back: 40 } as const;
/** An object that is unreachable is written again at most this often because of further nodes. */
const MORE_MS = 10_000;
/** Objects that come back at once and are still told of one by one. */
const FEW = 20;

/** What reconcilers share about a fleet that falls silent, and comes back. */
export interface Silence {
  /** more than 30 % of the live nodes fell silent at once: first our own fault, and said in one event */
  suspected: boolean;
  /** The turns of one kind of objects. */
  turns(): Turns;
}

/**
 * The writes that silence alone is the cause of: one for each object and turn, at a pace that leaves the cores to those
 * who poll.
 */
export interface Turns {
  /** 0 when an object may be written, which uses its turn up; else the milliseconds until it is to ask again. */
  waitFor(turn: Turn | undefined, key: string): number;
  /** How its status is to be written: without events where there would be one for each of very many. */
  writing(turn: Turn | undefined, key: string): Writing;
  forget(key: string): void;
  /** Whether an object waits to be said silent. */
  waits(key: string): boolean;
  /** How many do. */
  readonly waiting: number;
}

/** `clock` gives Unix ms. */
export function createSilence(clock: () => number): Silence {
  const silence: Silence = { suspected: false, turns };

  function turns(): Turns {
    const silent = createPace(PER_SECOND.silent, clock);
    const back = createPace(PER_SECOND.back, clock);
    /** fell silent without an event of their own, and return so */
    const unsaid = new Set<string>();
    /** when unreachable ones were written last */
    const written = new Map<string, number>();

    function waitForMore(key: string): number {
      const left = (written.get(key) ?? 0) + MORE_MS - clock();
      if (left <= 0) written.set(key, clock());
      return Math.max(0, left);
    }

    return {
      waitFor(turn, key) {
        if (turn !== 'silent') silent.release(key);
        if (turn !== 'back') back.release(key);
        if (turn === 'more') return waitForMore(key);
        written.delete(key);
        if (turn === undefined) return 0;
        const wait = (turn === 'silent' ? silent : back).take(key);
        if (turn === 'silent' && wait === 0) written.set(key, clock());
        return wait;
      },
      writing(turn, key) {
        if (turn === 'silent') {
          if (silence.suspected) unsaid.add(key);
          return { isQuiet: silence.suspected, took: silent.took };
        }
        const wasUnsaid = turn !== 'more' && unsaid.delete(key);
        return turn === 'back' ? { isQuiet: wasUnsaid || back.waiting > FEW, took: back.took } : {};
      },
      forget(key) {
        silent.release(key);
        back.release(key);
        unsaid.delete(key);
        written.delete(key);
      },
      waits: silent.waits,
      get waiting() {
        return silent.waiting;
      },
    };
  }

  return silence;
}
