import type { Application, EdgeNode } from '../api/v3/index.ts';
import type { Liveness } from './inputs.ts';

/** Longest time that a live node holds a deletion. */
export const DELETION_LIMIT_MS = 5 * 60_000;

/** Whether a deletion must wait, for whom, and when to look again. */
export type Hold = { held: false; because: string } | { held: true; message: string; until: number };

/** Whether an Application in deletion must wait for a live node that still reports its containers. */
export function applicationHold(
  _application: Application,
  _nodes: readonly { node: EdgeNode; liveness: Liveness }[],
  _now: number,
): Hold {
  throw new Error('not written yet');
}

/** Whether an EdgeNode in deletion must wait for its own report. */
export function nodeHold(_node: EdgeNode, _liveness: Liveness, _now: number): Hold {
  throw new Error('not written yet');
}

/** Whether the finalizer belongs on the object: everything that is not in deletion has it. */
export function needsFinalizer(_object: Application | EdgeNode): boolean {
  throw new Error('not written yet');
}
