import type { ConditionType, Reason } from '../api/conditions.ts';
import type { Condition } from '../api/meta.ts';
import type { EventRecorder, KubeObject } from '../kube/mod.ts';

interface WithConditions {
  conditions?: Condition[];
}

/** Conditions whose transitions are recorded as events. */
const REPORTED: readonly ConditionType[] = ['Ready', 'DuplicateAgent', 'DatastoreRestored', 'SettingsRefused'];

/** Reasons of Ready=False that are intermediate steps or requested by a user, whose events are not warnings. */
const EXPECTED: ReadonlySet<string> = new Set<Reason>([
  'Starting',
  'Updating',
  'Stopping',
  'Removing',
  'Stopped',
  'Empty',
  'NotProvisioned',
  'Deprovisioned',
  'AgentStarting',
  'IdNotAssigned',
  'Deleting',
]);

/**
 * Records one event per transition: when the status or the reason of a condition differs from what is stored. The event
 * has the reason of the condition.
 */
export function recordTransitions(
  events: EventRecorder,
  object: KubeObject,
  before: WithConditions | undefined,
  after: WithConditions,
): void {
  for (const type of REPORTED) {
    const was = before?.conditions?.find((condition) => condition.type === type);
    const is = after.conditions?.find((condition) => condition.type === type);
    if (!is || (was?.status === is.status && was.reason === is.reason)) continue;
    const bad = type === 'Ready' ? is.status !== 'True' && !EXPECTED.has(is.reason) : is.status === 'True';
    events.record(object, {
      type: bad ? 'Warning' : 'Normal',
      reason: is.reason,
      action: 'Reconcile',
      note: is.message,
      about: type,
    });
  }
}
