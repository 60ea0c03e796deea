import { ANNOTATIONS } from '../api/names.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import { CORE_KINDS } from '../subjects/content/kinds/core-objects.ts';
import { KINDS } from '../subjects/kinds.ts';
import type { Answer, TestClient } from './_client.ts';

/** How the objects of each kind are made and edited over REST: for tests of what holds for every kind. */

type Json = Record<string, unknown>;

export interface Edits {
  /** the path of the collection */
  path: string;
  create(name: string): Json;
  /** Edits of disjoint members; the n-th one of each follows the one before. */
  edits: readonly Edit[];
  /** the merge patch of another writer, of a member that no edit has */
  kubectl(n: number): { metadata?: Json; spec?: Json };
}

export interface Edit {
  /** of the item, when it is not the item itself */
  path?: string;
  method?(n: number): 'POST' | 'DELETE';
  body(n: number, name: string): Json;
  /** what the read of the item then shows; the body when absent */
  shows?(n: number): Json;
}

/** Names of what the objects refer to; `makeReferences` creates them. */
const NODE = 'gw';
const REGISTRY = 'hub';
const APPLICATION = 'shop';
const CONFIG_MAPS = ['site-a', 'site-b'];

/** Creates what the objects of all kinds refer to. */
export async function makeReferences(client: TestClient): Promise<void> {
  await client.post('/node', { json: { name: NODE, archId: 1 } });
  await client.post('/registries', { json: { name: REGISTRY, url: 'hub.example', type: 'hub' } });
  await client.post('/application', { json: { name: APPLICATION } });
  for (const name of CONFIG_MAPS) await client.post('/configmaps', { json: { name, data: { a: 'b' } } });
}

const annotation = (n: number) => ({ metadata: { annotations: { [ANNOTATIONS.protected]: 'false', round: `${n}` } } });
const microservice = (n: number) => ({ schedule: n });
const roleOf = (n: number) => ({ roleRef: { name: n % 2 ? 'agent-admin' : 'microservice' } });
const link: Edit = {
  path: '/link',
  method: (n) => (n % 2 ? 'POST' : 'DELETE'),
  body: () => ({ fogUuids: [NODE] }),
  shows: () => ({}),
};
const artifact = (path: string, format: string): Edits => ({
  path,
  create: (name) => ({ name, repo: 'team/tiny', registryId: REGISTRY, files: ['part-0'] }),
  edits: [{ body: (n) => ({ revision: `v${n}` }) }, { body: (n) => ({ files: [`part-${n}`] }) }, link],
  kubectl: (n) => ({ spec: { format: n % 2 ? format : null } }),
});

const EDITS: Readonly<Record<string, Edits>> = {
  applications: {
    path: '/application',
    create: (name) => ({ name }),
    edits: [
      { body: (n) => ({ description: `text ${n}` }) },
      { body: (n) => ({ busConfig: { busAccess: true, busRule: `rule-${n}` } }) },
    ],
    kubectl: (n) => ({ spec: { isActivated: n % 2 === 0 } }),
  },
  nodes: {
    path: '/node',
    create: (name) => ({ name, archId: 1 }),
    edits: [{ body: (n) => ({ location: `hall ${n}` }) }, { body: (n) => ({ diskLimit: n }) }],
    kubectl: (n) => ({ spec: { timeZone: `Etc/GMT+${n}` } }),
  },
  catalogItems: {
    path: '/catalog/microservices',
    create: (name) => ({ name, images: [{ archId: 1, containerImage: 'a:1' }], registryId: 1 }),
    edits: [{ body: (n) => ({ description: `text ${n}` }) }, { body: (n) => ({ category: `C${n}` }) }],
    kubectl: (n) => ({ spec: { ramRequired: n } }),
  },
  registries: {
    path: '/registries',
    create: (name) => ({ name, url: 'registry.example' }),
    edits: [{ body: (n) => ({ username: `user-${n}` }) }, { body: (n) => ({ userEmail: `user-${n}@example.com` }) }],
    kubectl: (n) => ({ spec: { isPublic: n % 2 === 0 } }),
  },
  runtimeClasses: {
    path: '/runtimeClasses',
    create: (name) => ({ name, handler: 'crun' }),
    edits: [{ body: (n) => ({ handler: `crun-${n}` }) }],
    kubectl: (n) => ({ spec: { nodes: [`gw-${n}`] } }),
  },
  models: artifact('/models', 'gguf'),
  knowledge: artifact('/knowledge', 'pdf'),
  serviceAccounts: {
    path: '/serviceaccounts',
    create: (name) => ({ name, applicationName: APPLICATION, roleRef: { name: 'microservice' } }),
    edits: [
      {
        body: (n, name) => ({ name, applicationName: APPLICATION, ...roleOf(n) }),
        shows: roleOf,
      },
    ],
    kubectl: annotation,
  },
  applicationTemplates: {
    path: '/applicationTemplate',
    create: (name) => ({ name, application: { microservices: [] } }),
    edits: [{ body: (n) => ({ description: `text ${n}` }) }],
    kubectl: (n) => ({ spec: { variables: [{ key: `v${n}` }] } }),
  },
  microserviceTemplates: {
    path: '/microserviceTemplates',
    create: (name) => ({ name, microservice: microservice(0) }),
    edits: [{ body: (n) => ({ description: `text ${n}` }) }, { body: (n) => ({ variables: [{ key: `v${n}` }] }) }],
    kubectl: (n) => ({ spec: { microservice: microservice(n) } }),
  },
  volumeMounts: {
    path: '/volumeMounts',
    create: (name) => ({ name, configMapName: CONFIG_MAPS[0] }),
    edits: [{ body: (n) => ({ configMapName: CONFIG_MAPS[n % 2] }) }, link],
    kubectl: annotation,
  },
  secrets: {
    path: '/secrets',
    create: (name) => ({ name, type: 'Opaque', data: { a: 'b' } }),
    edits: [{ body: (n) => ({ data: { a: `${n}` } }) }],
    kubectl: annotation,
  },
  configMaps: {
    path: '/configmaps',
    create: (name) => ({ name, data: { a: 'b' } }),
    edits: [{ body: (n) => ({ data: { a: `${n}` } }) }],
    kubectl: annotation,
  },
};

/** Every kind with its edits; a kind without them fails here. */
export const editsOfKinds = (): readonly { kind: Kind; edits: Edits }[] =>
  Object.values({ ...KINDS, ...CORE_KINDS } as unknown as Record<string, Kind<KindObject>>).map((kind) => {
    const edits = EDITS[kind.key];
    if (!edits) throw new Error(`src/rest/_edits.ts has no row for ${kind.key}`);
    return { kind, edits };
  });

/** The path of an object after its creation. */
export function itemPath(kind: Kind, { path }: Edits, made: Answer, name: string): string {
  const { key, crud } = kind.rest;
  if (crud?.scope) return `${path}/${APPLICATION}/${name}`;
  return `${path}/${key === 'name' ? name : made.body[key]}`;
}
