import type { EdgeNode, EdgeNodeStatus } from '../../../api/v3/index.ts';
import { statusCost } from '../../../desired/rules/status-cost.ts';
import { equal } from '../../../kube/mod.ts';
import { createTokenBuckets } from '../../../lib/token-bucket.ts';

/** Limits the status writes that one node can cause by its reports. */
export interface StatusBudget {
  /** 0 when the status may be written now, which charges its cost to the node; else milliseconds until it may be. */
  waitMs(key: string, node: EdgeNode, status: EdgeNodeStatus): number;
  forget(key: string): void;
}

/** A burst of 15 minimum writes, then one in two seconds. */
const BUDGET = { burst: 600, perSecond: 20 };
/** The part of the budget that texts and counters leave for changes of state; they are merged while they wait. */
const RESERVE = 300;

/** `clock` gives Unix ms; `applicationsOn` counts the applications that depend on a node. */
export function createStatusBudget(clock: () => number, applicationsOn: (node: EdgeNode) => number): StatusBudget {
  const buckets = createTokenBuckets({ clock: { now: clock }, ...BUDGET });
  return {
    waitMs(key, node, status) {
      // Users' requests are not charged to the node.
      if (node.status?.observedGeneration !== status.observedGeneration || equal(node.status, status)) return 0;
      const { urgent, units } = statusCost(node.status, status, () => applicationsOn(node));
      const waitMs = buckets.waitMs(key, urgent ? 0 : RESERVE);
      if (waitMs === 0) buckets.charge(key, units);
      return waitMs;
    },
    forget: buckets.forget,
  };
}
