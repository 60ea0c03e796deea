import { createHmac, randomBytes } from 'node:crypto';
import type { ConfigMap, Secret } from '../api/resources.ts';
import type { Application, EdgeNode, Registry } from '../api/v3/index.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import type { KubeObject, Store } from '../kube/mod.ts';
import type { BridgedServices } from '../rules/bridges.ts';
import { nodeUuid } from '../rules/identity.ts';
import type { FoundObjects, KeyedText, Lookups, ReferencedObjects } from '../rules/inputs.ts';
import { v3Name } from '../rules/names.ts';
import { onceEach } from '../rules/once-each.ts';
import { byAge, holder } from '../rules/precedence.ts';
import type { DefaultRouter } from '../rules/router-hub.ts';
import type { Base64ByKey } from '../rules/system-files.ts';
import { type TunnelSettings, tunnelServer } from '../rules/tunnel.ts';
import { contentText } from '../subjects/content/rules/core-objects/content.ts';
import {
  isShareable,
  isSystemSecretName,
  textOfConfigMap,
  textOfSecret,
} from '../subjects/content/rules/core-objects/form.ts';
import { KINDS } from '../subjects/kinds.ts';
import { reportedApplicationsOf } from '../subjects/nodes/kinds/edge-node.ts';
import { createBusLookups } from './bus-lookups.ts';
import { defaultRouterOf } from './default-router.ts';
import { holderIn, isCalled } from './holder.ts';
import { createInteriorRouters, type InteriorRouters } from './interior-routers.ts';
import { isPasswordOf } from './keyed-text.ts';
import { createServiceLookups } from './service-lookups.ts';
import type { ReadStores } from './stores.ts';
import { referenced } from './use.ts';

/** Lookups for verdicts and further inputs of desired states. Each call reads the stores, without a copy. */
export interface StoreLookups extends Lookups {
  /** from the Secret that the registry names; undefined when the registry may not use it */
  registryPassword(registry: Registry): string | undefined;
  /** Content of a Secret that the system keeps for itself: of a node's platform, or of an authority. No user can name it by this. */
  secretOfSystem(namespace: string, name: string): Base64ByKey | undefined;
  applicationNamed(namespace: string, name: string): Application | undefined;
  hasSystemNode(): boolean;
  /** the oldest first */
  systemNodes(): readonly EdgeNode[];
  /** the default router of the cluster, once it has an address; none while routers are off */
  defaultRouter(): DefaultRouter | undefined;
  /** absent: routers are off */
  services?: BridgedServices;
  /** absent: routers are off */
  interiorRouters?: InteriorRouters;
}

export interface LookupsOptions {
  /** random key of this installation (NodeInputs.revisionKey): what names a content says nothing about it */
  revisionKey?: string;
  /** the ssh server of tunnels, whose Secret is in this namespace */
  tunnel?: { settings: TunnelSettings; namespace: string };
  /** the message bus, whose hub is in this namespace; absent: it is off */
  bus?: { namespace: string };
  /** the default router, which is in this namespace, and what tags of nodes begin with; absent: routers are off */
  routers?: { namespace: string; tagPrefix: string; mostInterior?: number | undefined } | undefined;
}

/** Without a key of the installation, names of contents are those of this process. */
const PROCESS_KEY = randomBytes(32).toString('base64');

