import { isDeepStrictEqual } from 'node:util';
import type { NativeRole } from '../api/rbac.ts';
import type { ConfigMap, Secret } from '../api/resources.ts';
import type { Application } from '../api/v3/index.ts';
import type { StoreLookups } from '../datastore/lookups.ts';
import { rivalsByRecord, rivalsOf } from '../datastore/rivals.ts';
import type { ReadStores } from '../datastore/stores.ts';
import { type Kind, refsTo } from '../kinds/definition.ts';
import { isOnlyRelinked, relinkedNodes } from '../kinds/link-change.ts';
import type { KindObject } from '../kinds/object.ts';
import type { Change, KubeObject, Store } from '../kube/mod.ts';
import { isReachedAlike } from '../rules/bus-hub.ts';
import { applicationUuid, nodeUuid } from '../rules/identity.ts';
import type { Lookups } from '../rules/inputs.ts';
import { v3Name } from '../rules/names.ts';
import { accountNameOf } from '../subjects/bus-accounts/rules/account.ts';
import { uuidInName } from '../subjects/bus-accounts/rules/secret.ts';
import { textNameOf } from '../subjects/content/rules/core-objects/form.ts';
import { KINDS, REFERENCED_KINDS } from '../subjects/kinds.ts';
import { replaced } from '../subjects/nodes/rules/placement/moves.ts';
import { isContentAlike, isWorkedFromAlike } from '../subjects/nodes/rules/status-change.ts';
import { isRouterReachedAlike } from '../subjects/routers/rules/hub.ts';
import { dependenciesOnService, dependency, nodesOf } from './node-inputs.ts';

/** `isContent`: other than by what a node has done so far, so that what is due may also change back. */
export type OnAffected = (nodes: ReadonlySet<string>, isContent: boolean) => void;

/**
 * Calls `onAffected` synchronously, during the change of a store, with exactly the nodes whose desired state the change may
 * affect. `dependents`: the nodes whose desired state was made from a dependency.
 */
export function subscribeAffectedNodes(
  stores: ReadStores,
  lookups: Pick<StoreLookups, 'secret' | 'configMap' | 'services' | 'interiorRouters'>,
  dependents: (dependency: string) => Iterable<string> | undefined,
  onAffected: OnAffected,
): Disposable {
  const subscriptions = [
    stores.nodes.subscribe((change) => {
      if (change.initial || !matters(change, isWorkedFromAlike)) return;
      const nodes = new Set<string>();
      for (const node of bothOf(change)) {
        nodes.add(nodeUuid(node));
        add(nodes, dependents(dependency.node(v3Name(node))));
        add(nodes, dependents(dependency.nodeOfUuid(nodeUuid(node))));
        if (node.spec.isSystem && (change.type === 'delete' || !change.previous))
          add(nodes, dependents(dependency.systemNode));
        // Another node with the same name may be the oldest now.
        for (const namesake of stores.nodes.byIndex('name', v3Name(node))) nodes.add(nodeUuid(namesake));
      }
      onAffected(nodes, matters(change, isContentAlike));
    }),
    stores.applications.subscribe((change) => {
      if (change.initial) return;
      const nodes = new Set<string>();
      if (change.type === 'delete' || !change.previous)
        add(nodes, dependents(dependency.application(change.object.metadata.name)));
      if (!matters(change, sameApplication)) {
        for (const name of change.previous ? replaced(change.object, change.previous) : []) {
          for (const node of stores.nodes.byIndex('name', name)) nodes.add(nodeUuid(node));
        }
        // Who has a uuid that several claim may be another one now.
        for (const rival of change.previous ? rivalsByRecord(stores, change.object, change.previous) : [])
          add(nodes, nodesOf(stores, rival));
        return onAffected(nodes, true);
      }
      for (const application of bothOf(change)) {
        add(nodes, nodesOf(stores, application));
        // The verdicts of applications with the same name or a common uuid may change.
        const rivals = rivalsOf(stores, application, v3Name(application));
        rivals.delete(application);
        for (const rival of rivals) add(nodes, nodesOf(stores, rival));
      }
      onAffected(nodes, true);
    }),
    ...REFERENCED_KINDS.map((key) => {
      const kind = KINDS[key] as Kind;
      return (stores[key] as Store<KindObject>).subscribe((change) => {
        if (change.initial || !matters(change, sameReferenced(kind, lookups))) return;
        const nodes = new Set<string>();
        const linked = (names: Iterable<string>) => {
          for (const name of names) {
            nodes.add(name);
            for (const named of stores.nodes.byIndex('name', name)) nodes.add(nodeUuid(named));
          }
        };
        // Another object that claims the uuid may have it now.
        const twins = (object: KindObject) => {
          const uuid = kind.identity.uuid?.(object);
          const store = stores[key] as Store<KindObject>;
          return uuid === undefined ? [] : store.byIndex('uuid', uuid).filter((one) => one !== object);
        };
        const { object: now, previous } = change;
        if (change.type === 'set' && previous && isOnlyRelinked(now, previous)) linked(relinkedNodes(now, previous));
        else
          for (const object of bothOf(change)) {
            for (const one of [object, ...twins(object)]) {
              for (const ref of refsTo(kind, one)) add(nodes, dependents(dependency.object(key, ref)));
              linked(one.spec.nodes ?? []);
            }
          }
        onAffected(nodes, true);
      });
    }),
    stores.secrets.subscribe((change) => {
      if (change.initial || !matters(change, sameContent)) return;
      const nodes = new Set<string>();
      for (const secret of bothOf(change)) {
        add(nodes, dependents(dependency.secret(textNameOf(secret))));
        add(nodes, dependents(dependency.ofSystem(secret.metadata.name)));
        for (const one of busDependencies(stores, secret)) add(nodes, dependents(one));
        add(nodes, dependents(dependency.password(secret.metadata.name)));
      }
      onAffected(nodes, true);
    }),
    stores.roles.subscribe((change) => {
      if (change.initial || !matters(change, isRoleAlike)) return;
      const nodes = new Set<string>();
      for (const role of bothOf(change)) add(nodes, dependents(dependency.object('roles', role.metadata.name)));
      onAffected(nodes, true);
    }),
    stores.routerHubs.subscribe((change) => {
      if (change.initial || !matters(change, isRouterReachedAlike)) return;
      const nodes = new Set<string>();
      add(nodes, dependents(dependency.defaultRouter));
      onAffected(nodes, true);
    }),
    ...(lookups.services
      ? [
          lookups.services.subscribe((changed, initial) => {
            if (initial) return;
            const nodes = new Set<string>();
            for (const one of changed.flatMap(dependenciesOnService)) add(nodes, dependents(one));
            onAffected(nodes, true);
          }),
        ]
      : []),
    ...(lookups.interiorRouters
      ? [lookups.interiorRouters.subscribe((nodes) => onAffected(new Set(nodes), true))]
      : []),
    ...busSubscriptions(stores, dependents, onAffected),
    stores.configMaps.subscribe((change) => {
      if (change.initial || !matters(change, sameContent)) return;
      const nodes = new Set<string>();
      for (const configMap of bothOf(change)) {
        add(nodes, dependents(dependency.configMap(textNameOf(configMap))));
      }
      onAffected(nodes, true);
    }),
  ];
  return {
    [Symbol.dispose]() {
      for (const subscription of subscriptions) subscription[Symbol.dispose]();
    },
  };
}

