import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { kubeFromFile } from '../hack/kube.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { ANNOTATIONS, API_VERSION, LABELS } from './api/names.ts';
import type { Application, CatalogItem, EdgeNode, Registry } from './api/v3/index.ts';
import { nextSecond, poll, startTestCluster } from './rest/_cluster.ts';

/** The reconcilers on a real API server, with kubectl as the client and without an agent. */
const kube = await kubeFromFile(inject('kubeconfig'));
const releases = temporaryFolder();
const cluster = await startTestCluster();
const { namespace } = cluster;
const { app } = await cluster.startController({}, { releasesFolder: releases });
afterAll(() => kube.close());

test('machines get the install script without a token', async () => {
  const file = { file: 'agent.deb', sha256: '0'.repeat(64) };
  const list = { version: '1.2.3', packages: { amd64: { deb: file, archive: file } } };
  mkdirSync(join(releases, 'latest'));
  writeFileSync(join(releases, 'latest/packages.json'), JSON.stringify(list));
  const response = await fetch(`http://127.0.0.1:${app.addresses.rest}/install.sh`);
  expect(response.status).toBe(200);
  expect(await response.text()).toContain(`url='http://127.0.0.1:${app.addresses.rest}/releases/1.2.3'`);
});

const path = (plural: string, name = '') =>
  `/apis/${API_VERSION}/namespaces/${namespace}/${plural}${name && `/${name}`}`;
const create = <T>(plural: string, kind: string, name: string, spec: object = {}, metadata: object = {}) =>
  kube.request<T>('POST', path(plural), { apiVersion: API_VERSION, kind, metadata: { name, ...metadata }, spec });
const application = (name: string) => kube.get<Application>(path('applications', name));
const node = (name: string) => kube.get<EdgeNode>(path('edgenodes', name));
const registry = (name: string) => kube.get<Registry>(path('registries', name));
const condition = (object: Application | EdgeNode | Registry | undefined, type: string) =>
  object?.status?.conditions?.find((one) => one.type === type);
const entry = (name: string, fields: object = {}) => ({
  name,
  agent: { name: 'n1' },
  images: { amd64: 'a:1' },
  ...fields,
});

describe('an identity', () => {
  test('a node made with kubectl gets its uid as uuid', async () => {
    const made = await create<EdgeNode>('edgenodes', 'EdgeNode', 'n1');
    await poll(async () => (await node('n1'))?.status?.uuid).toBe(made.metadata.uid);
  });

  test('applications made with kubectl get uuids and numbers that grow', async () => {
    for (const name of ['id-a', 'id-b']) await create('applications', 'Application', name);
    await poll(async () => (await application('id-b'))?.status?.id).toBeGreaterThan(0);
    await poll(async () => (await application('id-a'))?.status?.id).toBeGreaterThan(0);
    expect((await application('id-a'))?.status?.id).not.toBe((await application('id-b'))?.status?.id);
    expect((await application('id-a'))?.status?.uuid).toBe((await application('id-a'))?.metadata.uid);
  });

  test('an application keeps the uuid in its spec', async () => {
    const uuid = randomUUID();
    await create('edgenodes', 'EdgeNode', 'own', { uuid });
    await poll(async () => condition(await node('own'), 'Ready')?.reason).toBe('NotProvisioned');
    expect((await node('own'))?.status?.uuid).toBe(uuid);
  });

  test('of two nodes with one uuid the younger one is Stalled with UuidTaken', async () => {
    const uuid = randomUUID();
    await create('edgenodes', 'EdgeNode', 'first', { uuid });
    await poll(async () => condition(await node('first'), 'Ready')?.reason).toBe('NotProvisioned');
    await nextSecond(await node('first'));
    await create('edgenodes', 'EdgeNode', 'second', { uuid });
    await poll(async () => condition(await node('second'), 'Ready')).toMatchObject({
      status: 'False',
      reason: 'UuidTaken',
    });
    await kube.request('DELETE', path('edgenodes', 'first'));
    await poll(async () => condition(await node('second'), 'Ready')?.reason).toBe('NotProvisioned');
  });

  test('of two applications with one v3 name the younger one is Stalled with NameTaken', async () => {
    await create('applications', 'Application', 'named', {});
    await poll(async () => condition(await application('named'), 'Ready')?.reason).toBe('Empty');
    await nextSecond(await application('named'));
    await create('applications', 'Application', 'other', { name: 'named', microservices: [entry('web')] });
    await poll(async () => condition(await application('other'), 'Ready')).toMatchObject({
      status: 'False',
      reason: 'NameTaken',
    });
  });
});

