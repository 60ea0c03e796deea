import type { Entry } from '../../domain/entry.ts';
import type { MicroserviceRecord } from '../../domain/record.ts';
import { type Container, hasRun, isRunning, latestOf } from '../../engine-port/container.ts';

/**
 * The stopped containers that nothing needs: all of a microservice that is not wanted, and of a wanted one those that ran before
 * its latest container. What is not known to be unneeded is needed: everything while `desired` is unknown, a container that has
 * not run yet, and the container of the last good revision, to which a failed update returns. Pure.
 */
export function unneededContainers(
  containers: readonly Container[],
  desired: readonly Entry[] | undefined,
  records: ReadonlyMap<string, Pick<MicroserviceRecord, 'lastGood'>>,
): Container[] {
  if (!desired) return [];
  const wanted = new Set(desired.map(({ uuid }) => uuid));
  return containers.filter((container) => {
    const { uuid, revision, paused } = container;
    if (isRunning(container) || paused) return false;
    if (!wanted.has(uuid)) return true;
    const isLastGood = revision === records.get(uuid)?.lastGood?.revision;
    return hasRun(container) && !isLastGood && latestOf(containers, uuid)?.id !== container.id;
  });
}
