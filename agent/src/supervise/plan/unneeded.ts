import type { MicroserviceRecord } from '../../domain/record.ts';
import { type Desired, isUnwanted } from '../../domain/wanted.ts';
import { type Container, hasRun, isRunning, latestOf } from '../../engine-port/container.ts';

/**
 * The stopped containers that nothing needs: all of a microservice that is not wanted, and of a wanted one those that ran before
 * its latest container. A container is needed unless it is known to be unneeded: a microservice without an entry that may be wanted, a container
 * that has not run yet, and the container of the last good revision, to which a failed update returns. Pure.
 */
export function unneededContainers(
  containers: readonly Container[],
  desired: Desired,
  records: ReadonlyMap<string, Pick<MicroserviceRecord, 'uuid' | 'isKept' | 'lastGood'>>,
): Container[] {
  const wanted = new Set(desired.entries.map(({ uuid }) => uuid));
  return containers.filter((container) => {
    const { uuid, revision, paused } = container;
    if (isRunning(container) || paused) return false;
    if (!wanted.has(uuid)) return isUnwanted(desired, records.get(uuid) ?? { uuid });
    const isLastGood = revision === records.get(uuid)?.lastGood?.revision;
    return hasRun(container) && !isLastGood && latestOf(containers, uuid)?.id !== container.id;
  });
}
