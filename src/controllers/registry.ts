import { ANNOTATIONS, API_VERSION, FIELD_MANAGERS } from '../api/names.ts';
import type { Registry } from '../api/v3/index.ts';
import { BUILT_INS, destinationText, isDraft, passwordObstacle } from '../domain/index.ts';
import { KINDS, RESOURCES } from '../kinds/index.ts';
import {
  type Controller,
  done,
  isAlreadyExists,
  keyFor,
  keyOf,
  type ObjectRef,
  refOf,
  requeueAfter,
  type Watch,
  watching,
} from '../kube/mod.ts';
import { isOwnedBy, registryOf } from '../stores/keyed-text.ts';
import type { ControllerDependencies } from './dependencies.ts';
import { createKindController } from './kind.ts';

/** Age at which a draft is deleted: far longer than a request takes. */
const DRAFT_MS = 60_000;

/** Registry: the two that always exist, drafts of REST, and passwords. */
export function createRegistryController(deps: ControllerDependencies): Controller {
  const { client, stores, namespace, clock } = deps;
  const resource = RESOURCES.registries;

  /** REST completes a draft at once unless its replica ended before. */
  async function removeDraft(draft: Registry, signal: AbortSignal) {
    const { uid, resourceVersion, creationTimestamp } = draft.metadata;
    const left = Date.parse(creationTimestamp ?? '') + DRAFT_MS - clock();
    if (left > 0) return requeueAfter(left);
    await client.delete(resource, refOf(draft), { signal, preconditions: { uid, resourceVersion } });
    return done();
  }

  async function createMissing(ref: ObjectRef, signal: AbortSignal): Promise<Registry | undefined> {
    const builtIn = BUILT_INS.find(({ name }) => name === ref.name && ref.namespace === namespace);
    if (!builtIn) return undefined;
    const { name, spec } = builtIn;
    const object: Registry = { apiVersion: API_VERSION, kind: resource.kind, metadata: { name, namespace }, spec };
    return client
      .create(resource, object, { signal, fieldManager: FIELD_MANAGERS.controller })
      .catch((error: unknown) => {
        // Another replica created it, or the store does not show it yet: its change causes another run.
        if (isAlreadyExists(error)) return undefined;
        throw error;
      });
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

  /** Built-in registries are reconciled from the start, also when they do not exist. */
  const builtIns: Watch = {
    whenSynced: (signal) => stores.registries.whenSynced(signal),
    start(enqueue) {
      for (const { name } of BUILT_INS) enqueue(keyFor(namespace, name), true);
      return { [Symbol.dispose]: () => {} };
    },
  };
  return createKindController(deps, KINDS.registries, {
    createMissing,
    takeOver: (registry, signal) =>
      isDraft(registry) && !registry.metadata.deletionTimestamp ? removeDraft(registry, signal) : undefined,
    prepare: bindPassword,
    obstacle: (registry) => passwordObstacle(registry, deps.lookups.registryPassword(registry) !== undefined),
    watches: [
      builtIns,
      watching(stores.secrets, ({ object }) => stores.registries.byIndex('secret', object.metadata.name).map(keyOf)),
    ],
  });
}
