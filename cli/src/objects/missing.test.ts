import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { API_VERSION, LABELS } from '../../../src/api/names.ts';
import { ApiError, type KubeClient, type KubeObject, type ObjectRef, type Resource } from '../../../src/kube/mod.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { createPlugin } from '../_plugin.ts';

const UUID = '7faa827a-4355-4898-8705-10cb8a4c9efa';
const object = (name: string, more: object = {}) =>
  ({ metadata: { name }, spec: {}, ...more }) as unknown as KubeObject;
const shareable = (name: string) => object(name, { metadata: { name, labels: { [LABELS.shareable]: 'true' } } });

const PRESENT: Readonly<Record<string, readonly KubeObject[]>> = {
  edgenodes: [object('gw-1', { status: { uuid: UUID } }), object('x-1', { spec: { name: 'Gateway 2' } })],
  catalogitems: [object('reader', { spec: { id: 10 } })],
  registries: [object('team', { spec: { id: 11 } })],
  runtimeclasses: [object('sandboxed')],
  volumemounts: [object('db-files')],
  models: [object('tiny')],
  knowledge: [object('manuals')],
  microservicetemplates: [object('base')],
  applicationtemplates: [object('line')],
  secrets: [shareable('db'), object('hidden')],
  configmaps: [shareable('site')],
};

/** Applies documents in a namespace that has these objects; returns what the plugin says on both outputs. */
async function applied(documents: readonly object[], { flags = [] as string[], forbidden = '' } = {}) {
  const folder = temporaryFolder();
  const file = join(folder, 'file.yaml');
  writeFileSync(file, documents.map((document) => JSON.stringify(document)).join('\n---\n'));
  const made = new Map<string, KubeObject>();
  const lists: string[] = [];
  const allowed = ({ plural }: Resource) => {
    if (plural === forbidden) throw new ApiError(403, { reason: 'Forbidden' }, plural);
  };
  const client = {
    find: async (resource: Resource, { name }: ObjectRef) => {
      allowed(resource);
      const { plural } = resource;
      return made.get(`${plural}/${name}`) ?? PRESENT[plural]?.find(({ metadata }) => metadata.name === name);
    },
    async *listPages(resource: Resource) {
      allowed(resource);
      lists.push(resource.plural);
      for (const item of PRESENT[resource.plural] ?? []) yield { items: [item] };
    },
    patch: async ({ plural }: Resource, { name }: ObjectRef, { body }: { body: KubeObject }, { dryRun = false }) => {
      if (!dryRun) made.set(`${plural}/${name}`, body);
      return body;
    },
  } as unknown as KubeClient;
  const ran = await createPlugin(client, 'skerry')('apply', '-f', file, ...flags);
  return { ...ran, lists };
}

const shop = (microservice: object, spec: object = {}) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name: 'shop' },
  spec: { ...spec, microservices: [{ name: 'web', agent: { name: 'gw-1' }, ...microservice }] },
});
const images = { amd64: 'shop/web:1', registry: 'team' };
const mounted = (hostDestination: string) => ({
  volumes: [{ type: 'volumeMount', hostDestination, containerDestination: '/x', accessMode: 'ro' }],
});

