import type { MicroserviceState } from '../../wire/index.ts';
import type { Liveness } from '../inputs.ts';

/**
 * The state of a microservice, in one place: REST reads, the status of its Application and the status of its node show
 * the same word for the same facts.
 */

/** What the state of an entry depends on. */
export interface StateFacts {
  /** what its node reported last; absent without a node or a report */
  reported: string | undefined;
  liveness: Liveness | undefined;
  /** whether it should run */
  wanted: boolean;
  /** whether its application is being deleted */
  deleting: boolean;
}

/** States in which no container of the microservice runs or is about to. */
const AT_REST: ReadonlySet<string> = new Set(['STOPPED', 'DELETED', 'UNKNOWN']);

/** What the node reported, what silence makes of it, and what was just asked for. */
export function stateOf({ reported, liveness, wanted, deleting }: StateFacts): MicroserviceState {
  if (reported === undefined || liveness === 'never') return wanted ? 'QUEUED' : 'STOPPED';
  if (liveness === 'silent') return stateInSilence(reported, wanted);
  if (wanted) return reported as MicroserviceState;
  if (AT_REST.has(reported)) return 'STOPPED';
  return deleting ? 'DELETING' : 'STOPPING';
}

/** On a silent node: unknown, except that what had stopped as asked is still stopped. */
export function stateInSilence(reported: string, wanted: boolean): MicroserviceState {
  return !wanted && reported === 'STOPPED' ? 'STOPPED' : 'UNKNOWN';
}

/** The state of what no entry places on the node any more, while the node still reports it. */
export function removedState(reported: string, liveness: Liveness | undefined): MicroserviceState {
  if (liveness === 'silent') return 'UNKNOWN';
  return reported === 'STOPPED' || reported === 'DELETED' ? 'DELETED' : 'DELETING';
}
