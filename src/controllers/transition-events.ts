import type { ConditionType, EventReason, Reason } from '../api/conditions.ts';
import type { Condition } from '../api/meta.ts';
import type { EventRecorder, KubeObject } from '../kube/mod.ts';

interface WithConditions {
  conditions?: Condition[];
  /** of the agent of a node */
  version?: string;
}

/** Conditions whose transitions are recorded as events. */
const REPORTED: readonly ConditionType[] = [
  'Ready',
  'DuplicateAgent',
  'DatastoreRestored',
  'Updating',
  'UpdateFailed',
  'SettingsRefused',
  'CredentialsOutdated',
  'RuleMissing',
];

/** Of these, True is no warning. */
const NORMAL: ReadonlySet<ConditionType> = new Set<ConditionType>(['Updating']);

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
 * has the reason of the condition. The first status of an object is a transition only when it is a warning: that an object
 * begins is what its creation says.
 */
export function recordTransitions(
  events: EventRecorder<EventReason>,
  object: KubeObject,
  before: WithConditions | undefined,
  after: WithConditions,
): void {
  for (const type of REPORTED) {
    const was = before?.conditions?.find((condition) => condition.type === type);
    const is = after.conditions?.find((condition) => condition.type === type);
    if (!is || (was?.status === is.status && was.reason === is.reason)) continue;
    const bad =
      type === 'Ready' ? is.status !== 'True' && !EXPECTED.has(is.reason) : is.status === 'True' && !NORMAL.has(type);
    if (type === 'Ready' && !was && !bad) continue;
    events.record(object, {
      type: bad ? 'Warning' : 'Normal',
      // Just computed, so that it is a reason of this version.
      reason: is.reason as Reason,
      action: 'Reconcile',
      note: is.message,
      about: type,
    });
  }
  if (before?.version !== undefined && after.version !== undefined && before.version !== after.version)
    events.record(object, {
      type: 'Normal',
      reason: 'AgentVersionChanged',
      action: 'Reconcile',
      note: `the agent was ${before.version} and is ${after.version}`,
      about: 'Version',
    });
}
