import { LABELS } from '../api/names.ts';
import { RESOURCES } from '../api/resources.ts';
import { type Controller, createController, done, parseKey, refOf, requeueAfter, watching } from '../kube/mod.ts';
import { decodeData } from '../stores/keyed-text.ts';
import type { Leader } from './leader.ts';

/** A used key answers the same agent again until it expires; a little later it can go. */
const GRACE_MS = 60_000;

/** Provisioning keys: removes those that expired, used or not. */
export function createProvisioningKeyController({ client, stores, clock, log, metrics }: Leader): Controller {
  const isKey = (secret: { metadata: { labels?: Record<string, string> } }) =>
    secret.metadata.labels?.[LABELS.provisioningKey] !== undefined;

  return createController({
    name: 'provisioning-key',
    watches: [watching(stores.secrets, (change) => (isKey(change.object) ? [change.key] : []))],
    async reconcile(key, { signal }) {
      const { namespace, name } = parseKey(key);
      const secret = stores.secrets.get(namespace, name);
      if (!secret || !isKey(secret)) return done();
      const expiresAt = Number(decodeData(secret.data).expiresAt);
      const goesAt = (Number.isFinite(expiresAt) ? expiresAt : 0) + GRACE_MS;
      if (clock() < goesAt) return requeueAfter(goesAt - clock());
      const { uid, resourceVersion } = secret.metadata;
      await client.delete(RESOURCES.secrets, refOf(secret), { signal, preconditions: { uid, resourceVersion } });
      return done();
    },
    log,
    metrics,
  });
}
