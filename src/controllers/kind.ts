import { API_VERSION, FIELD_MANAGERS, FINALIZERS } from '../api/names.ts';
import { holderIn } from '../datastore/holder.ts';
import { storeOf } from '../datastore/stores.ts';
import { createReferences, createUse, referrersOf, type UserIndex } from '../datastore/use.ts';
import { inUseError, type Kind, nameIn, referenceKey, refsTo } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import {
  both,
  type Change,
  type Controller,
  createController,
  done,
  isAlreadyExists,
  keyFor,
  keyOf,
  type ObjectRef,
  type Outcome,
  parseKey,
  refOf,
  removeFinalizer,
  requeueAfter,
  type Watch,
  watching,
} from '../kube/mod.ts';
import type { Findings, Progress } from '../rules/conditions.ts';
import { identityLabels, nameTaken, uuidTaken } from '../rules/identity.ts';
import { kindStatus, stalledBy } from '../rules/kind-status.ts';
import { changesMoreThanStatus } from './change-filter.ts';
import type { ControllerDependencies } from './dependencies.ts';
import { identityOf, idTaken } from './identity.ts';
import { createLinks } from './links.ts';
import { stamp } from './stamp.ts';
import { createStatusWriter, REFUSED_RETRY_MS } from './status-writer.ts';
import { useMarks } from './use-marks.ts';

/** A clock that was set is noticed within this time. */
const LONGEST_WAIT_MS = 3_600_000;

/** The parts of a reconciler that are specific to one kind. */
export interface KindExtension<T extends KindObject> {
  /** Reconciles an object that needs another procedure; undefined for all others. */
  takeOver?(object: T, signal: AbortSignal): Promise<Outcome> | undefined;
  /** Labels that the controller keeps on the object, besides its identity. */
  labels?(object: T): Record<string, string>;
  /** keeps a deleted object until it is released; a kind that others name has a finalizer anyway */
  finalizer?: string;
  /** Runs once the object has its identity. Resolves with the object where it changed it. */
  prepare?(object: T, signal: AbortSignal): Promise<T | undefined> | Promise<void>;
  /** Runs before a deleted object ends: removes what must not outlive it. `later`: another run, which a change leads to, ends it. */
  release?(object: T, signal: AbortSignal): Promise<void> | Promise<'later' | undefined>;
  /** Runs once a deleted object has no finalizer of the controller; perhaps never, where a leader ends. */
  ended?(object: T, signal: AbortSignal): Promise<void>;
  /** its users, where they are not those that name it */
  use?: UserIndex<T>;
  /** why the object cannot be used */
  obstacle?(object: T): Progress | undefined;
  /** conditions besides those that all kinds have */
  conditions?(object: T): Findings;
  /** further members of the status */
  status?(object: T): Partial<NonNullable<T['status']>>;
  /**
   * Unix ms of the next run, when no change leads to an earlier one; undefined: none is needed. A time after `began` counts although it
   * has passed meanwhile: what this run wrote does not know of it.
   */
  next?(object: T, began: number): number | undefined;
  watches?: readonly Watch[];
}

