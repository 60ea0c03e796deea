import { ANNOTATIONS, LABELS } from '../api/names.ts';
import type { ConfigMap, Secret } from '../api/resources.ts';
import type { Application, EdgeNode, Registry } from '../api/v3/index.ts';
import type { KeyedText, NodeInputs } from '../domain/inputs.ts';
import { nodeUuid, v3Name } from '../domain/names.ts';
import { decodeData, isOwnedBy, LABELLED } from './node-key.ts';
import type { AgentStores } from './ports.ts';
import { nodeRefsOf, oldest, reportedApplicationsOf, textNameOf } from './store-indexes.ts';

/** What a desired state was made from besides the node, its applications and the registries. */
export const dependency = {
  node: (name: string) => `node:${name}`,
  secret: (name: string) => `secret:${name}`,
  /** by object name */
  password: (name: string) => `password:${name}`,
  configMap: (name: string) => `config-map:${name}`,
} as const;

/** Gathers what concerns one node. `track` hears of every lookup while the domain computes, found or not. */
export function createNodeInputs(stores: AgentStores, options: { namespace: string; revisionKey?: string }) {
  const textOfSecret = memoised((secret: Secret): KeyedText => {
    return { name: textNameOf(secret), data: withTextKeys(secret, decodeData(secret.data)) };
  });
  const textOfConfigMap = memoised((configMap: ConfigMap): KeyedText => {
    return { name: textNameOf(configMap), data: withTextKeys(configMap, configMap.data ?? {}) };
  });
  const isShareable = (object: Secret | ConfigMap) => object.metadata.labels?.[LABELS.shareable] === LABELLED;

  function applicationsOn(node: EdgeNode): readonly Application[] {
    const name = v3Name(node);
    const found = new Set(stores.applications.byIndex('node', `uuid:${nodeUuid(node)}`));
    if (oldest(stores.nodes.byIndex('name', name)) === node) {
      for (const application of stores.applications.byIndex('node', `name:${name}`)) found.add(application);
    }
    for (const reported of reportedApplicationsOf(node)) {
      for (const application of stores.applications.byIndex('name', reported)) found.add(application);
    }
    return [...found];
  }

  return (node: EdgeNode, track: (dependency: string) => void): NodeInputs => ({
    node,
    applications: applicationsOn(node),
    registries: stores.registries.list(),
    nodeByName(name) {
      track(dependency.node(name));
      return oldest(stores.nodes.byIndex('name', name));
    },
    secret(name) {
      track(dependency.secret(name));
      const secret = oldest(stores.secrets.byIndex('name', name).filter(isShareable));
      return secret && textOfSecret(secret);
    },
    configMap(name) {
      track(dependency.configMap(name));
      const configMap = oldest(stores.configMaps.byIndex('name', name).filter(isShareable));
      return configMap && textOfConfigMap(configMap);
    },
    registryPassword(registry: Registry) {
      const ref = registry.spec.passwordSecretRef;
      if (!ref) return undefined;
      track(dependency.password(ref.name));
      const secret = stores.secrets.get(options.namespace, ref.name);
      // Else whoever may write a Registry could send any Secret of the namespace to a machine.
      const allowed = secret && (isShareable(secret) || isOwnedBy(secret, registry));
      return allowed ? textOfSecret(secret).data[ref.key] : undefined;
    },
    applicationByName: (name) => oldest(stores.applications.byIndex('name', name)),
    applicationsWithEntry: (uuid) => stores.applications.byIndex('microservice', uuid),
    ...(options.revisionKey !== undefined && { revisionKey: options.revisionKey }),
  });
}

/** The nodes that an application concerns: those its entries name, and those that still report it. */
export function nodesOf(stores: Pick<AgentStores, 'nodes'>, application: Application): Set<string> {
  const uuids = new Set<string>();
  for (const ref of nodeRefsOf(application)) {
    if (ref.startsWith('uuid:')) uuids.add(ref.slice('uuid:'.length));
    else for (const node of stores.nodes.byIndex('name', ref.slice('name:'.length))) uuids.add(nodeUuid(node));
  }
  for (const node of stores.nodes.byIndex('reports', v3Name(application))) uuids.add(nodeUuid(node));
  return uuids;
}

/** Keys that core objects refuse are stored escaped; an annotation maps them to their v3 spelling. */
function withTextKeys(object: Secret | ConfigMap, data: Record<string, string>): Record<string, string> {
  const text = object.metadata.annotations?.[ANNOTATIONS.keys];
  if (text === undefined) return data;
  try {
    const names = JSON.parse(text) as Record<string, unknown>;
    return Object.fromEntries(
      Object.entries(data).map(([key, value]) => [typeof names[key] === 'string' ? names[key] : key, value]),
    );
  } catch {
    return data;
  }
}

/** Objects of stores never change: a changed object is another one. */
function memoised<K extends object, V>(compute: (key: K) => V): (key: K) => V {
  const known = new WeakMap<K, V>();
  return (key) => {
    let value = known.get(key);
    if (value === undefined) {
      value = compute(key);
      known.set(key, value);
    }
    return value;
  };
}
