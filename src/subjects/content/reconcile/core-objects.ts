import { FIELD_MANAGERS, LABELS } from '../../../api/names.ts';
import type { ConfigMap, Secret } from '../../../api/resources.ts';
import type { Application, VolumeMount } from '../../../api/v3/index.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { useMarks } from '../../../controllers/use-marks.ts';
import { allUsers, createUse } from '../../../datastore/use.ts';
import { inUseError, type Kind, referenceKey } from '../../../kinds/definition.ts';
import type { KindObject } from '../../../kinds/object.ts';
import {
  both,
  type Change,
  type Controller,
  createController,
  done,
  keyOf,
  type MutableStore,
  parseKey,
  type Resource,
  refOf,
  watching,
} from '../../../kube/mod.ts';
import { v3Name } from '../../../rules/names.ts';
import { holder } from '../../../rules/precedence.ts';
import { KINDS } from '../../kinds.ts';
import { CORE_KINDS } from '../kinds/core-objects.ts';
import { configMapForm, isShareable, labelledNumber, secretForm, textNameOf } from '../rules/core-objects/form.ts';

type Core = Secret | ConfigMap;

const isMarked = ({ metadata: { labels = {} } }: Core) =>
  [LABELS.inUse, LABELS.usedBySystem].some((label) => labels[label] !== undefined);

/**
 * Secrets or ConfigMaps of the v3 API: the number that clients of v3 know them by, and the labels by which admission
 * policies refuse the deletion of what a microservice uses and the change of what the system uses. They get no finalizer: one that is deleted all the same stops
 * nothing, since nodes keep what they have.
 */
export function createCoreObjectController(deps: ControllerDependencies, key: keyof typeof CORE_KINDS): Controller {
  const { client, stores, ids, log, metrics } = deps;
  const { definition } = CORE_KINDS[key];
  const store = stores[key] as unknown as MutableStore<Core>;
  const resource = store.resource as Resource<Core>;
  const refTo = (name: string) => referenceKey({ to: key, ref: name });
  const named = (name: string) => store.byIndex('name', name).map(keyOf);

  const isUsed = (ref: string) =>
    stores.applications.countByIndex('ref', ref) > 0 ||
    stores.volumeMounts
      .byIndex('ref', ref)
      .some(
        (mount) =>
          stores.applications.countByIndex('ref', referenceKey({ to: 'volumeMounts', ref: v3Name(mount) })) > 0,
      );

  const use = createUse(stores, KINDS, CORE_KINDS[key] as unknown as Kind);
  const mountUse = createUse(stores, KINDS, KINDS.volumeMounts);
  /** The refusal to delete one that a microservice uses, by itself or by a volume mount. */
  function refusalOf(object: Core): string {
    const form = formOf(object);
    const mounts = stores.volumeMounts.byIndex('ref', refTo(textNameOf(object)));
    const users = allUsers([use.first(form), ...mounts.map((mount) => mountUse.first(mount))]);
    return inUseError(CORE_KINDS[key] as unknown as Kind, form, users).message;
  }
  const formOf = (object: Core) =>
    (key === 'secrets' ? secretForm(object as Secret) : configMapForm(object as ConfigMap)) as KindObject;

  /** The recorded number, unless an older object has it, as after a copy. */
  function numberOf(object: Core): number | undefined {
    const id = labelledNumber(object);
    const others = id === undefined ? [] : store.byIndex('id', String(id));
    const first = holder(others as readonly Core[]);
    return first && first.metadata.uid !== object.metadata.uid ? undefined : id;
  }

  const sourcesOf = (mount: VolumeMount) =>
    Array.from(KINDS.volumeMounts.references?.(mount) ?? []).flatMap(({ to, ref }) =>
      to === key ? named(String(ref)) : [],
    );
  const usedBy = (application: Application) =>
    Array.from(KINDS.applications.references?.(application) ?? []).flatMap(({ to, ref }) => {
      if (to === key) return named(String(ref));
      return to === 'volumeMounts' ? stores.volumeMounts.byIndex('name', String(ref)).flatMap(sourcesOf) : [];
    });
  const isLater = (change: Change<Application> | Change<VolumeMount>) =>
    !change.initial && changesMoreThanStatus(change as Change<Application>);

  return createController({
    name: `core-${definition.singular}`,
    watches: [
      watching(store, ({ key: changed, object }) => (isShareable(object) || isMarked(object) ? [changed] : [])),
      // Objects that exist at the start are reconciled anyway.
      watching(stores.applications, (change) => (isLater(change) ? both(usedBy)(change) : [])),
      watching(stores.volumeMounts, (change) => (isLater(change) ? both(sourcesOf)(change) : [])),
    ],
    async reconcile(at, { signal }) {
      const { namespace, name } = parseKey(at);
      const object = store.get(namespace, name);
      if (!object || object.metadata.deletionTimestamp) return done();
      const isOurs = isShareable(object);
      const inUse = isOurs && isUsed(refTo(textNameOf(object)));
      const id = isOurs ? (numberOf(object) ?? (await ids.next(definition.kind, signal))) : undefined;
      const known = object.metadata.labels ?? {};
      const labels = {
        ...(id !== undefined && known[LABELS.id] !== String(id) && { [LABELS.id]: String(id) }),
      };
      const usedBySystem = isOurs && use.isUsedBySystem(formOf(object));
      const refusal = inUse ? refusalOf(object) : undefined;
      const marks = useMarks(object.metadata, { inUse, refusal, usedBySystem });
      if (Object.keys(labels).length === 0 && !marks) return done();
      const { resourceVersion } = object.metadata;
      const body = { metadata: { resourceVersion, ...marks, labels: { ...labels, ...marks?.labels } } };
      await client.patch(
        resource,
        refOf(object),
        { type: 'merge', body },
        { signal, fieldManager: FIELD_MANAGERS.controller },
      );
      return done();
    },
    log,
    metrics,
  });
}