test.each<[string, object, string]>([
  ['a node', { images, agent: { name: 'gw-l' } }, 'there is no node "gw-l"; did you mean gw-1?'],
  [
    'a uuid of a node',
    { images, agent: { uuid: UUID.replace('7', '8') } },
    `there is no node "${UUID.replace('7', '8')}"`,
  ],
  ['a catalog item', { images: { catalogId: 'readr' } }, 'there is no catalog item "readr"; did you mean reader?'],
  ['the id of a catalog item', { images: { catalogId: 12 } }, 'there is no catalog item with the id 12'],
  ['a registry', { images: { ...images, registry: 'remoet' } }, 'there is no registry "remoet"; did you mean remote?'],
  [
    'a runtime class',
    { images, container: { runtime: 'sandbox' } },
    'there is no runtime class "sandbox"; did you mean sandboxed?',
  ],
  [
    'a volume mount',
    { images, container: mounted('db-file') },
    'there is no volume mount "db-file"; did you mean db-files?',
  ],
  [
    'a model',
    { images, models: { bindPath: '/m', items: [{ name: 'tinny' }] } },
    'there is no model "tinny"; did you mean tiny?',
  ],
  [
    'knowledge',
    { images, knowledge: { bindPath: '/k', items: [{ name: 'manual' }] } },
    'there is no knowledge "manual"; did you mean manuals?',
  ],
  [
    'a template',
    { images, template: { name: 'bass' } },
    'there is no microservice template "bass"; did you mean base?',
  ],
  [
    'a Secret',
    { images, container: { env: [{ key: 'A', valueFromSecret: 'bd/user' }] } },
    'there is no secret "bd" with the label skerry.dev/shareable=true',
  ],
  [
    'a Secret without the label',
    { images, container: { env: [{ key: 'A', valueFromSecret: 'hidden/user' }] } },
    'there is no secret "hidden" with the label skerry.dev/shareable=true',
  ],
  [
    'a ConfigMap',
    { images, container: { env: [{ key: 'A', valueFromConfigMap: 'sites/user' }] } },
    'there is no config map "sites" with the label skerry.dev/shareable=true; did you mean site?',
  ],
  ['a role', { images, serviceAccount: { roleRef: { name: 'king' } } }, 'there is no role "king"; the roles are '],
])('apply of a microservice that misspells %s writes it and warns of it', async (_, microservice, warning) => {
  const { code, out, err } = await applied([shop(microservice)]);
  expect({ code, out }).toEqual({ code: 0, out: 'application/shop created\n' });
  expect(err.startsWith(`warning: application/shop: microservice web: ${warning}`)).toBe(true);
  expect(err.trim().split('\n')).toHaveLength(1);
});

test('apply warns of nothing when all that an application names exists, and lists no kind for what it finds by its name', async () => {
  const env = [
    { key: 'A', valueFromSecret: 'db/user' },
    { key: 'B', valueFromConfigMap: 'site/x' },
  ];
  const microservice = {
    agent: { uuid: UUID },
    images: { amd64: 'shop/web:1' },
    container: { ...mounted('db-files/conf'), env, runtime: 'sandboxed' },
    models: { bindPath: '/m', items: [{ name: 'tiny' }] },
    template: { name: 'base' },
  };
  const { err, lists } = await applied([shop(microservice, { template: { name: 'line' } })]);
  expect(err).toBe('');
  expect(lists).toEqual(['edgenodes']);
  expect(await applied([shop({ images, agent: { name: 'Gateway 2' } })])).toMatchObject({ err: '' });
});

test.each([[], ['--dry-run']])(
  'apply warns of nothing that another document of the file makes %s',
  async (...flags) => {
    const node = { apiVersion: API_VERSION, kind: 'EdgeNode', metadata: { name: 'gw-9' }, spec: {} };
    expect(await applied([shop({ images, agent: { name: 'gw-9' } }), node], { flags })).toMatchObject({
      code: 0,
      err: '',
    });
  },
);

test('apply warns of what other kinds name, and of each name once for each object', async () => {
  const model = (name: string) => ({
    apiVersion: API_VERSION,
    kind: 'Model',
    metadata: { name },
    spec: { repo: 'a/b', registry: 'huub', nodes: ['gw-l'], files: ['*'] },
  });
  const { err, lists } = await applied([model('a'), model('b')]);
  expect(err).toBe(
    ['a', 'b']
      .flatMap((name) => [
        `warning: model/${name}: there is no registry "huub"\n`,
        `warning: model/${name}: there is no node "gw-l"; did you mean gw-1?\n`,
      ])
      .join(''),
  );
  expect(lists.toSorted()).toEqual(['edgenodes', 'registries']);
});

test('apply of a Microservice warns of what this microservice names alone', async () => {
  const third = { kind: 'Microservice', metadata: { name: 'shop/third' }, spec: { agent: { name: 'gw-l' }, images } };
  const { err } = await applied([shop({ images, agent: { name: 'gw-1' } }), third]);
  expect(err).toBe('warning: application/shop: microservice third: there is no node "gw-l"; did you mean gw-1?\n');
});

test('apply says nothing of kinds that the user may not read', async () => {
  expect(await applied([shop({ images: { catalogId: 'readr' } })], { forbidden: 'catalogitems' })).toMatchObject({
    code: 0,
    err: '',
  });
});
