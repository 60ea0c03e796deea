import type { Application, ApplicationSpec, EdgeNode } from '../../api/v3/index.ts';
import type { MicroserviceStatus } from '../../wire/index.ts';
import type { Liveness } from '../inputs.ts';
import type { ApplicationUpload } from '../upload/application.ts';

/** What reads of applications need besides the objects. */
export interface ReadContext {
  nodeByName: (name: string) => EdgeNode | undefined;
  nodeByUuid: (uuid: string) => EdgeNode | undefined;
  liveness: (node: EdgeNode) => Liveness;
  /** item of the node's latest report, when this replica has it */
  live: (node: EdgeNode, microserviceUuid: string) => MicroserviceStatus | undefined;
  /** nodes that still report a microservice of this application (by v3 name) */
  nodesReporting: (application: string) => readonly EdgeNode[];
  registryId: (ref: number | string) => number | undefined;
}

/** The v3 read of an application, its microservices in full; removed ones that are still reported have `delete: true`. */
export function applicationRead(_application: Application, _context: ReadContext): Record<string, unknown> {
  throw new Error('not written yet');
}

/** The v3 reads of all microservices of an application, removed ones included. */
export function microserviceReads(_application: Application, _context: ReadContext): Record<string, unknown>[] {
  throw new Error('not written yet');
}

/**
 * The spec after a PUT of the application's state (design section 2.1): absent microservices leave them, an empty list
 * removes all, an entry kept by name keeps uuid and activation unless the body sets them. Rebuild counts are annotations
 * and stay; an order of the body comes back in `rebuild`.
 */
export function replaceState(
  _old: Application,
  _body: ApplicationUpload,
): { spec: ApplicationSpec; rebuild: readonly string[] } {
  throw new Error('not written yet');
}