/** What nodes read by a Secret of the bus besides the Secret itself. */
function busDependencies({ busUsers }: Pick<ReadStores, 'busUsers'>, { metadata: { name } }: Secret): string[] {
  if (uuidInName('account', name) !== undefined) return [dependency.busTokens];
  const user = uuidInName('user', name);
  if (user === undefined) return [];
  return busUsers
    .byIndex('uuid', user)
    .flatMap(({ spec: { node } }) => (node === undefined ? [] : [dependency.busUsersOf(node)]));
}

/** What of the bus the desired states of nodes are made from; tokens and credentials are in Secrets. */
function busSubscriptions(
  stores: ReadStores,
  dependents: (dependency: string) => Iterable<string> | undefined,
  onAffected: OnAffected,
): Disposable[] {
  const affect = (dependencies: readonly string[]) => {
    const nodes = new Set<string>();
    for (const one of dependencies) add(nodes, dependents(one));
    onAffected(nodes, true);
  };
  return [
    stores.busHubs.subscribe((change) => {
      if (!change.initial && matters(change, isReachedAlike)) affect([dependency.busHub]);
    }),
    stores.busUsers.subscribe((change) => {
      if (change.initial || !matters(change, sameSpec)) return;
      affect(
        bothOf(change).flatMap(({ spec: { microserviceUuid, node } }) => [
          ...(microserviceUuid === undefined ? [] : [dependency.busUser(microserviceUuid)]),
          ...(node === undefined ? [] : [dependency.busUsersOf(node)]),
        ]),
      );
    }),
    stores.busAccounts.subscribe((change) => {
      if (change.initial || !matters(change, sameSpec)) return;
      const names = bothOf(change).map((account) => dependency.busAccount(accountNameOf(account)));
      affect([...names, ...(change.type === 'delete' || !change.previous ? [dependency.busAccounts] : [])]);
    }),
  ];
}

function add(to: Set<string>, from: Iterable<string> | undefined) {
  for (const one of from ?? []) to.add(one);
}

const bothOf = <T>(change: Change<T>): T[] => [change.object, ...(change.previous ? [change.previous] : [])];

/** Whether a change may affect a desired state; statuses of applications and heartbeats of nodes do not. */
function matters<T extends KubeObject>(change: Change<T>, same: (a: T, b: T) => boolean): boolean {
  if (change.type === 'delete' || !change.previous) return true;
  const [now, before] = [change.object, change.previous];
  return !(
    now.metadata.uid === before.metadata.uid &&
    now.metadata.deletionTimestamp === before.metadata.deletionTimestamp &&
    isDeepStrictEqual(now.metadata.annotations, before.metadata.annotations) &&
    same(now, before)
  );
}

/** The API server raises the generation with every change of a spec, and with no other change. */
const sameSpec = (a: KubeObject, b: KubeObject) => a.metadata.generation === b.metadata.generation;
/** The identity is not part of the spec. */
const sameApplication = (a: Application, b: Application) => sameSpec(a, b) && applicationUuid(a) === applicationUuid(b);
const sameReferenced =
  ({ identity, readOfStatus }: Kind, lookups: Pick<Lookups, 'secret' | 'configMap'>) =>
  (a: KindObject, b: KindObject) =>
    sameSpec(a, b) &&
    identity.id?.(a) === identity.id?.(b) &&
    identity.uuid?.(a) === identity.uuid?.(b) &&
    readOfStatus?.(a, lookups) === readOfStatus?.(b, lookups);

const isRoleAlike = (a: NativeRole, b: NativeRole) =>
  isDeepStrictEqual(a.rules, b.rules) && isDeepStrictEqual(a.metadata.labels, b.metadata.labels);

const sameContent = (a: Secret | ConfigMap, b: Secret | ConfigMap) =>
  isDeepStrictEqual(a.data, b.data) &&
  isDeepStrictEqual(a.metadata.labels, b.metadata.labels) &&
  isDeepStrictEqual(a.metadata.ownerReferences, b.metadata.ownerReferences);
