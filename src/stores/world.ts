import { oldest } from '../agents/store-indexes.ts';
import { LABELS } from '../api/names.ts';
import type { ConfigMap, Secret } from '../api/resources.ts';
import type { Application, EdgeNode } from '../api/v3/index.ts';
import { type KeyedText, nodeUuid, v3Name, type World } from '../domain/index.ts';
import type { Stores } from './stores.ts';

/** The world that verdicts look at, read from the local views. Nothing is copied; each call sees the present. */
export function createWorld(stores: Stores): World {
  const nodeByName = (name: string) => oldest(stores.nodes.byIndex('name', name));
  return {
    get registries() {
      return stores.registries.list();
    },
    nodeByName,
    nodeByUuid: (uuid) => oldest(stores.nodes.byIndex('uuid', uuid)),
    applicationsOn: (node) => applicationsOn(stores, node),
    applicationByName: (name) => oldest(stores.applications.byIndex('name', name)),
    applicationsWithEntry: (uuid) => stores.applications.byIndex('microservice', uuid),
    secret: (name) => decoded(stores.secrets.byIndex('name', name).find(shareable), 'base64'),
    configMap: (name) => decoded(stores.configMaps.byIndex('name', name).find(shareable)),
  };
}

/** Applications with an entry that names this node, and those whose containers it still reports. */
export function applicationsOn(stores: Pick<Stores, 'applications'>, node: EdgeNode): Application[] {
  const found = new Set([
    ...stores.applications.byIndex('node', `name:${v3Name(node)}`),
    ...stores.applications.byIndex('node', `uuid:${nodeUuid(node)}`),
  ]);
  for (const { application } of node.status?.microservices ?? []) {
    for (const other of application ? stores.applications.byIndex('name', application) : []) found.add(other);
  }
  return [...found];
}

const shareable = (object: Secret | ConfigMap) => object.metadata.labels?.[LABELS.shareable] === 'true';

function decoded(object: Secret | ConfigMap | undefined, encoding?: 'base64'): KeyedText | undefined {
  if (!object) return undefined;
  const text = (value: string) => (encoding ? Buffer.from(value, encoding).toString('utf8') : value);
  return {
    name: object.metadata.name,
    data: Object.fromEntries(Object.entries(object.data ?? {}).map(([key, value]) => [key, text(value)])),
  };
}
