import type { Entry } from './entry.ts';
import { isLocalUuid } from './local-uuid.ts';
import type { MicroserviceRecord } from './record.ts';

/** Who wants a microservice: a controller, the machine itself, or the machine as its control plane. */
export type MicroserviceSource = 'managed' | 'local' | 'controlplane';

/** What this machine is to run, as far as each source is known. */
export interface Desired {
  readonly entries: readonly Entry[];
  /** microservices of the machine itself that a person has removed */
  readonly removed: ReadonlySet<string>;
  /** whether the list of the controller is known: then its own microservices that it does not name are not wanted */
  readonly isListKnown: boolean;
}

export const NOTHING_KNOWN: Desired = { entries: [], removed: new Set(), isListKnown: false };

/** Whether a microservice is the machine's own, as far as its uuid and its record say. */
export function isMachinesOwn({ uuid, isKept }: Pick<MicroserviceRecord, 'uuid' | 'isKept'>): boolean {
  return isLocalUuid(uuid) || isKept === true;
}

/**
 * Whether it is known that a microservice without an entry is not wanted. The list of a controller says nothing of the
 * machine's own microservices: the row of one may be lost or damaged, and ends by the order of a person alone.
 */
export function isUnwanted(
  { removed, isListKnown }: Pick<Desired, 'removed' | 'isListKnown'>,
  microservice: Pick<MicroserviceRecord, 'uuid' | 'isKept'>,
): boolean {
  return removed.has(microservice.uuid) || (isListKnown && !isMachinesOwn(microservice));
}
