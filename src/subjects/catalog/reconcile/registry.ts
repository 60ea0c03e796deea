import { ANNOTATIONS, FIELD_MANAGERS } from '../../../api/names.ts';
import type { Registry } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { isOwnedBy, registryOf } from '../../../datastore/keyed-text.ts';
import { type Controller, done, keyOf, refOf, requeueAfter, watching } from '../../../kube/mod.ts';
import { KINDS, RESOURCES } from '../../kinds.ts';
import { isDraft } from '../rules/registry.ts';
import { destinationText } from '../rules/registry-destination.ts';
import { passwordObstacle } from '../rules/registry-status.ts';

/** Age at which a draft is deleted: far longer than a request takes. */
const DRAFT_MS = 60_000;

/** Registry: drafts of REST, and passwords. */
export function createRegistryController(deps: ControllerDependencies): Controller {
  const { client, stores, clock } = deps;
  const resource = RESOURCES.registries;

  /** REST completes a draft at once unless its replica ended before. */
  async function removeDraft(draft: Registry, signal: AbortSignal) {
    const { uid, resourceVersion, creationTimestamp } = draft.metadata;
    const left = Date.parse(creationTimestamp ?? '') + DRAFT_MS - clock();
    if (left > 0) return requeueAfter(left);
    await client.delete(resource, refOf(draft), { signal, preconditions: { uid, resourceVersion } });
    return done();
  }

  /**
   * Binds a Secret that a registry owns to the present destination of the registry when it names none: it was written by
   * hand, or before Secrets named their destination.
   */
  async function bindPassword(registry: Registry, signal: AbortSignal) {
    const ref = registry.spec.passwordSecretRef;
    const secret = ref && stores.secrets.get(registry.metadata.namespace, ref.name);
    if (!secret || registryOf(secret) !== undefined || !isOwnedBy(secret, registry)) return;
    const body = {
      metadata: {
        resourceVersion: secret.metadata.resourceVersion,
        annotations: { [ANNOTATIONS.registry]: destinationText(registry.spec) },
      },
    };
    await client.patch(
      RESOURCES.secrets,
      refOf(secret),
      { type: 'merge', body },
      { signal, fieldManager: FIELD_MANAGERS.controller },
    );
  }

  return createKindController(deps, KINDS.registries, {
    takeOver: (registry, signal) =>
      isDraft(registry) && !registry.metadata.deletionTimestamp ? removeDraft(registry, signal) : undefined,
    prepare: bindPassword,
    obstacle: (registry) => passwordObstacle(registry, deps.lookups.registryPassword(registry) !== undefined),
    watches: [
      watching(stores.secrets, ({ object }) => stores.registries.byIndex('secret', object.metadata.name).map(keyOf)),
    ],
  });
}
