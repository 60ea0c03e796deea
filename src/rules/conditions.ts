import type { ConditionType, Reason } from '../api/conditions.ts';
import type { Condition, ObjectMeta, ResourceDefinition } from '../api/meta.ts';
import { PART_CONDITIONS } from './part.ts';

/** The present value of a condition. The message is stable: it has no times, and no counters that change by themselves. */
export interface Finding {
  status: Condition['status'];
  reason: Reason;
  message?: string;
}

export type Findings = Readonly<Partial<Record<ConditionType, Finding>>>;

/** The progress of an object in the terms of kstatus. */
export interface Progress {
  /**
   * done: everything is as asked for; working: changes are being made; waiting: progress depends on the machine or its
   * owner, which is not an error; stalled: the object must be changed first; unknown: there is no recent report
   */
  is: 'done' | 'working' | 'waiting' | 'stalled' | 'unknown';
  reason: Reason;
  message?: string;
}

/** The progress of an object that somebody has to change, or something that it needs. */
export const stalled = (why: Omit<Progress, 'is'>): Progress => ({ is: 'stalled', ...why });

const IDLE: Finding = { status: 'False', reason: 'Idle', message: 'there is nothing to do' };
const NOT_STALLED: Finding = { status: 'False', reason: 'NotStalled', message: 'nothing needs to be changed' };

/** The three conditions of kstatus. For an object whose parts differ in progress, spread and overwrite single ones. */
export function kstatus({ is, ...why }: Progress): Record<'Ready' | 'Reconciling' | 'Stalled', Finding> {
  switch (is) {
    case 'done':
      return { Ready: { status: 'True', ...why }, Reconciling: IDLE, Stalled: NOT_STALLED };
    case 'working':
      return {
        Ready: { status: 'False', ...why },
        Reconciling: { status: 'True', ...why },
        Stalled: NOT_STALLED,
      };
    case 'waiting':
      return { Ready: { status: 'False', ...why }, Reconciling: IDLE, Stalled: NOT_STALLED };
    case 'stalled':
      return { Ready: { status: 'False', ...why }, Reconciling: IDLE, Stalled: { status: 'True', ...why } };
    case 'unknown':
      return { Ready: { status: 'Unknown', ...why }, Reconciling: IDLE, Stalled: NOT_STALLED };
  }
  return is satisfies never;
}

/** Conditions that are present with any status. */
const ALWAYS: ReadonlySet<ConditionType> = new Set<ConditionType>([
  'Ready',
  'Reconciling',
  'Stalled',
  'Admitted',
  'Connected',
  'Listening',
  'Reachable',
  'MayLogIn',
  ...PART_CONDITIONS,
]);

/** Every watch sends a copy of the status, so messages are shorter than the API server allows. */
const MESSAGE_LENGTH = 2048;

/**
 * The conditions of an object in the order of its table. Each has the generation that it is about; the time of the last
 * transition is kept while the status stays the same. When nothing changed, the result equals what is stored.
 */
export function conditionsOf(
  { conditions }: Pick<ResourceDefinition, 'conditions'>,
  object: { metadata: Pick<ObjectMeta, 'generation'>; status?: { conditions?: readonly Condition[] } },
  findings: Findings,
  /** RFC 3339 */
  now: string,
): Condition[] {
  return conditions.flatMap((type) => {
    const finding = findings[type];
    if (!finding || (finding.status !== 'True' && !ALWAYS.has(type))) return [];
    const before = object.status?.conditions?.find((condition) => condition.type === type);
    return {
      type,
      status: finding.status,
      observedGeneration: object.metadata.generation ?? 0,
      lastTransitionTime: before?.status === finding.status ? before.lastTransitionTime : now,
      reason: finding.reason,
      message: cut(finding.message ?? '', MESSAGE_LENGTH),
    };
  });
}

/** The status of an object whose computed status the API server refuses: Ready is Unknown. */
export function statusRefused(
  definition: Pick<ResourceDefinition, 'conditions'>,
  object: Parameters<typeof conditionsOf>[1],
  why: string,
  now: string,
): { observedGeneration: number; conditions: Condition[] } {
  const message = `the API server refuses the status of this object: ${cut(why, REFUSAL_LENGTH)}`;
  return {
    observedGeneration: object.metadata.generation ?? 0,
    conditions: conditionsOf(definition, object, kstatus({ is: 'unknown', reason: 'StatusRefused', message }), now),
  };
}

/** The API server quotes the value that it refuses, which may be long. */
const REFUSAL_LENGTH = 512;

/** Several messages as one: without duplicates and sorted, so that the result does not depend on their order. */
export function joined(messages: Iterable<string>): string {
  return [...new Set(messages)].sort().join('; ');
}

/**
 * The text with at most `max` code points, as the API server counts them. Halves of surrogate pairs are replaced, since
 * the API server would store them differently and every comparison with the stored text would fail.
 */
export function cut(text: string, max: number): string {
  const whole = text.toWellFormed();
  return whole.length <= max ? whole : [...whole.slice(0, 2 * max)].slice(0, max).join('').toWellFormed();
}
