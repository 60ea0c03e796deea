import type { KubeClient } from './client.ts';
import { LEASES } from './lease.ts';

/** Milliseconds since a holder last renewed the Lease, by the clock that `now` (Unix ms) comes from; undefined without a Lease. */
export async function leaseAge(
  client: Pick<KubeClient, 'find'>,
  ref: { namespace: string; name: string },
  now: number,
): Promise<number | undefined> {
  const lease = await client.find(LEASES, ref, { timeoutMs: 5_000 });
  const renewedAt = Date.parse(lease?.spec?.renewTime ?? '');
  return Number.isNaN(renewedAt) ? undefined : now - renewedAt;
}