export function createLookups(
  stores: ReadStores,
  { revisionKey = PROCESS_KEY, tunnel, bus, routers }: LookupsOptions = {},
): StoreLookups {
  const secretText = onceEach((secret: Secret) => identified(textOfSecret(secret), revisionKey));
  const configMapText = onceEach((configMap: ConfigMap) => identified(textOfConfigMap(configMap), revisionKey));
  const shareable = <T extends KubeObject>(store: Store<T>, name: string, text: (object: T) => KeyedText) => {
    const shared = store.byIndex('name', name).filter((one) => isShareable(one as never));
    const object = holder(shared, { has: isCalled<T>(name) });
    return object && text(object);
  };
  return {
    find(kind, ref) {
      if (kind === 'roles')
        return stores.roles.byIndex('name', String(ref))[0] as FoundObjects[typeof kind] | undefined;
      const key: keyof ReferencedObjects = kind;
      return found(KINDS[key] as never, stores[key] as never, ref) as FoundObjects[typeof kind] | undefined;
    },
    nodeByName: (name) => holder(stores.nodes.byIndex('name', name)),
    nodeByUuid: (uuid) => holder(stores.nodes.byIndex('uuid', uuid), { uuid }),
    applicationsOn: (node) => applicationsOn(stores, node),
    applicationByName: (name) => holder(stores.applications.byIndex('name', name)),
    applicationByUuid: (uuid) => holder(stores.applications.byIndex('uuid', uuid), { uuid }),
    applicationsWithEntry: (uuid) => stores.applications.byIndex('microservice', uuid),
    secret: (name) => shareable(stores.secrets, name, secretText),
    configMap: (name) => shareable(stores.configMaps, name, configMapText),
    linkedTo: (node) => (kind) => {
      const store = stores[kind] as Store<ReferencedObjects[typeof kind]>;
      const byUuid = store.byIndex('linked', nodeUuid(node));
      const byName = isMeantByName(stores, node) ? store.byIndex('linked', v3Name(node)) : [];
      return [...new Set([...byUuid, ...byName])];
    },
    ...(tunnel && {
      tunnels: {
        settings: tunnel.settings,
        server() {
          const { settings, namespace } = tunnel;
          const secret = stores.secrets.get(namespace, settings.secretName ?? '');
          return tunnelServer(settings, secret && { isShareable: isShareable(secret), text: secretText(secret) });
        },
      },
    }),
    ...(bus && { bus: createBusLookups(stores, bus.namespace) }),
    ...(routers && {
      services: createServiceLookups(stores.services, routers.tagPrefix),
      interiorRouters: createInteriorRouters(stores, routers.namespace, routers.mostInterior),
    }),
    // Whatever names an annotation gives to keys, the system knows them by their own.
    secretOfSystem(namespace, name) {
      const secret = isSystemSecretName(name) ? stores.secrets.get(namespace, name) : undefined;
      return secret && (secret.data ?? {});
    },
    applicationNamed: (namespace, name) => stores.applications.get(namespace, name),
    hasSystemNode: () => stores.nodes.byIndex('system', 'true').length > 0,
    systemNodes: () => stores.nodes.byIndex('system', 'true').toSorted(byAge),
    defaultRouter: () => (routers ? defaultRouterOf(stores, routers.namespace) : undefined),
    registryPassword(registry) {
      const ref = registry.spec.passwordSecretRef;
      const secret = ref && stores.secrets.get(registry.metadata.namespace, ref.name);
      return secret && isPasswordOf(secret, registry) ? secretText(secret).data[ref.key] : undefined;
    },
  };
}

/** The object that a reference means; none while its uuid belongs to another one, since nodes know objects by uuid. */
function found(kind: Kind, store: Store<KindObject>, ref: number | string): KindObject | undefined {
  const object = referenced(kind, store, ref);
  const uuid = object && kind.identity.uuid?.(object);
  if (uuid === undefined) return object;
  return holderIn(kind, store.byIndex('uuid', uuid), 'uuid', uuid) === object ? object : undefined;
}

/** Whether the name of a node means this one: of several, the one that has the name. A node that was deleted counts as the one that was meant. */
function isMeantByName({ nodes }: Pick<ReadStores, 'nodes'>, node: EdgeNode): boolean {
  const meant = holder(nodes.byIndex('name', v3Name(node)));
  return !meant || meant.metadata.uid === node.metadata.uid;
}

/** Applications with an entry that names this node or is kept by it, and those whose containers it still reports. */
export function applicationsOn(stores: Pick<ReadStores, 'nodes' | 'applications'>, node: EdgeNode): Application[] {
  const name = v3Name(node);
  const found = new Set(stores.applications.byIndex('node', `uuid:${nodeUuid(node)}`));
  if (isMeantByName(stores, node)) {
    for (const application of stores.applications.byIndex('node', `name:${name}`)) found.add(application);
  }
  for (const reported of reportedApplicationsOf(node)) {
    for (const application of stores.applications.byIndex('name', reported)) found.add(application);
  }
  return [...found];
}

/** The text with names of its content and of its values: keyed hashes, which only this installation can make. */
function identified(text: KeyedText, revisionKey: string): KeyedText {
  const known = new Map<string | undefined, string>();
  const made = (key: string | undefined) =>
    createHmac('sha256', revisionKey).update(contentText(text, key)).digest('hex').slice(0, 32);
  return {
    ...text,
    identify(key) {
      const name = known.get(key) ?? made(key);
      known.set(key, name);
      return name;
    },
  };
}
