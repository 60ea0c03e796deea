import { isStartedLocally, type MicroserviceRecord } from '../../domain/record.ts';
import type { Wait } from '../../domain/step.ts';
import { TIMES } from './backoff.ts';
import type { Context } from './context.ts';

/** System microservices first, then by `schedule`, ascending. */
export function startRank({ isSystem, schedule }: Pick<MicroserviceRecord, 'isSystem' | 'schedule'>): number {
  return (isSystem ? 0 : 1000) + schedule;
}

/** Each microservice waits until those before it are up, but for none of them longer than a minute. */
export function waitForOrder(record: MicroserviceRecord, { desired, records, now }: Context): Wait | undefined {
  if (isStartedLocally(record)) return undefined;
  let until = 0;
  for (const entry of desired.entries) {
    const other = records.get(entry.uuid);
    if (!other || entry.kind !== 'run' || other.stoppedLocally || startRank(other) >= startRank(record)) continue;
    // A microservice that failed is tried again later; those after it do not wait for that.
    if (other.failure) continue;
    if (other.live.downSince !== undefined) until = Math.max(until, other.live.downSince + TIMES.orderWait);
  }
  return until > now ? { uuid: record.uuid, why: 'Order', until } : undefined;
}

/** Microservices that are no longer wanted end in the opposite order. */
export function waitForRemovalOrder(
  record: MicroserviceRecord,
  { desired, records, byUuid, now }: Context,
): Wait | undefined {
  const wanted = new Set(desired.entries.map(({ uuid }) => uuid));
  let until = 0;
  for (const uuid of byUuid.keys()) {
    const other = records.get(uuid);
    if (!other || wanted.has(uuid) || startRank(other) <= startRank(record)) continue;
    if (other.live.unwantedSince !== undefined) until = Math.max(until, other.live.unwantedSince + TIMES.orderWait);
  }
  return until > now ? { uuid: record.uuid, why: 'Order', until } : undefined;
}
