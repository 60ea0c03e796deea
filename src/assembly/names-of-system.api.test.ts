import { describe, expect, test } from 'vitest';
import type { Kube } from '../../hack/kube.ts';
import { manifest } from '../../testing/manifest.ts';
import { type Chain, EVERY_KIND, systemChains } from '../../testing/system-references.ts';
import { BOUNDS } from '../api/bounds.ts';
import { ANNOTATIONS, BUDGET_POLICY_NAME, LABELS, SETTINGS_POLICY_NAME, SYSTEM_NAMES_NAME } from '../api/names.ts';
import type { ConfigMap } from '../api/resources.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import { EVERY_NAME, NAMES_LENGTH } from '../rules/system-names.ts';
import { CORE_KINDS } from '../subjects/content/kinds/core-objects.ts';
import { MERGE, startSystemCluster, verdict } from './_system-cluster.ts';

// Who gives objects over kubectl names that applications of the system use, by every reference that there is.

const timeout = 60_000;
const chains = await systemChains();
const REFUSED = 'only who may update systemapplications in skerry.dev gives an object this name or number';
/** Kinds of objects that name others exist, so that the system uses what they name. */
const isBetween = ({ key }: Kind) =>
  chains.some(({ links }) => links.slice(0, -1).some(({ kind }) => kind.key === key));
const isCore = ({ key }: Kind) => Object.hasOwn(CORE_KINDS, key);

const system = await startSystemCluster({
  policies: ['skerry-names-of-system', 'skerry-accounts-of-system', 'skerry-parameters'],
  exists: isBetween,
});
const { kube } = system;

type Json = Record<string, unknown>;
const at = (object: KindObject, name: string, { metadata = {}, ...more }: { metadata?: object; spec?: Json } = {}) => ({
  ...object,
  metadata: { ...object.metadata, name, ...metadata },
  ...(more.spec && { spec: { ...object.spec, ...more.spec } }),
});

/** Objects of a kind that a reference would mean, by the way in which they get the name or number; without the name `free`. */
function claims({ kind, object, ref }: Chain['links'][number]): Record<string, { object: Json; patch: Json }> {
  const { name, labels } = object.metadata;
  if (typeof ref === 'number')
    return {
      'spec.id': { object: at(object, 'claims'), patch: { spec: { id: ref } } },
      [LABELS.id]: {
        object: at(object, 'claims', { metadata: { labels: { [LABELS.id]: String(ref) } }, spec: { id: undefined } }),
        patch: { metadata: { labels: { [LABELS.id]: String(ref) } } },
      },
    };
  const plain = { 'metadata.name': { object: at(object, name), patch: {} } };
  if (isCore(kind)) {
    const annotations = { [ANNOTATIONS.name]: ref };
    return {
      [ANNOTATIONS.name]: {
        object: at(object, 'claims', { metadata: { labels, annotations } }),
        patch: { metadata: { labels, annotations } },
      },
      ...(name === ref && plain),
    };
  }
  // An account is called by its application as well.
  const called = ref.slice(ref.indexOf('/') + 1);
  const hasName = 'name' in (kind.definition.spec as unknown as { shape: object }).shape;
  return {
    ...(hasName && {
      'spec.name': { object: at(object, 'claims', { spec: { name: called } }), patch: { spec: { name: called } } },
    }),
    ...(name === called && plain),
  };
}

describe.each(chains)('of $title', (chain: Chain) => {
  const link = chain.links.at(-1) as Chain['links'][number];
  const { kind, object } = link;
  const path = () => system.path(kind);
  const ways = Object.entries(claims(link));
  if (ways.length === 0) throw new Error(`${chain.title}: nothing gets the name ${link.ref}`);
  const changes = ways.filter(([, { patch }]) => Object.keys(patch).length > 0);

  test.each(ways)(
    'kubectl creates an object that has its name or number by %s for an admin, and for no developer',
    async (_, { object: claimant }) => {
      // What the policy of accounts refuses, it refuses by its own text.
      const refused = kind.key === 'serviceAccounts' ? 'only who may update systemapplications' : REFUSED;
      await expect
        .poll(() => verdict(system.user('developer'), 'POST', path(), claimant), { timeout })
        .toContain(refused);
      expect(await verdict(system.user('admin'), 'POST', path(), claimant)).toMatch(/^allowed$|already exists/);
    },
  );

  test.each(changes)('kubectl gives no object of a developer its name or number by %s', async (_, { patch }) => {
    const free = `free-${chain.links.length}-${String(link.ref)
      .replaceAll(/[^a-z0-9]+/gi, '-')
      .toLowerCase()}`;
    const owner = kind.key === 'serviceAccounts' ? { applicationName: 'shop' } : {};
    const spec = isCore(kind) ? {} : { spec: { id: undefined, name: undefined, ...owner } };
    // A Secret or ConfigMap may get the label that makes it one of the v3 API together with the name.
    const body = at(object, free, { metadata: { labels: {} }, ...spec });
    await kube.request('POST', path(), body).catch((error: Error) => {
      if (!error.message.includes('already exists')) throw error;
    });
    // Where the CRD refuses the change to everybody, as most names are immutable, there is nothing to judge. Both are asked
    // at each attempt: a number is immutable only once the leader has written it.
    const change = (by: Kube) => verdict(by, 'PATCH', `${path()}/${free}`, patch, MERGE);
    const attempt = async () => {
      const allowed = await change(system.user('admin'));
      const refused = await change(system.user('developer'));
      return { refused, judged: refused.includes(allowed === 'allowed' ? REFUSED : allowed) };
    };
    await expect.poll(attempt, { timeout: timeout / 2 }).toMatchObject({ judged: true });
    expect(
      await verdict(
        system.user('developer'),
        'PATCH',
        `${path()}/${free}`,
        { metadata: { annotations: { a: 'b' } } },
        MERGE,
      ),
    ).toBe('allowed');
  });
});