describe('the condition and the status of the entry have the verdict', () => {
  const table: [string, object, string, RegExp][] = [
    ['a node that does not exist', { agent: { name: 'nowhere' } }, 'NodeNotFound', /nowhere/],
    ['an entry without a node', { agent: undefined }, 'NodeNotSet', /node/],
    ['a registry that does not exist', { images: { amd64: 'a:1', registry: 'none' } }, 'RegistryNotFound', /none/],
    ['a registry that is a model hub', { images: { amd64: 'a:1', registry: 'hub' } }, 'RegistryWrongType', /hub/],
    [
      'a Secret that does not exist',
      { container: { env: [{ key: 'A', valueFromSecret: 'none/key' }] } },
      'SecretNotFound',
      /none/,
    ],
    [
      'a Secret that may not be shared',
      { container: { env: [{ key: 'A', valueFromSecret: 'private/key' }] } },
      'SecretNotFound',
      /private/,
    ],
    [
      'a key that is missing in a Secret',
      { container: { env: [{ key: 'A', valueFromSecret: 'shared/none' }] } },
      'SecretKeyNotFound',
      /none/,
    ],
    ['a reserved port', { container: { ports: [{ internal: 80, external: 54321 }] } }, 'PortReserved', /54321/],
    ['a reserved variable', { container: { env: [{ key: 'SKERRY_X', value: '1' }] } }, 'ReservedEnv', /SKERRY_X/],
    ['a config of more than 64 KiB', { config: { text: 'x'.repeat(70_000) } }, 'ConfigTooLarge', /config/i],
    ['a missing catalog item', { images: { catalogId: 7 } }, 'CatalogItemNotFound', /no catalog item 7/],
    ['a missing runtime class', { container: { runtime: 'crun' } }, 'RuntimeClassNotFound', /no runtime class "crun"/],
  ];
  beforeAll(async () => {
    await create('registries', 'Registry', 'hub', { url: 'hub.example', type: 'hub' });
    for (const [name, labels] of [
      ['private', {}],
      ['shared', { [LABELS.shareable]: 'true' }],
    ] as const) {
      await kube.request('POST', `/api/v1/namespaces/${namespace}/secrets`, {
        metadata: { name, labels },
        stringData: { key: 'hush-hush' },
      });
    }
  });
  test.each(table)('%s', async (what, fields, reason, text) => {
    const name = `v-${what.replaceAll(/[^a-z]+/gi, '-').toLowerCase()}`.slice(0, 60).replace(/-$/, '');
    await create('applications', 'Application', name, { microservices: [entry('web', fields)] });
    await poll(async () => condition(await application(name), 'Ready')?.reason).toBe(reason);
    const shown = await application(name);
    expect(condition(shown, 'Ready')).toMatchObject({
      status: 'False',
      observedGeneration: shown?.metadata.generation,
    });
    expect(condition(shown, 'Ready')?.message).toMatch(text);
    expect(shown?.status?.microservices?.[0]?.message).toMatch(text);
    expect(JSON.stringify(shown)).not.toContain('hush-hush');
  });

  test('an entry is admitted once the missing object appears', async () => {
    await create('applications', 'Application', 'waits', {
      microservices: [entry('web', { images: { amd64: 'a:1', registry: 'late' } })],
    });
    await poll(async () => condition(await application('waits'), 'Ready')?.reason).toBe('RegistryNotFound');
    await create('registries', 'Registry', 'late', { url: 'late.example' });
    await poll(async () => condition(await application('waits'), 'Ready')?.reason).toBe('NotProvisioned');
  });

  test('of two applications that claim one port the older one keeps it', async () => {
    const ports = { container: { ports: [{ internal: 80, external: 9_999 }] } };
    await create('applications', 'Application', 'port-a', { microservices: [entry('web', ports)] });
    await poll(async () => condition(await application('port-a'), 'Ready')?.reason).toBe('NotProvisioned');
    await nextSecond(await application('port-a'));
    await create('applications', 'Application', 'port-b', { microservices: [entry('web', ports)] });
    await poll(async () => condition(await application('port-b'), 'Ready')?.reason).toBe('PortTaken');
    expect(condition(await application('port-a'), 'Ready')?.reason).toBe('NotProvisioned');
    await kube.request('DELETE', path('applications', 'port-a'));
    await poll(async () => condition(await application('port-b'), 'Ready')?.reason).toBe('NotProvisioned');
  });
});

describe('registries', () => {
  test('the built-in registries exist, and are created again after a deletion', async () => {
    await poll(async () => [(await registry('remote'))?.status?.id, (await registry('local'))?.status?.id]).toEqual([
      1, 2,
    ]);
    const before = (await registry('local'))?.metadata.uid;
    await kube.request('DELETE', path('registries', 'local'));
    await poll(async () => {
      const now = await registry('local');
      return now !== undefined && now.metadata.uid !== before && now.status?.id === 2;
    }).toBe(true);
  });

  test('the catalog items of the system exist, and can be used', async () => {
    for (const [name, id] of [
      ['router', 1],
      ['bus', 2],
      ['debug', 3],
    ] as const)
      await poll(async () => {
        const item = await kube.get<CatalogItem>(path('catalogitems', name));
        return [item?.status?.id, item?.status?.conditions?.find(({ type }) => type === 'Ready')?.reason];
      }).toEqual([id, 'Usable']);
  });

  test('a registry in use has the in-use label, and its deletion waits for its last user', async () => {
    await create('registries', 'Registry', 'busy', { url: 'busy.example' });
    await create('applications', 'Application', 'user', {
      microservices: [entry('web', { images: { amd64: 'a:1', registry: 'busy' } })],
    });
    await poll(async () => (await registry('busy'))?.metadata.labels?.[LABELS.inUse]).toBe('true');
    await kube.request('DELETE', path('registries', 'busy'));
    await poll(async () => condition(await registry('busy'), 'Ready')?.message).toContain('user/web');
    await kube.request('DELETE', path('applications', 'user'));
    await poll(() => registry('busy')).toBeUndefined();
  });

  test('a registry whose password is missing is not Ready with PasswordNotFound', async () => {
    await create('registries', 'Registry', 'locked', {
      url: 'locked.example',
      isPublic: false,
      username: 'u',
      passwordSecretRef: { name: 'no-such', key: 'password' },
    });
    await poll(async () => condition(await registry('locked'), 'Ready')).toMatchObject({
      status: 'False',
      reason: 'PasswordNotFound',
    });
  });
});

