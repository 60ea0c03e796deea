import type { Liveness } from '../../../rules/inputs.ts';
import type { MicroserviceState } from '../../../wire/agent.ts';

/**
 * The state of a microservice. REST reads, the status of its Application and the status of its node show
 * the same state for the same inputs.
 */

/** The inputs of the state of an entry. */
export interface StateFacts {
  /** the last reported state; absent without a node or a report */
  reported: string | undefined;
  liveness: Liveness | undefined;
  /** whether it should run */
  wanted: boolean;
  /** whether its application is being deleted */
  deleting: boolean;
}

/** States in which no container of the microservice runs or is about to. */
const AT_REST: ReadonlySet<string> = new Set(['STOPPED', 'DELETED', 'UNKNOWN']);

/** The state by the report of the node, by silence, and by the spec. */
export function stateOf({ reported, liveness, wanted, deleting }: StateFacts): MicroserviceState {
  if (reported === undefined || liveness === 'never') return wanted ? 'QUEUED' : 'STOPPED';
  if (liveness === 'silent') return stateInSilence(reported, wanted);
  if (wanted) return reported as MicroserviceState;
  if (AT_REST.has(reported)) return 'STOPPED';
  return deleting ? 'DELETING' : 'STOPPING';
}

/** The state on a silent node: UNKNOWN, except that a microservice that had stopped as asked is still STOPPED. */
export function stateInSilence(reported: string, wanted: boolean): MicroserviceState {
  return !wanted && reported === 'STOPPED' ? 'STOPPED' : 'UNKNOWN';
}

/** The state of a removed microservice that its node still reports. */
export function removedState(reported: string, liveness: Liveness | undefined): MicroserviceState {
  if (liveness === 'silent') return 'UNKNOWN';
  return reported === 'STOPPED' || reported === 'DELETED' ? 'DELETED' : 'DELETING';
}
