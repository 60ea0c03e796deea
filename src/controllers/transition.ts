import type { ConditionType } from '../api/conditions.ts';
import type { Condition } from '../api/meta.ts';
import type { EventRecorder, KubeObject } from '../kube/mod.ts';

interface WithConditions {
  conditions?: Condition[];
}

/** Conditions whose change people want to read about. */
const TOLD: readonly ConditionType[] = ['Ready', 'DuplicateAgent'];

/**
 * One event per transition: when the status or the reason of a condition that people follow differs from what is
 * stored. The event's reason is the condition's reason.
 */
export function recordTransitions(
  events: EventRecorder,
  object: KubeObject,
  before: WithConditions | undefined,
  after: WithConditions,
): void {
  for (const type of TOLD) {
    const was = before?.conditions?.find((condition) => condition.type === type);
    const is = after.conditions?.find((condition) => condition.type === type);
    if (!is || (was?.status === is.status && was.reason === is.reason)) continue;
    const bad = type === 'Ready' ? is.status === 'False' && isTrue(after, 'Stalled') : is.status === 'True';
    events.record(object, {
      type: bad ? 'Warning' : 'Normal',
      reason: is.reason,
      action: 'Reconcile',
      note: is.message,
      about: type,
    });
  }
}

const isTrue = (status: WithConditions, type: ConditionType) =>
  status.conditions?.some((condition) => condition.type === type && condition.status === 'True') ?? false;