describe('annotations of a registry do not bypass its protection', () => {
  test('the draft annotation removes neither a built-in registry nor one with a number', async () => {
    const annotations = { [ANNOTATIONS.draft]: 'true' };
    const merge = 'application/merge-patch+json';
    await create('registries', 'Registry', 'numbered', { url: 'numbered.example' });
    await poll(async () => (await registry('numbered'))?.status?.id).toBeGreaterThan(0);
    for (const name of ['remote', 'numbered']) {
      await kube.request('PATCH', path('registries', name), { metadata: { annotations } }, merge);
      await kube.request('PATCH', path('registries', name), { spec: { email: 'a@example.org' } }, merge);
      await poll(async () => {
        const { metadata, status } = (await registry(name)) ?? {};
        return metadata?.deletionTimestamp ?? [metadata?.generation === status?.observedGeneration];
      }).toEqual([true]);
    }
    // A registry with the draft annotation can still be deleted.
    await kube.request('DELETE', path('registries', 'numbered'));
    await poll(() => registry('numbered')).toBeUndefined();
  });

  test('a Secret that a registry owns is bound to the first destination of the registry', async () => {
    const passwordSecretRef = { name: 'older', key: 'password' };
    const spec = { url: 'first.example', insecure: true, passwordSecretRef };
    const { metadata } = await create<Registry>('registries', 'Registry', 'older', spec);
    const owner = { apiVersion: API_VERSION, kind: 'Registry', name: metadata.name, uid: metadata.uid };
    await kube.request('POST', `/api/v1/namespaces/${namespace}/secrets`, {
      metadata: { name: 'older', ownerReferences: [owner] },
      stringData: { password: 'p' },
    });
    const bound = async () =>
      (await kube.get<Registry>(`/api/v1/namespaces/${namespace}/secrets/older`))?.metadata.annotations;
    await poll(bound).toEqual({ [ANNOTATIONS.registry]: 'http://first.example' });
    await poll(async () => condition(await registry('older'), 'Ready')?.reason).toBe('Usable');
  });
});

test('the deletion of an application whose nodes were never live does not wait', async () => {
  await create('applications', 'Application', 'brief', { microservices: [entry('web')] });
  await poll(async () => (await application('brief'))?.metadata.finalizers).toEqual(['skerry.dev/workloads']);
  await kube.request('DELETE', path('applications', 'brief'));
  await poll(() => application('brief')).toBeUndefined();
});

test('an expired provisioning key is deleted', async () => {
  const secret = (name: string, expiresAt: number, nodeUuid: string = randomUUID()) =>
    kube.request('POST', `/api/v1/namespaces/${namespace}/secrets`, {
      metadata: { name, labels: { [LABELS.provisioningKey]: nodeUuid } },
      stringData: { nodeUuid, expiresAt: String(expiresAt) },
    });
  await secret('key-expired', Date.now() - 120_000);
  await secret('key-valid', Date.now() + 600_000);
  await poll(() => kube.get(`/api/v1/namespaces/${namespace}/secrets/key-expired`)).toBeUndefined();
  expect(await kube.get(`/api/v1/namespaces/${namespace}/secrets/key-valid`)).toBeDefined();
});

test('a transition of a condition records one event', async () => {
  await create('applications', 'Application', 'reported', {
    microservices: [entry('web', { images: { amd64: 'a:1', registry: 'later' } })],
  });
  await poll(async () => condition(await application('reported'), 'Ready')?.reason).toBe('RegistryNotFound');
  await kube.request(
    'PATCH',
    path('applications', 'reported'),
    { spec: { description: 'changes nothing' } },
    'application/merge-patch+json',
  );
  await poll(async () => condition(await application('reported'), 'Ready')?.observedGeneration).toBe(2);
  await create('registries', 'Registry', 'later', { url: 'later.example' });
  await poll(async () => condition(await application('reported'), 'Ready')?.reason).toBe('NotProvisioned');
  const events = await kube.request<{ items: { regarding: { name: string }; reason: string }[] }>(
    'GET',
    `/apis/events.k8s.io/v1/namespaces/${namespace}/events`,
  );
  const reasons = events.items.filter((event) => event.regarding.name === 'reported').map((event) => event.reason);
  expect(reasons.filter((reason) => reason === 'RegistryNotFound')).toHaveLength(1);
});
