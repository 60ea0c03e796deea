import { randomUUID } from 'node:crypto';
import { ANNOTATIONS, API_VERSION, LABELS } from '../../src/api/names.ts';
import type { Json } from '../example.ts';
import { FORMS } from '../examples.ts';
import type { Entry, Item, Kind, State } from './model.ts';
import { find, imageOf, nodeOf } from './model.ts';

/** How the items of the model look over REST, in files and at the Kubernetes API. */

/** An id that no object has. */
export const NO_ID = 99_999;

export function pathOf(kind: Kind, item: Item | undefined, name: string): string {
  const { path, key } = FORMS[kind];
  if (key === 'id') return `${path}/${item?.id ?? NO_ID}`;
  return `${path}/${key === 'uuid' ? (item?.uuid ?? randomUUID()) : name.split('/').map(encodeURIComponent).join('/')}`;
}

/** The v3 name without that of the application. */
const ownName = ({ kind, name }: Pick<Item, 'kind' | 'name'>) =>
  kind === 'serviceAccounts' ? (name.split('/')[1] ?? '') : name;

/** A JSON body that creates a item. */
export function bodyOf(item: Item): Json {
  const spec = FORMS[item.kind].spec(item.draft, item.name);
  return { ...(item.kind !== 'registries' && { name: ownName(item) }), ...spec };
}

/** A file. */
export function documentOf(item: Item, spec: Json = FORMS[item.kind].spec(item.draft, item.name)): Json {
  const { kind } = FORMS[item.kind];
  const [application] = item.kind === 'serviceAccounts' ? item.name.split('/') : [];
  const isCore = item.kind === 'secrets' || item.kind === 'configMaps';
  return {
    apiVersion: API_VERSION,
    kind,
    metadata: { name: ownName(item), ...(application && { applicationName: application }) },
    ...(isCore
      ? { ...(item.kind === 'secrets' && { spec: { type: 'Opaque' } }), ...('data' in spec && { data: spec.data }) }
      : { spec }),
  };
}

/** An object of the Kubernetes API. */
export function objectOf(item: Item): Json {
  const { kind, draft, name, object, nodes, entries, settings } = item;
  if (kind === 'secrets' || kind === 'configMaps')
    return {
      apiVersion: 'v1',
      kind: FORMS[kind].kind,
      metadata: {
        name: object,
        labels: { [LABELS.shareable]: 'true' },
        ...(name !== object && { annotations: { [ANNOTATIONS.name]: name } }),
      },
      data: coreData(item),
    };
  const own = ownName(item);
  const spec = {
    ...FORMS[kind].spec(draft, name),
    ...(own !== object && { name: own }),
    ...settings,
    ...(nodes.length > 0 && { nodes }),
    ...(kind === 'applications' && { microservices: entries.map((entry) => entrySpec(entry)) }),
  };
  return { apiVersion: API_VERSION, kind: FORMS[kind].kind, metadata: { name: object }, spec };
}

export const coreData = ({ kind, draft: { data } }: Item): Json =>
  Object.fromEntries(
    Object.entries(data).map(([key, value]) => [
      key,
      kind === 'secrets' ? Buffer.from(value).toString('base64') : value,
    ]),
  );

const catalog = (bindPath: string, items: readonly string[]) => ({ bindPath, items: items.map((name) => ({ name })) });

/** What an entry mounts and reads, which both forms spell alike. */
const containerOf = ({ mount, env, port }: Entry) => ({
  volumes: mount && [
    {
      hostDestination: mount.key === undefined ? mount.name : `${mount.name}/${mount.key}`,
      containerDestination: '/files',
      type: 'volumeMount',
      accessMode: 'ro',
    },
  ],
  env: env && [
    {
      key: 'VALUE',
      [env.source.to === 'secrets' ? 'valueFromSecret' : 'valueFromConfigMap']: `${env.source.ref}/${env.key}`,
    },
  ],
  ports: port === undefined ? undefined : [{ internal: 80, external: port }],
});

/** An entry of an Application, and of a file. */
export function entrySpec({ template, ...entry }: Entry & { template?: string }): Json {
  const { name, node, image, catalog: item, registry, runtime, models, knowledge, role, isActivated } = entry;
  return present({
    name,
    isActivated,
    agent: node,
    template: template && { name: template },
    images: item ? { catalogId: item.ref } : present({ amd64: template ? undefined : image, registry: registry?.ref }),
    models: models.length > 0 ? catalog('/models', models) : undefined,
    knowledge: knowledge.length > 0 ? catalog('/knowledge', knowledge) : undefined,
    serviceAccount: role && { roleRef: { name: role } },
    container: present({ ...containerOf(entry), runtime }),
  });
}

/** An entry as a JSON body; a PATCH removes what it leaves out with null. */
export function flatEntry({ template, ...entry }: Entry & { template?: string }, absent?: null): Json {
  const { name, node, image, catalog: item, registry, runtime, models, knowledge, role } = entry;
  const { volumes, env, ports } = containerOf(entry);
  const body = {
    name,
    ...('uuid' in node ? { nodeUuid: node.uuid } : { agentName: node.name }),
    template: template && { name: template },
    images: item || template ? undefined : [{ archId: 1, containerImage: image }],
    registryId: item ? undefined : registry?.ref,
    catalogItemId: item?.ref,
    runtime,
    models: models.length > 0 ? catalog('/models', models) : undefined,
    knowledge: knowledge.length > 0 ? catalog('/knowledge', knowledge) : undefined,
    volumeMappings: volumes,
    env,
    ports,
    serviceAccount: role && { roleRef: { name: role } },
  };
  const given = present(body);
  if (absent === undefined) return given;
  const { template: _, ...rest } = body;
  return { ...Object.fromEntries(Object.keys(rest).map((key) => [key, null])), ...given };
}

/** What a read of an entry shows. */
export function shownEntry(state: State, entry: Entry, uuid: string | undefined): Json {
  const node = nodeOf(state, entry.node);
  const { image, registry } = imageOf(state, entry);
  const { mount, port } = entry;
  const item = entry.catalog && find(state, entry.catalog);
  return {
    name: entry.name,
    uuid,
    isActivated: entry.isActivated,
    ...(node && { nodeUuid: node.uuid }),
    ...((!entry.catalog || item) && { images: [{ archId: 1, containerImage: image }] }),
    ...(registry && (!entry.catalog || item) && { registryId: registry.id }),
    ...(mount && { volumeMappings: [{ containerDestination: '/files' }] }),
    ports: port === undefined ? [] : [{ internal: 80, external: port, protocol: 'tcp' }],
  };
}

export function shownItem(state: State, item: Item): Json {
  const { kind, draft, name } = item;
  const form = FORMS[kind];
  return {
    ...(kind === 'registries' ? {} : { name: ownName(item) }),
    ...(form.shown?.(item, state) ?? form.spec(draft, name)),
  };
}

const present = (fields: Json): Json =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([, value]) =>
        value !== undefined && !(typeof value === 'object' && value !== null && Object.keys(value).length === 0),
    ),
  );