test('kubectl renames templates, Secrets and ConfigMaps: for an admin onto a name that the system uses', async () => {
  const renamed = chains.filter(
    ({ links: [link, more] }) => link && !more && (isCore(link.kind) || link.kind.recordsName),
  );
  expect(renamed.map(({ links: [link] }) => link?.kind.key).sort()).toEqual([
    'applicationTemplates',
    'configMaps',
    'secrets',
  ]);
  for (const { links } of renamed) {
    const link = links[0] as Chain['links'][number];
    const { patch } = Object.values(claims(link))[0] as { patch: Json };
    const path = system.path(link.kind);
    await kube.request('POST', path, at(link.object, 'renamed', { metadata: { labels: {} } }));
    expect(await verdict(system.user('admin'), 'PATCH', `${path}/renamed`, patch, MERGE)).toBe('allowed');
    expect(await verdict(system.user('developer'), 'PATCH', `${path}/renamed`, patch, MERGE)).toContain(REFUSED);
  }
});

test('a developer creates objects with other names, and what is no Secret of the v3 API has any name', async () => {
  const kind = EVERY_KIND.runtimeClasses as Kind;
  const free = manifest(kind.definition.kind, { name: 'mine' }, { handler: 'crun' });
  expect(await verdict(system.user('developer'), 'POST', system.path(kind), free)).toBe('allowed');
  const { kind: secrets, object } = chains
    .flatMap(({ links }) => links)
    .find((one) => one.kind.key === 'secrets') as Chain['links'][number];
  const unshared = at(object, object.metadata.name, { metadata: { labels: {} } });
  expect(await verdict(system.user('developer'), 'POST', system.path(secrets), unshared)).toBe('allowed');
});

test.each([BUDGET_POLICY_NAME, SYSTEM_NAMES_NAME, SETTINGS_POLICY_NAME])(
  'no developer creates the ConfigMap %s',
  async (name) => {
    const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: {} };
    const path = `/api/v1/namespaces/${system.namespace}/configmaps`;
    await expect
      .poll(() => verdict(system.user('developer'), 'POST', path, map), { timeout })
      .toContain('admission policies read it, and the controller writes it');
  },
);

describe('the ConfigMap with the names', () => {
  const path = () => `/api/v1/namespaces/${system.namespace}/configmaps/${SYSTEM_NAMES_NAME}`;
  const patch = { data: { registries: '' } };

  test('is changed and deleted by no developer, also not with all rights on ConfigMaps', async () => {
    const by = system.user('developer');
    const refused = 'admission policies read it, and the controller writes it';
    await expect.poll(() => verdict(by, 'PATCH', path(), patch, MERGE), { timeout }).toContain(refused);
    expect(await verdict(by, 'DELETE', path())).toContain(refused);
    expect(await verdict(by, 'DELETE', path().slice(0, path().lastIndexOf('/')))).toContain(refused);
    expect(await verdict(system.user('admin'), 'PATCH', path(), patch, MERGE)).toBe('allowed');
  });

  test('is searched for the longest name and number within the cost that the API server allows', async () => {
    const { kind, object } = chains
      .flatMap(({ links }) => links)
      .find((link) => link.kind.key === 'catalogItems') as Chain['links'][number];
    const name = 'n'.repeat(BOUNDS.anyName);
    const labels = { [LABELS.id]: String(BOUNDS.id) };
    const long = at(object, 'long', { metadata: { labels }, spec: { name, id: BOUNDS.id } });
    const last = `\nname:${name}\n`;
    const text = `${`\nname:${'n'.repeat(BOUNDS.anyName - 1)}`.repeat(NAMES_LENGTH)}`.slice(
      0,
      NAMES_LENGTH - last.length,
    );
    // The leader writes it again within a second, so that it is written until the policy knows it.
    const create = async () => {
      await kube.request('PATCH', path(), { data: { [kind.definition.plural]: `${text}${last}` } }, MERGE);
      return {
        developer: await verdict(system.user('developer'), 'POST', system.path(kind), long),
        admin: await verdict(system.user('admin'), 'POST', system.path(kind), long),
      };
    };
    await expect.poll(create, { timeout }).toEqual({ developer: expect.stringContaining(REFUSED), admin: 'allowed' });
  });

  test('lets a developer create nothing of a kind with more names than it can have, and edit what exists', async () => {
    const kind = EVERY_KIND.runtimeClasses as Kind;
    const body = (name: string) => manifest(kind.definition.kind, { name }, { handler: 'crun' });
    await kube.request('POST', system.path(kind), body('edited'));
    const by = system.user('developer');
    const known = (await kube.get(path())) as unknown as ConfigMap;
    // The leader writes it again within a second, so that it is written until the policy knows it.
    const create = async () => {
      await kube.request('PATCH', path(), { data: { [kind.definition.plural]: EVERY_NAME } }, MERGE);
      return verdict(by, 'POST', system.path(kind), body('any'));
    };
    expect(known.data?.[kind.definition.plural]).not.toBe(EVERY_NAME);
    await expect.poll(create, { timeout }).toContain(REFUSED);
    expect(await verdict(by, 'PATCH', `${system.path(kind)}/edited`, { spec: { handler: 'runc' } }, MERGE)).toBe(
      'allowed',
    );
  });
});
