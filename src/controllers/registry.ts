import { ANNOTATIONS, API_VERSION, FIELD_MANAGERS, FINALIZERS, LABELS } from '../api/names.ts';
import type { Application, Registry } from '../api/v3/index.ts';
import {
  BUILT_INS,
  destinationText,
  identityLabels,
  idVerdict,
  isDraft,
  isReserved,
  isUsed,
  nameTaken,
  refsTo,
  registryRefsOf,
  registryStatus,
  registryUsers,
  v3Name,
} from '../domain/index.ts';
import { KINDS, RESOURCES } from '../kinds/index.ts';
import {
  both,
  type Controller,
  createController,
  done,
  isAlreadyExists,
  keyFor,
  keyOf,
  parseKey,
  refOf,
  removeFinalizer,
  requeueAfter,
  type Watch,
  watching,
} from '../kube/mod.ts';
import { isOwnedBy, registryOf } from '../stores/keyed-text.ts';
import { oldest } from '../stores/oldest.ts';
import { registryUse } from '../stores/world.ts';
import { changesMoreThanStatus } from './change-filter.ts';
import type { ControllerDependencies } from './dependencies.ts';
import { holderOf, identityOf } from './identity.ts';
import { stamp } from './stamp.ts';
import { createStatusWriter, REFUSED_RETRY_MS } from './status-writer.ts';

/** Far longer than a request takes. */
const DRAFT_MS = 60_000;

/** Registry: numbers, the two that always exist, and protection of those in use. */
export function createRegistryController(leader: ControllerDependencies): Controller {
  const { client, stores, namespace, ids, clock, log, metrics } = leader;
  const resource = RESOURCES.registries;
  const statuses = createStatusWriter(leader, KINDS.registries);
  const use = registryUse(stores);

  async function reconcile(key: string, { signal }: { signal: AbortSignal }) {
    const ref = parseKey(key);
    const builtIn = BUILT_INS.find(({ name }) => name === ref.name && ref.namespace === namespace);
    const stored =
      stores.registries.get(ref.namespace, ref.name) ?? (builtIn && (await createBuiltIn(builtIn, signal)));
    if (!stored) return done();
    const deleting = stored.metadata.deletionTimestamp !== undefined;
    if (isDraft(stored) && !deleting) return removeDraft(stored, signal);
    const used = isUsed(stored, use);
    if (deleting && !used) {
      await removeFinalizer(client, resource, stored, FINALIZERS.inUse, { signal });
      return done();
    }
    const withId = (id: number) => stores.registries.byIndex('id', String(id));
    const identity = await identityOf(stored, {
      withId,
      isReserved: (id) => isReserved(stored, id),
      nextId: () => ids.next('Registry', signal),
    });
    const named = oldest(stores.registries.byIndex('name', v3Name(stored)));
    const rival =
      named && named.metadata.uid !== stored.metadata.uid
        ? nameTaken('registry', v3Name(stored), named.metadata.name)
        : idVerdict(stored, identity.id, holderOf(stored.spec.id === undefined ? [] : withId(stored.spec.id), stored));
    const stamps = { finalizer: FINALIZERS.inUse, labels: identityLabels(identity) };
    const registry = deleting
      ? stored
      : await stamp(client, resource, await mark(stored, used, signal), stamps, signal);
    await bindPassword(registry, signal);
    const judged = registryStatus({
      registry,
      ...(rival && { identity: rival }),
      // Only that message names them.
      users: deleting ? registryUsers(registry, use) : [],
      hasPassword: hasPassword(registry),
      now: new Date(clock()).toISOString(),
    });
    const { refused } = await statuses.write(registry, { ...judged, ...identity }, signal);
    return refused ? requeueAfter(REFUSED_RETRY_MS) : done();
  }

  /** REST finishes it in a moment, unless its replica died in between. */
  async function removeDraft(draft: Registry, signal: AbortSignal) {
    const { uid, resourceVersion, creationTimestamp } = draft.metadata;
    const left = Date.parse(creationTimestamp ?? '') + DRAFT_MS - clock();
    if (left > 0) return requeueAfter(left);
    await client.delete(resource, refOf(draft), { signal, preconditions: { uid, resourceVersion } });
    return done();
  }

  async function createBuiltIn(
    { name, spec }: (typeof BUILT_INS)[number],
    signal: AbortSignal,
  ): Promise<Registry | undefined> {
    const object: Registry = { apiVersion: API_VERSION, kind: resource.kind, metadata: { name, namespace }, spec };
    return client
      .create(resource, object, { signal, fieldManager: FIELD_MANAGERS.controller })
      .catch((error: unknown) => {
        // Another replica's, or one that our view does not show yet: its change brings us back.
        if (isAlreadyExists(error)) return undefined;
        throw error;
      });
  }

  /**
   * A Secret that a registry owns is for where the registry is when the two are first seen together: one that was written
   * before Secrets named their registry, or by hand.
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

  /** The label by which the admission policy refuses to delete what is in use. */
  async function mark(registry: Registry, inUse: boolean, signal: AbortSignal): Promise<Registry> {
    if ((registry.metadata.labels?.[LABELS.inUse] === 'true') === inUse) return registry;
    const body = {
      metadata: {
        resourceVersion: registry.metadata.resourceVersion,
        labels: { [LABELS.inUse]: inUse ? 'true' : null },
      },
    };
    return client.patch(
      resource,
      refOf(registry),
      { type: 'merge', body },
      { signal, fieldManager: FIELD_MANAGERS.controller },
    );
  }

  const hasPassword = (registry: Registry) =>
    registry.spec.passwordSecretRef === undefined || leader.world.registryPassword(registry) !== undefined;

  const named = (ref: number | string) =>
    stores.registries.byIndex(typeof ref === 'number' ? 'id' : 'name', String(ref)).map(keyOf);
  const namesakes = (registry: Registry) => refsTo(registry).flatMap(named);
  const usedBy = (application: Application) => [...registryRefsOf(application)].flatMap(named);
  /** The built-in ones are looked at from the start, whether they exist or not. */
  const builtIns: Watch = {
    whenSynced: (signal) => stores.registries.whenSynced(signal),
    start(enqueue) {
      for (const { name } of BUILT_INS) enqueue(keyFor(namespace, name), true);
      return { [Symbol.dispose]: () => {} };
    },
  };
  return createController({
    name: 'registry',
    watches: [
      builtIns,
      // An older one may have had its name or id.
      watching(stores.registries, (change) =>
        changesMoreThanStatus(change) || statuses.isForeign(change) ? [change.key, ...both(namesakes)(change)] : [],
      ),
      // All that is there is looked at anyway.
      watching(stores.applications, (change) =>
        changesMoreThanStatus(change) && !change.initial ? both(usedBy)(change) : [],
      ),
      watching(stores.secrets, ({ object }) => stores.registries.byIndex('secret', object.metadata.name).map(keyOf)),
    ],
    reconcile,
    log,
    metrics,
  });
}
