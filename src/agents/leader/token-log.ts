import type { Clock } from '../../lib/clock.ts';
import type { TokenMark, UsedTokens } from '../pipeline/used-tokens.ts';

/**
 * The leader's list of tokens that were used at any replica, in the order of arrival. Replicas read from their cursor on;
 * an entry is removed when no token of its age is accepted any more, or when there are too many.
 */
export interface TokenLog {
  add(replica: string, marks: readonly TokenMark[]): void;
  /** The tokens used at other replicas than this one, from a cursor on. */
  since(cursor: number, replica: string): { cursor: number; marks: TokenMark[] };
}

const CAPACITY = 500_000;
const MOST_AT_ONCE = 100_000;

export function createTokenLog(used: UsedTokens, clock: Pick<Clock, 'wall'>): TokenLog {
  let entries: { replica: string; mark: TokenMark }[] = [];
  /** cursor of the first entry */
  let first = 0;

  function push(replica: string, marks: readonly TokenMark[]) {
    for (const mark of marks) entries.push({ replica, mark });
    // Half at a time, so that the list is not copied for each new entry.
    if (entries.length <= CAPACITY) return;
    const gone = entries.length - CAPACITY / 2;
    entries = entries.slice(gone);
    first += gone;
  }

  return {
    add(replica, marks) {
      used.learn(marks, clock.wall());
      push(replica, marks);
    },
    since(cursor, replica) {
      push('', used.takeUnshared(MOST_AT_ONCE));
      const from = Math.max(0, cursor - first);
      const slice = entries.slice(from, from + MOST_AT_ONCE);
      return {
        cursor: first + from + slice.length,
        marks: slice.filter((entry) => entry.replica !== replica).map((entry) => entry.mark),
      };
    },
  };
}
