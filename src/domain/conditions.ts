import { CONDITIONS_OF, type ConditionType, type Reason } from '../api/conditions.ts';
import type { Condition } from '../api/meta.ts';

/**
 * What a condition says, before generation and time are added. The message is stable: no times, no counters that move
 * by themselves.
 */
export interface Statement {
  status: Condition['status'];
  reason: Reason;
  message: string;
}

export const NOT_RECONCILING: Statement = { status: 'False', reason: 'Idle', message: 'there is nothing to do' };
export const NOT_STALLED: Statement = { status: 'False', reason: 'NotStalled', message: 'nothing needs to be changed' };

/** How far an object is, in the words of kstatus. */
export interface Progress {
  /**
   * done: everything asked for is so; working: it is being made so; stalled: somebody must change something first;
   * unknown: nobody can tell now
   */
  is: 'done' | 'working' | 'stalled' | 'unknown';
  reason: Reason;
  message: string;
}

/** The three conditions of kstatus. Where several parts are at different points, spread and overwrite single ones. */
export function kstatus({ is, ...why }: Progress): Record<'Ready' | 'Reconciling' | 'Stalled', Statement> {
  const ready = { done: 'True', working: 'False', stalled: 'False', unknown: 'Unknown' } as const;
  return {
    Ready: { status: ready[is], ...why },
    Reconciling: is === 'working' ? { status: 'True', ...why } : NOT_RECONCILING,
    Stalled: is === 'stalled' ? { status: 'True', ...why } : NOT_STALLED,
  };
}

interface Frame {
  kind: keyof typeof CONDITIONS_OF;
  generation: number | undefined;
  previous: readonly Condition[] | undefined;
  /** RFC 3339 */
  now: string;
}

/** Conditions that are present whatever their status. */
const ALWAYS: ReadonlySet<ConditionType> = new Set<ConditionType>(['Ready', 'Reconciling', 'Stalled', 'Admitted']);

/** Longest message of a condition, UTF-16 units; statuses are copied to every watcher. */
const LONGEST = 2048;

/**
 * Conditions of an object in the order of the kind's table. The time of a condition moves only when its status does, so
 * that equal facts give an equal status.
 */
export function conditionsOf(
  { kind, generation = 0, previous = [], now }: Frame,
  said: Partial<Record<ConditionType, Statement | undefined>>,
): Condition[] {
  return CONDITIONS_OF[kind].flatMap((type: ConditionType) => {
    const statement = said[type];
    if (!statement || (statement.status !== 'True' && !ALWAYS.has(type))) return [];
    const before = previous.find((condition) => condition.type === type);
    const kept = before?.status === statement.status ? before.lastTransitionTime : now;
    return [
      {
        type,
        status: statement.status,
        observedGeneration: generation,
        lastTransitionTime: kept,
        reason: statement.reason,
        message: shortened(statement.message),
      },
    ];
  });
}

/** Several messages as one: each once, sorted, so that the order in which they were found does not show. */
export function joined(messages: Iterable<string>): string {
  return [...new Set(messages)].sort().join('; ');
}

/**
 * Text that fits. Halves of surrogate pairs are replaced: the API server would store them differently, and every
 * comparison with what is stored would fail.
 */
export const shortened = (text: string, longest = LONGEST): string =>
  (text.length > longest ? `${text.slice(0, longest - 3)}...` : text).toWellFormed();
