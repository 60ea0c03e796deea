import type { NodeOrder } from '../domain/orders.ts';
import type { Clock } from '../kube/mod.ts';
import type { Digests } from '../wire/index.ts';
import { differ } from './held-polls.ts';

/**
 * What this replica told agents that do not say what they hold: their acknowledgement names the time stamp of an answer,
 * and acknowledges what that answer was made from. What is not remembered is told again, which is harmless.
 */
export interface Told {
  /** What an agent acknowledged here. */
  acknowledged(uuid: string): Digests;
  /** Remembers an answer; the stamp is unique and grows. */
  tell(uuid: string, due: Digests, orders: OrderCounts): string;
  /** The orders that the acknowledged answer carried; undefined when it is not known here. */
  acknowledge(uuid: string, stamp: string): OrderCounts | undefined;
  forget(uuid: string): void;
}

/** An agent that cannot echo orders has carried them out once it acknowledges the answer that raised their flags. */
export type OrderCounts = Readonly<Partial<Record<NodeOrder, number>>>;

interface Answer {
  stamp: string;
  due: Digests;
  orders: OrderCounts;
}

const REMEMBERED = 4;
const NOTHING: Digests = Object.freeze({});

export function createTold(clock: Pick<Clock, 'wall'>, random: () => number = Math.random): Told {
  const nodes = new Map<string, { acknowledged: Digests; answers: Answer[] }>();
  // Another replica may answer in the same millisecond: the last digits tell them apart.
  const own = String(Math.floor(random() * 1_000)).padStart(3, '0');
  let last = 0;

  function nextStamp(): string {
    last = Math.max(clock.wall(), last + 1);
    return new Date(last).toISOString().replace('Z', `${own}Z`);
  }

  return {
    acknowledged: (uuid) => nodes.get(uuid)?.acknowledged ?? NOTHING,
    tell(uuid, due, orders) {
      const node = nodes.get(uuid) ?? { acknowledged: NOTHING, answers: [] };
      nodes.set(uuid, node);
      const latest = node.answers.at(-1);
      if (latest && !differ(due, latest.due)) return latest.stamp;
      const stamp = nextStamp();
      node.answers.push({ stamp, due, orders });
      if (node.answers.length > REMEMBERED) node.answers.shift();
      return stamp;
    },
    acknowledge(uuid, stamp) {
      const node = nodes.get(uuid);
      const at = node?.answers.findIndex((answer) => answer.stamp === stamp) ?? -1;
      const answer = node?.answers[at];
      if (!node || !answer) return undefined;
      node.acknowledged = answer.due;
      // An answer that is older than an acknowledged one must not take its place any more.
      node.answers.splice(0, at);
      return answer.orders;
    },
    forget: (uuid) => void nodes.delete(uuid),
  };
}
