import { type Backoff, backoffDelay } from '../../lib/backoff.ts';
import { type Clock, sleep } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { LeaderState } from '../../replicas/channel.ts';
import type { TokenMark, UsedTokens } from '../pipeline/used-tokens.ts';
import type { AgentsAtLeader } from './leader-api.ts';

export interface TokenSharingOptions {
  leadership: LeaderState;
  client: Pick<AgentsAtLeader, 'exchangeTokens'>;
  used: UsedTokens;
  /** name of this replica */
  replica: string;
  clock: Clock;
  log: Log;
  random?: () => number;
}

const EVERY_MS = 200;
const MOST_AT_ONCE = 50_000;
const CALL_MS = 5_000;
const RETRY: Backoff = { baseMs: 500, factor: 2, maxMs: 10_000, jitter: 0.5 };

/**
 * Sends the tokens used here to the leader, and receives those used at other replicas, so that a token that was used at one
 * replica is refused by the others a moment later. Without a leader each replica refuses the tokens that it accepted itself.
 */
export async function shareTokens(options: TokenSharingOptions, signal: AbortSignal): Promise<void> {
  const { leadership, client, used, replica, clock, log, random = Math.random } = options;
  let position: { leadershipId?: string; cursor: number } = { cursor: 0 };
  let unsent: TokenMark[] = [];
  let failures = 0;
  while (!signal.aborted) {
    await sleep(failures > 0 ? backoffDelay(RETRY, failures, random) : EVERY_MS, signal, clock);
    if (signal.aborted) return;
    if (leadership.isLeading || leadership.leaderAddress === undefined) continue;
    if (unsent.length === 0) unsent = used.takeUnshared(MOST_AT_ONCE);
    try {
      const deadline = AbortSignal.any([signal, AbortSignal.timeout(CALL_MS)]);
      const { leadershipId, cursor, marks } = await client.exchangeTokens(
        { replica, ...position, marks: unsent },
        deadline,
      );
      used.learn(marks, clock.wall());
      position = { leadershipId, cursor };
      unsent = [];
      failures = 0;
    } catch (error) {
      failures++;
      if (failures === 3 && !signal.aborted) log.warn({ err: error }, 'Used tokens are not shared at present');
    }
  }
}
