import type { BusUser } from '../../../api/v3/bus-user.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { entryUuid } from '../../../rules/names.ts';
import { currentNodeOf } from '../../nodes/rules/placement/entries.ts';

/** The machine gets new credentials before the former ones end, and a machine that does not report them holds up nothing longer. */
const LONGEST_MS = 2_000;
const LOOK_MS = 200;

/** Whether the machines of users have their new credentials. */
export function createHandOver({
  stores,
  lookups,
  observations,
  desired,
  liveness,
  clock,
}: Pick<ControllerDependencies, 'stores' | 'lookups' | 'observations' | 'desired' | 'liveness' | 'clock'>) {
  /** when the new credentials of a user were made, Unix ms, by uid */
  const since = new Map<string, number>();
  const keyOf = ({ metadata: { uid = '' } }: BusUser) => uid;

  function nodeOf({ spec: { microserviceUuid, node } }: BusUser): EdgeNode | undefined {
    if (node !== undefined) return lookups.nodeByName(node);
    if (microserviceUuid === undefined) return undefined;
    for (const application of stores.applications.byIndex('microservice', microserviceUuid))
      for (const entry of application.spec.microservices ?? [])
        if (entryUuid(application, entry) === microserviceUuid) return currentNodeOf(application, entry, lookups);
    return undefined;
  }

  function isOnMachine(user: BusUser): boolean {
    const node = nodeOf(user);
    // Nobody waits for a machine that does not answer: it gets both at once.
    if (!node || liveness(node) !== 'live') return true;
    const wanted = desired(node)?.digests.systemFiles;
    return wanted === undefined || observations.get(nodeUuid(node))?.report?.systemFiles?.digest === wanted;
  }

  return {
    /** Whether the former key of a user may end now; `issuedAt` is the time in the token of the present one, Unix s. */
    isDone(user: BusUser, issuedAt: number): boolean {
      // A token may be of a clock that was ahead.
      const began = since.get(keyOf(user)) ?? Math.min(clock(), issuedAt * 1_000);
      since.set(keyOf(user), began);
      return clock() - began >= LONGEST_MS || isOnMachine(user);
    },
    forget: (user: BusUser): void => void since.delete(keyOf(user)),
    /** Unix ms of the next look */
    dueAt: (user: BusUser): number | undefined => (since.has(keyOf(user)) ? clock() + LOOK_MS : undefined),
  };
}
