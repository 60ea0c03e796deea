import { hash } from 'node:crypto';
import type { NodeAction } from '../../domain/actions.ts';
import type { Clock } from '../../kube/mod.ts';
import { type Digests, formatHave } from '../../wire/index.ts';
import { differ } from './long-polls.ts';

/**
 * The responses that this replica sent to third-party agents, which do not report what they have saved: an acknowledgement
 * has the timestamp of a response, and acknowledges the digests and actions of that response. The last digits of a timestamp
 * are a digest of these, so that a response of another replica, or of this one before a restart, can be acknowledged as long
 * as the response would be the same now. Otherwise the response is sent again, which is harmless.
 */
export interface SentResponses {
  /** The digests that an agent acknowledged at this replica. */
  acknowledged(uuid: string): Digests;
  /** Records a response and returns its timestamp; the timestamps of one replica are unique and grow. */
  add(uuid: string, due: Digests, orders: ActionCounts): string;
  /**
   * The actions of the acknowledged response; undefined for an unknown response. `now`: the digests and actions of a
   * response at present.
   */
  acknowledge(uuid: string, stamp: string, now: { due: Digests; actions: ActionCounts }): ActionCounts | undefined;
  forget(uuid: string): void;
}

/** Actions count as executed by a third-party agent once it acknowledges the response with their flags. */
export type ActionCounts = Readonly<Partial<Record<NodeAction, number>>>;

interface SentResponse {
  stamp: string;
  due: Digests;
  actions: ActionCounts;
}

const REMEMBERED = 4;
const NOTHING: Digests = Object.freeze({});
/** A timestamp with nanoseconds, which all parsers accept; the last six digits are the digest. */
const STAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/;

function digits(due: Digests, actions: ActionCounts): string {
  const bytes = hash('sha256', `${formatHave(due)} ${JSON.stringify(actions)}`, 'buffer');
  return String(bytes.readUIntBE(0, 6) % 1_000_000).padStart(6, '0');
}

export function createSentResponses(clock: Pick<Clock, 'wall'>): SentResponses {
  const nodes = new Map<string, { acknowledged: Digests; responses: SentResponse[] }>();
  let last = 0;

  function nextStamp(due: Digests, actions: ActionCounts): string {
    last = Math.max(clock.wall(), last + 1);
    return new Date(last).toISOString().replace('Z', `${digits(due, actions)}Z`);
  }

  function nodeOf(uuid: string) {
    const node = nodes.get(uuid) ?? { acknowledged: NOTHING, responses: [] };
    nodes.set(uuid, node);
    return node;
  }

  return {
    acknowledged: (uuid) => nodes.get(uuid)?.acknowledged ?? NOTHING,
    add(uuid, due, actions) {
      const node = nodeOf(uuid);
      const latest = node.responses.at(-1);
      if (latest && !differ(due, latest.due)) return latest.stamp;
      const stamp = nextStamp(due, actions);
      node.responses.push({ stamp, due, actions });
      if (node.responses.length > REMEMBERED) node.responses.shift();
      return stamp;
    },
    acknowledge(uuid, stamp, now) {
      const node = nodeOf(uuid);
      const at = node.responses.findIndex((response) => response.stamp === stamp);
      const response = node.responses[at];
      if (response) {
        node.acknowledged = response.due;
        // A response that is older than an acknowledged one can no longer be acknowledged.
        node.responses.splice(0, at);
        return response.actions;
      }
      if (!STAMP.test(stamp) || !stamp.endsWith(`${digits(now.due, now.actions)}Z`)) return undefined;
      node.acknowledged = now.due;
      return now.actions;
    },
    forget: (uuid) => void nodes.delete(uuid),
  };
}
