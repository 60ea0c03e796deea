import type { Application, EdgeNode, MicroserviceEntry, ObservedMicroservice } from '../../api/v3/index.ts';
import type { MicroserviceStatus } from '../../wire/index.ts';
import type { Liveness } from '../inputs.ts';

/** What is known of one microservice at the moment of a read. */
export interface MicroserviceFacts {
  application: Application;
  entry: MicroserviceEntry;
  /** the node that the entry names, when it exists */
  node?: EdgeNode;
  liveness?: Liveness;
  /** item of the node's status */
  observed?: ObservedMicroservice;
  /** item of the node's latest report, when this replica has it */
  live?: MicroserviceStatus;
  registryId?: (ref: number | string) => number | undefined;
}

/** State of a microservice as v3 shows it: what the node said, what silence makes of it, what was just asked for. */
export function microserviceState(_facts: Omit<MicroserviceFacts, 'registryId'>): string {
  throw new Error('not written yet');
}

/** The full v3 read of a microservice (document 1; gaps-01 section 2.2). */
export function microserviceRead(_facts: MicroserviceFacts): Record<string, unknown> {
  throw new Error('not written yet');
}

/** The read of a removed microservice that its node still reports: `delete: true`. */
export function removedRead(
  _application: Application,
  _node: EdgeNode,
  _observed: ObservedMicroservice,
): Record<string, unknown> {
  throw new Error('not written yet');
}
