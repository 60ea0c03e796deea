import type { Secret } from '../../../api/resources.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { isReplacedBy, provisioningKeyOf, readProvisioningKey } from '../../../datastore/provisioning-key.ts';
import {
  type Controller,
  createController,
  done,
  keyOf,
  parseKey,
  refOf,
  requeueAfter,
  watching,
} from '../../../kube/mod.ts';
import { RESOURCES } from '../../kinds.ts';

/** The same agent may repeat its request with a used key until the key expires; this time later the key is deleted. */
const GRACE_MS = 60_000;

/** Deletes provisioning keys that expired, used or not, and those that a later one replaced. */
export function createProvisioningKeyController({
  client,
  stores,
  clock,
  log,
  metrics,
}: ControllerDependencies): Controller {
  const isKey = (secret: Secret) => provisioningKeyOf(secret).length > 0;
  const ofTheSameNode = (secret: Secret) =>
    provisioningKeyOf(secret).flatMap((uuid) => stores.secrets.byIndex('provisioningKeyOf', uuid));
  const isReplaced = (secret: Secret) => ofTheSameNode(secret).some((other) => isReplacedBy(secret, other));

  return createController({
    name: 'provisioning-key',
    watches: [watching(stores.secrets, (change) => ofTheSameNode(change.object).map(keyOf))],
    async reconcile(key, { signal }) {
      const { namespace, name } = parseKey(key);
      const secret = stores.secrets.get(namespace, name);
      if (!secret || !isKey(secret)) return done();
      const goesAt = (readProvisioningKey(secret)?.expiresAt ?? 0) + GRACE_MS;
      if (clock() < goesAt && !isReplaced(secret)) return requeueAfter(goesAt - clock());
      const { uid, resourceVersion } = secret.metadata;
      await client.delete(RESOURCES.secrets, refOf(secret), { signal, preconditions: { uid, resourceVersion } });
      return done();
    },
    log,
    metrics,
  });
}
