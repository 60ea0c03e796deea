import { setTimeout as wait } from 'node:timers/promises';

/** How long `advance` waits for timers that are not set yet. Less than a test may take, so that the error names them. */
const WAIT_MS = 30_000;

/** The number of such resources that earlier files of this process have left. */
let left = 0;

/** Called before each file of tests: files may share a process, and connections outlive the file that opened them. */
export function noteWhatIsLeft(): void {
  left = resources().length;
}

/** Resources of the process whose events come in their own time. Files are left out: the runner reads some beside a test. */
const OUTSIDE = /^(TCP|TLS|UDP)|^ProcessWrap$/;

interface Advance {
  /**
   * Timers that are due within the time that passes, at least. Time stands still until they are set. Beside sockets and child
   * processes a test has to say it: what sets a timer there waits for the outside, and a timer that is set after the time
   * has passed never rings. 0 is for a time that is only read.
   */
  timers?: number;
  /** Resolves when everything that a timer woke has done what it does without waiting. */
  settle?: () => Promise<void>;
}

/** Time that moves only by `advance`: what the virtual clocks of controller and agent have in common. */
export interface VirtualTime {
  readonly now: number;
  /** Rings once after `ms`; returns what cancels it. */
  after(ms: number, ring: () => void): () => void;
  /**
   * Lets `ms` pass. Timers ring in order, each at its own time; everything that one wakes has settled before the next rings.
   * Rejects where `timers` is missing (see there), and when too few are set within half a minute.
   */
  advance(ms: number, options?: Advance): Promise<void>;
}

/** `outside`: which resources of the process move by themselves; only the test of this file gives others. */
export function createVirtualTime(
  start: number,
  { outside = resources, waitMs = WAIT_MS }: { outside?: () => string[]; waitMs?: number } = {},
): VirtualTime {
  let now = start;
  const timers = new Set<{ at: number; ring: () => void }>();
  const due = (end: number) => [...timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);

  async function untilSet(count: number, end: number): Promise<void> {
    const deadline = performance.now() + waitMs;
    while (due(end).length < count) {
      if (performance.now() > deadline) throw new Error(missing(count, end));
      await wait(5);
    }
  }

  const missing = (count: number, end: number) => {
    const others = [...timers].map(({ at }) => at - now).sort((a, b) => a - b);
    const known = others.length === 0 ? 'no timer is set' : `timers are due in ${others.slice(0, 10).join(', ')} ms`;
    return `advance(${end - now}) waited ${waitMs} ms for ${count} timers due within this time: ${known}`;
  };

  return {
    get now() {
      return now;
    },
    after(ms, ring) {
      const timer = { at: now + Math.max(0, ms), ring };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    async advance(ms, { timers: count, settle = settled } = {}) {
      if (count === undefined && outside().length > left) {
        const what = [...new Set(outside())].join(', ');
        throw new Error(`advance(${ms}) beside ${what}: say how many { timers } are due within this time`);
      }
      const end = now + ms;
      await settle();
      await untilSet(count ?? 0, end);
      for (;;) {
        const [next] = due(end);
        if (!next) break;
        timers.delete(next);
        now = Math.max(now, next.at);
        next.ring();
        await settle();
      }
      now = end;
    },
  };
}

const resources = () => process.getActiveResourcesInfo().filter((name) => OUTSIDE.test(name));

/**
 * Turns after which all promises that can settle have settled: a queue on a busy machine leaves its next runs to a later turn, and
 * a machine that stops a process for some milliseconds in each of these turns is not expected.
 */
const TURNS = 4;

export async function settled(): Promise<void> {
  for (let i = 0; i < TURNS; i++) await new Promise((resolve) => setImmediate(resolve));
}
