import { FIELD_MANAGERS, LABELS } from '../../../api/names.ts';
import type { ConfigMap, Secret } from '../../../api/resources.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { useMarks } from '../../../controllers/use-marks.ts';
import { storeOf } from '../../../datastore/stores.ts';
import { referrersOf } from '../../../datastore/use.ts';
import { inUseError, type Kind } from '../../../kinds/definition.ts';
import type { KindObject } from '../../../kinds/object.ts';
import {
  both,
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
import { holder } from '../../../rules/precedence.ts';
import { KINDS } from '../../kinds.ts';
import { CORE_KINDS } from '../kinds/core-objects.ts';
import { isShareable, labelledNumber } from '../rules/core-objects/form.ts';
import { createContentUse } from './content-use.ts';

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
  const kind = CORE_KINDS[key] as unknown as Kind;
  const { definition } = kind;
  const store = stores[key] as unknown as MutableStore<Core>;
  const resource = store.resource as Resource<Core>;
  const named = (name: string) => store.byIndex('name', name).map(keyOf);

  const use = createContentUse(stores, key);

  /** The recorded number, unless an older object has it, as after a copy. */
  function numberOf(object: Core): number | undefined {
    const id = labelledNumber(object);
    const others = id === undefined ? [] : store.byIndex('id', String(id));
    const first = holder(others as readonly Core[]);
    return first && first.metadata.uid !== object.metadata.uid ? undefined : id;
  }

  const sourcesOf = (mount: KindObject): string[] => namedBy(KINDS.volumeMounts as unknown as Kind, mount);
  const namedBy = (source: Kind, object: KindObject): string[] =>
    Array.from(source.references?.(object) ?? []).flatMap(({ to, ref }) => {
      if (to === key) return named(String(ref));
      return to === 'volumeMounts' ? stores.volumeMounts.byIndex('name', String(ref)).flatMap(sourcesOf) : [];
    });
  // Objects that exist at the start are reconciled anyway.
  const watchReferrer = (source: Kind) =>
    watching(storeOf(stores, source), (change) =>
      !change.initial && changesMoreThanStatus(change)
        ? both((object: KindObject) => namedBy(source, object))(change)
        : [],
    );

  return createController({
    name: `core-${definition.singular}`,
    watches: [
      watching(store, ({ key: changed, object }) => (isShareable(object) || isMarked(object) ? [changed] : [])),
      ...referrersOf(KINDS).map(watchReferrer),
    ],
    async reconcile(at, { signal }) {
      const { namespace, name } = parseKey(at);
      const object = store.get(namespace, name);
      if (!object || object.metadata.deletionTimestamp) return done();
      const isOurs = isShareable(object);
      const inUse = isOurs && use.isUsed(object);
      const id = isOurs ? (numberOf(object) ?? (await ids.next(definition.kind, signal))) : undefined;
      const known = object.metadata.labels ?? {};
      const labels = {
        ...(id !== undefined && known[LABELS.id] !== String(id) && { [LABELS.id]: String(id) }),
      };
      const usedBySystem = isOurs && use.isUsedBySystem(object);
      const refusal = inUse ? inUseError(kind, use.formOf(object), use.first(object)).message : undefined;
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