/** The reconciler of a kind that machines do not report on: identity, verdicts, status, and protection of objects in use. */
export function createKindController<T extends KindObject>(
  deps: ControllerDependencies,
  kind: Kind<T>,
  extension: KindExtension<T> = {},
): Controller {
  const { client, namespace, stores, kinds, clock, log, metrics } = deps;
  const { resource, definition, noun, builtIns = [] } = kind;
  const store = storeOf(stores, kind);
  const statuses = createStatusWriter(deps, kind);
  const use = extension.use ?? createUse(stores, kinds, kind);
  const references = createReferences(stores, kinds);
  const links = createLinks(deps, kind);
  const finalizer = kind.inUse ? FINALIZERS.inUse : extension.finalizer;

  async function reconcile(key: string, signal: AbortSignal): Promise<Outcome> {
    const began = clock();
    const ref = parseKey(key);
    const stored = store.get(ref.namespace, ref.name) ?? (await createBuiltIn(ref, signal));
    if (!stored) return done();
    const taken = extension.takeOver?.(stored, signal);
    if (taken) return taken;
    const deleting = stored.metadata.deletionTimestamp !== undefined;
    const used = kind.inUse !== undefined && use.isUsed(stored);
    if (deleting && !used) {
      if ((await extension.release?.(stored, signal)) === 'later') return done();
      if (finalizer) await removeFinalizer(client, resource, stored, finalizer, { signal });
      await extension.ended?.(stored, signal);
      return done();
    }
    const identity = await identityOf(deps, kind, stored, signal);
    const stamps = {
      ...(finalizer && { finalizer }),
      labels: { ...identityLabels(identity), ...extension.labels?.(stored) },
    };
    const stamped = deleting ? stored : await stamp(client, resource, await mark(stored, used, signal), stamps, signal);
    const object = (await extension.prepare?.(stamped, signal)) ?? stamped;
    const rival = rivalOf(object) ?? idTaken(deps, kind, stored, identity.id);
    const judged = kindStatus({
      definition,
      noun,
      object,
      ...(rival && { identity: rival }),
      id: kind.identity.id?.(object),
      // Only the message of a deletion names the users.
      users: deleting ? use.users(object) : [],
      obstacle: obstacleOf(object),
      further: extension.conditions?.(object),
      now: new Date(clock()).toISOString(),
    });
    const name = kind.recordsName && rival?.reason !== 'NameTaken' ? { name: nameIn(kind, object) } : {};
    const status = { ...judged, ...identity, ...name, ...extension.status?.(object) };
    const { refused } = await statuses.write(object, status, signal);
    if (refused) return requeueAfter(REFUSED_RETRY_MS);
    const next = extension.next?.(object, began);
    return next === undefined ? done() : requeueAfter(Math.min(Math.max(0, next - clock()), LONGEST_WAIT_MS));
  }

  async function createBuiltIn(ref: ObjectRef, signal: AbortSignal): Promise<T | undefined> {
    const builtIn = ref.namespace === namespace && builtIns.find(({ name }) => name === ref.name);
    if (!builtIn) return undefined;
    const metadata = { name: ref.name, namespace };
    const object = { apiVersion: API_VERSION, kind: resource.kind, metadata, spec: builtIn.spec } as T;
    return client
      .create(resource, object, { signal, fieldManager: FIELD_MANAGERS.controller })
      .catch((error: unknown) => {
        // Another replica created it, or the store does not show it yet: its change causes another run.
        if (isAlreadyExists(error)) return undefined;
        throw error;
      });
  }

  /** Built-in objects are reconciled from the start, also when they do not exist. */
  const watchBuiltIns: Watch = {
    whenSynced: (signal) => store.whenSynced(signal),
    start(enqueue) {
      for (const { name } of builtIns) enqueue(keyFor(namespace, name), true);
      return { [Symbol.dispose]: () => {} };
    },
  };

  /** The verdict on an object whose name or uuid belongs to another one. */
  function rivalOf(object: T) {
    const name = nameIn(kind, object);
    const namesake = holderIn(kind, store.byIndex('name', name), 'name', name);
    if (namesake && namesake.metadata.uid !== object.metadata.uid) return nameTaken(noun, name, namesake.metadata.name);
    const uuid = kind.identity.uuid?.(object);
    const twin = uuid === undefined ? undefined : holderIn(kind, store.byIndex('uuid', uuid), 'uuid', uuid);
    return twin && twin.metadata.uid !== object.metadata.uid && uuid !== undefined
      ? uuidTaken(noun, uuid, twin.metadata.name)
      : undefined;
  }

  function obstacleOf(object: T): Progress | undefined {
    const verdict = kind.verdict?.(object, references.find);
    return verdict ? stalledBy(verdict) : (extension.obstacle?.(object) ?? links.obstacle(object));
  }

  /** Sets the marks by which admission policies judge the changes of an object in use; a built-in one has a policy of its own. */
  async function mark(object: T, inUse: boolean, signal: AbortSignal): Promise<T> {
    const isBuiltIn = builtIns.some(({ name }) => name === object.metadata.name);
    const refusal = inUse && !isBuiltIn ? inUseError(kind, object, use.first(object)).message : undefined;
    const usedBySystem = !isBuiltIn && use.isUsedBySystem(object);
    const marks = useMarks(object.metadata, { inUse, refusal, usedBySystem });
    if (!marks) return object;
    const { resourceVersion } = object.metadata;
    const body = { metadata: { resourceVersion, ...marks } };
    const options = { signal, fieldManager: FIELD_MANAGERS.controller };
    return client.patch(resource, refOf(object), { type: 'merge', body }, options);
  }

  const named = (ref: number | string) =>
    store.byIndex(typeof ref === 'number' ? 'id' : 'name', String(ref)).map(keyOf);
  const namesakes = (object: T) => [...refsTo(kind, object).flatMap(named), ...twins(object)];
  const twins = (object: T) => {
    const uuid = kind.identity.uuid?.(object);
    return uuid === undefined ? [] : store.byIndex('uuid', uuid).map(keyOf);
  };
  const watchReferrer = (source: Kind): Watch => {
    const usedBy = (object: KindObject) =>
      Array.from(source.references?.(object) ?? []).flatMap(({ to, ref }) => (to === kind.key ? named(ref) : []));
    // Objects that exist at the start are reconciled anyway.
    return watching(storeOf(stores, source), (change) => (isLater(change) ? both(usedBy)(change) : []));
  };
  const watchTarget = (target: Kind): Watch => {
    const referrers = (object: KindObject) =>
      refsTo(target, object).flatMap((ref) => store.byIndex('ref', referenceKey({ to: target.key, ref })).map(keyOf));
    return watching(storeOf(stores, target), (change) => (isLater(change) ? both(referrers)(change) : []));
  };
  return createController({
    name: definition.singular,
    watches: [
      ...(builtIns.length > 0 ? [watchBuiltIns] : []),
      ...(extension.watches ?? []),
      ...links.watches,
      // Another object may have had the name, the id or the uuid.
      watching(store, (change) =>
        changesMoreThanStatus(change) || statuses.isForeign(change) ? [change.key, ...both(namesakes)(change)] : [],
      ),
      ...referrersOf(kinds).map(watchReferrer),
      ...(kind.references && kind.verdict
        ? Object.values(kinds)
            .filter((target) => target.key !== kind.key)
            .map(watchTarget)
        : []),
    ],
    reconcile: (key, { signal }) => reconcile(key, signal),
    log,
    metrics,
  });
}

const isLater = (change: Change<KindObject>) => changesMoreThanStatus(change) && !change.initial;
