import { LABELS } from '../api/names.ts';
import { CORE_RESOURCES } from '../api/resources.ts';
import { isConflict, type KubeClient } from '../kube/mod.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { expiryOf } from './login-secret.ts';

export interface SweepOptions {
  client: KubeClient;
  namespace: string;
  clock: Clock;
  log: Log;
}

/** From sweep to sweep. */
const PAUSE_MS = 60_000;
/** After its expiry: the clock of the replica that wrote it may be late. */
const GRACE_MS = 60_000;
const SELECTOR = `${LABELS.identity} in (artefact,once)`;

/** Removes what logins stored once it has expired, for as long as this replica leads. */
export async function sweepLogins(options: SweepOptions, signal: AbortSignal): Promise<void> {
  const { clock, log } = options;
  while (!signal.aborted) {
    try {
      await sweepOnce(options, signal);
    } catch (err) {
      if (!signal.aborted) log.warn({ err }, 'Expired logins were not removed');
    }
    await sleep(PAUSE_MS, signal, clock);
  }
}

/** Resolves with the number of removed Secrets. */
export async function sweepOnce({ client, namespace, clock }: SweepOptions, signal: AbortSignal): Promise<number> {
  let removed = 0;
  const query = { namespace, labelSelector: SELECTOR, signal };
  for await (const { items } of client.listPages(CORE_RESOURCES.secrets, query)) {
    for (const secret of items) {
      if (expiryOf(secret) + GRACE_MS > clock.wall()) continue;
      const { name, uid, resourceVersion } = secret.metadata;
      const preconditions = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
      try {
        const { found } = await client.delete(CORE_RESOURCES.secrets, { namespace, name }, { preconditions, signal });
        if (found) removed++;
      } catch (error) {
        // It was written again, with another expiry.
        if (!isConflict(error)) throw error;
      }
    }
  }
  return removed;
}
