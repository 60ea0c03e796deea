import type { EdgeNode, EdgeNodeStatus } from '../../api/v3/index.ts';
import type { StatusReport } from '../../wire/index.ts';
import type { DesiredState, Observation, Verdict } from '../inputs.ts';

export * from './liveness.ts';

/** The report after a delta: absent members keep their value; microserviceStatus, when present, is the whole list. */
export function mergeReport(_report: StatusReport, _delta: StatusReport): StatusReport {
  throw new Error('not written yet');
}

/** What the status of a node is computed from. */
export interface NodeStatusInputs {
  node: EdgeNode;
  /** absent until something was heard since the leader began to listen */
  observation?: Observation;
  desired?: Pick<DesiredState, 'microservices' | 'entries'>;
  /** NameTaken or UuidTaken */
  identity?: Verdict;
  /** Unix ms */
  now: number;
  /** Unix ms, when the leader began to listen */
  listeningSince: number;
}

/** Status of a node. Stable: without news it equals the stored one, except lastSeenTime once in five minutes. */
export function nodeStatus(_inputs: NodeStatusInputs): EdgeNodeStatus {
  throw new Error('not written yet');
}
