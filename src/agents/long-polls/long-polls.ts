import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import { type Digests, SECTIONS } from '../../wire/sections.ts';

/** Long polls, which wait until a section is due for their node. One factory, since all its parts share one timer. */
export interface LongPolls {
  readonly count: number;
  /**
   * Waits until what is due differs from `have`. Call it in the same turn of the event loop as the comparison that found no
   * difference, so that no change falls between the two. Never rejects.
   */
  arm(poll: { uuid: string; have: Digests; seconds: number; signal: PollSignal }): Promise<Ended>;
  /** Compares the digests of these nodes, for which a section may be due now. */
  wake(nodes: ReadonlySet<string> | 'all'): void;
  /** Ends the polls of a node although no section is due, since their response has a new position. */
  release(uuid: string): void;
  /** Ends the polls of a node whose key has ended. */
  revoke(uuid: string): void;
  /** Ends all polls, present and future. */
  drain(): void;
}

/**
 * `due`: compare again; `gone`: the client disconnected; `revoked`: its key has ended; the others: the poll ends although nothing
 * is due.
 */
type Ended = 'due' | 'timeout' | 'drained' | 'superseded' | 'gone' | 'revoked';

/** Emits when the client disconnects. */
interface PollSignal {
  onGone(callback: () => void): void;
}

export interface LongPollsOptions {
  /** undefined when the node is gone, which ends the poll as due */
  digests: (uuid: string) => Digests | undefined;
  clock: Clock;
  log: Log;
  perNode: number;
  onCount?: (count: number) => void;
  onEnd?: (how: Ended) => void;
  /** called with the milliseconds from the change that ended the poll */
  onSent?: (ms: number) => void;
}

interface Poll {
  uuid: string;
  have: Digests;
  end: (how: Ended) => void;
}

/** A change for all nodes must not block the event loop: it is processed in slices. */
const SLICE_MS = 8;
const PAUSE_MS = 20;

export function createLongPolls({ digests, clock, log, perNode, onCount, onEnd, onSent }: LongPollsOptions): LongPolls {
  const polls = new Map<string, Set<Poll>>();
  /** nodes to compare, with the time of their change */
  const urgent = new Map<string, number>();
  const later = new Map<string, number>();
  let scheduled: { soon: boolean; cancel: () => void } | undefined;
  let draining = false;
  let count = 0;

  function changeCount(by: number) {
    count += by;
    onCount?.(count);
  }

  function look(uuid: string, since: number) {
    const waiting = polls.get(uuid);
    if (!waiting) return;
    let due: Digests | undefined;
    try {
      due = digests(uuid);
    } catch (error) {
      // Its poll continues to wait: the next change, or its end, computes the state again.
      log.error({ err: error, node: uuid }, 'Desired state failed');
      return;
    }
    for (const poll of [...waiting]) {
      if (due && !differ(due, poll.have)) continue;
      poll.end('due');
      onSent?.(clock.now() - since);
    }
  }

  /** True when the queue is empty. */
  function workOff(queue: Map<string, number>, until: number): boolean {
    for (const [uuid, since] of queue) {
      if (clock.now() >= until) return false;
      queue.delete(uuid);
      look(uuid, since);
    }
    return true;
  }

  function run() {
    scheduled = undefined;
    const until = clock.now() + SLICE_MS;
    if (!workOff(urgent, until)) schedule(true);
    else if (!workOff(later, until)) schedule(false);
  }

  function schedule(soon: boolean) {
    if (scheduled?.soon || (scheduled && !soon)) return;
    scheduled?.cancel();
    scheduled = { soon, cancel: clock.after(soon ? 0 : PAUSE_MS, run) };
  }

  function endAll(uuid: string, how: Ended) {
    for (const poll of [...(polls.get(uuid) ?? [])]) poll.end(how);
  }

  return {
    get count() {
      return count;
    },
    arm({ uuid, have, seconds, signal }) {
      if (draining) return Promise.resolve('drained');
      return new Promise((resolve) => {
        const waiting = polls.get(uuid) ?? new Set<Poll>();
        const poll: Poll = {
          uuid,
          have,
          end(how) {
            if (!waiting.delete(poll)) return;
            if (waiting.size === 0 && polls.get(uuid) === waiting) polls.delete(uuid);
            cancel();
            changeCount(-1);
            onEnd?.(how);
            resolve(how);
          },
        };
        const cancel = clock.after(seconds * 1000, () => poll.end('timeout'));
        signal.onGone(() => poll.end('gone'));
        // The oldest poll most likely has a dead connection.
        const [first] = waiting;
        if (waiting.size >= perNode) first?.end('superseded');
        waiting.add(poll);
        polls.set(uuid, waiting);
        changeCount(1);
      });
    },
    wake(nodes) {
      const now = clock.now();
      const note = (queue: Map<string, number>, uuid: string) => queue.has(uuid) || queue.set(uuid, now);
      if (nodes === 'all') for (const uuid of polls.keys()) note(later, uuid);
      else for (const uuid of nodes) if (polls.has(uuid)) note(urgent, uuid);
      if (urgent.size > 0) schedule(true);
      else if (later.size > 0) schedule(false);
    },
    release: (uuid) => endAll(uuid, 'timeout'),
    revoke: (uuid) => endAll(uuid, 'revoked'),
    drain() {
      draining = true;
      for (const waiting of [...polls.values()]) for (const poll of [...waiting]) poll.end('drained');
    },
  };
}

export function differ(due: Digests, have: Digests): boolean {
  if (due === have) return false;
  for (const section of SECTIONS) if ((due[section] ?? '') !== (have[section] ?? '')) return true;
  return false;
}
