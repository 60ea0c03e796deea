import type { EdgeNode } from '../../api/v3/index.ts';
import type { Liveness, Observation } from '../inputs.ts';

/** Milliseconds without a sign of life after which a node counts as silent: max(3 x statusFrequency, hold + 30 s). */
export function silenceLimit(_node: EdgeNode, _holdSeconds?: number): number {
  throw new Error('not written yet');
}

/**
 * Whether a node is heard of. `listeningSince` (Unix ms) is when this process began to listen: nobody is silent before
 * it has listened for one limit. Computed reads and the leader ask the same function.
 */
export function liveness(
  _node: EdgeNode,
  _observation: Pick<Observation, 'contactAt' | 'reportedAt' | 'holdSeconds'> | undefined,
  _now: number,
  _listeningSince: number,
): Liveness {
  throw new Error('not written yet');
}

/** When (Unix ms) a live node turns silent if nothing more is heard of it; undefined when it cannot. */
export function silentAt(
  _node: EdgeNode,
  _observation: Pick<Observation, 'contactAt' | 'reportedAt' | 'holdSeconds'> | undefined,
  _listeningSince: number,
): number | undefined {
  throw new Error('not written yet');
}

/** One node as mass silence is judged by. */
export interface SilenceFacts {
  /** Unix ms of its last sign of life */
  contactAt: number;
  /** its silence limit, ms */
  limit: number;
}

/** More than 30 % of the nodes that lived one limit ago have fallen silent since: first our own fault. */
export function massSilence(
  _nodes: readonly SilenceFacts[],
  _now: number,
): { suspected: boolean; live: number; fellSilent: number } {
  throw new Error('not written yet');
}
