import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, inject, test } from 'vitest';
import { stringify } from 'yaml';
import { findTools } from '../hack/binaries.ts';
import { manifest } from '../testing/manifest.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { BOUNDS } from './api/bounds.ts';
import { LABELS } from './api/names.ts';
import type { ConfigMap } from './api/resources.ts';
import type { Application, EdgeNode, Registry } from './api/v3/index.ts';
import { nextSecond, poll, startTestCluster } from './rest/_cluster.ts';
import { RESOURCES } from './subjects/kinds.ts';

/** Who objects are, on a real API server with a controller that leads: as kubectl, GitOps tools and backups meet it. */
const run = promisify(execFile);
const dir = temporaryFolder();

const kubectl = (await findTools(['kubectl'])).kubectl;
const cluster = await startTestCluster();
// Counters out of bounds, which a user with the developer role could write in former versions.
await cluster.kube.create<ConfigMap>(RESOURCES.configMaps, {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'skerry-ids', namespace: cluster.namespace },
  data: { Application: '9007199254740991', Registry: 'many' },
});
const rest = (await cluster.startController()).client.as(await cluster.token('admin'));

type Any = Application & EdgeNode & Registry;
const PLURALS = { Application: 'applications', EdgeNode: 'edgenodes', Registry: 'registries' } as const;
type Kind = keyof typeof PLURALS;
const resourceOf = (kind: Kind) =>
  ({ Application: RESOURCES.applications, EdgeNode: RESOURCES.nodes, Registry: RESOURCES.registries })[kind] as never;
const ref = (name: string) => ({ namespace: cluster.namespace, name });
const read = (kind: Kind, name: string) => cluster.kube.find<Any>(resourceOf(kind), ref(name));
const create = (kind: Kind, name: string, spec: object = {}, metadata: object = {}) =>
  cluster.kube.create<Any>(resourceOf(kind), manifest(kind, { ...ref(name), ...metadata }, spec) as never);
const merge = (kind: Kind, name: string, body: object) =>
  cluster.kube.patch<Any>(resourceOf(kind), ref(name), { type: 'merge', body });
/** Once the controller has looked at its present spec. */
const settled = async (kind: Kind, name: string): Promise<Any> => {
  let now: Any | undefined;
  await poll(async () => {
    now = await read(kind, name);
    return now?.status?.observedGeneration === now?.metadata.generation;
  }).toBe(true);
  return now as Any;
};
const ready = ({ status }: Any) => status?.conditions?.find(({ type }) => type === 'Ready');

/** A manifest as people write it: nothing that the server would add. Its lists have items that leave out what they may. */
const MANIFESTS: Record<Kind, object> = {
  EdgeNode: { description: 'Gateway in hall 3', tags: ['hall-3'] },
  Registry: { url: 'registry.plant.example:5000' },
  Application: {
    microservices: [
      {
        name: 'reader',
        agent: { name: 'nowhere' },
        images: { amd64: 'reg.example/reader:2' },
        models: { bindPath: '/models', items: [{ name: 'tiny' }] },
        container: {
          ports: [{ internal: 80, external: 8080 }],
          volumes: [{ hostDestination: '/srv', containerDestination: '/data', accessMode: 'ro' }],
          devices: [{ hostPath: '/dev/ttyS0', containerPath: '/dev/tty' }],
          env: [{ key: 'MODE', value: 'fast' }],
        },
        config: { rate: 5 },
      },
    ],
  },
};

const manifestOf = (kind: Kind, name: string) => manifest(kind, { name }, MANIFESTS[kind]);
async function fileOf(kind: Kind, name: string): Promise<string> {
  const file = join(dir, `${kind}-${name}.yaml`);
  await writeFile(file, stringify(manifestOf(kind, name)));
  return file;
}
const ctl = async (...args: string[]) =>
  (await run(kubectl, ['--kubeconfig', inject('kubeconfig'), '-n', cluster.namespace, ...args])).stdout;

/**
 * What a client that compares three ways would send: a JSON merge patch of what the manifest adds or changes, and of what
 * it had when it was applied last and no longer has. Fields that only the live object has are not looked at; a list is
 * one value. Argo CD compares custom resources so (its three-way diff, for kinds without a merge schema), and it is in
 * sync when the patch changes nothing.
 */
function threeWayPatch(last: unknown, manifest: unknown, live: unknown): unknown {
  const isMap = (value: unknown): value is Record<string, unknown> =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isMap(manifest) || !isMap(live))
    return JSON.stringify(manifest) === sorted(manifest, live) ? undefined : manifest;
  const patch: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(manifest)) {
    const change = threeWayPatch(isMap(last) ? last[key] : undefined, value, live[key]);
    if (change !== undefined) patch[key] = change;
  }
  for (const key of isMap(last) ? Object.keys(last) : []) if (!(key in manifest) && key in live) patch[key] = null;
  return Object.keys(patch).length > 0 ? patch : undefined;
}
/** The live value with the keys of maps in the manifest's order; only that differs between equal documents. */
function sorted(manifest: unknown, live: unknown): string {
  if (Array.isArray(manifest) && Array.isArray(live))
    return `[${live.map((item, i) => sorted(manifest[i], item)).join(',')}]`;
  if (typeof live !== 'object' || live === null || Array.isArray(live)) return JSON.stringify(live);
  const keys = [...new Set([...Object.keys((manifest ?? {}) as object), ...Object.keys(live)])].filter(
    (key) => key in live,
  );
  const entries = keys.map(
    (key) =>
      `${JSON.stringify(key)}:${sorted((manifest as Record<string, unknown>)?.[key], (live as Record<string, unknown>)[key])}`,
  );
  return `{${entries.join(',')}}`;
}

describe.each(Object.keys(MANIFESTS) as Kind[])("%s: a user's own manifest", (kind) => {
  const name = `own-${kind.toLowerCase()}`;

  test('is unchanged when it is applied a second time, and shows no difference', async () => {
    const file = await fileOf(kind, name);
    expect(await ctl('apply', '-f', file)).toContain('created');
    await settled(kind, name);
    expect(await ctl('apply', '-f', file)).toContain('unchanged');
    expect(await ctl('diff', '-f', file)).toBe('');
  });

  test('is in sync for a GitOps tool that compares manifest, last applied and live object', async () => {
    const live = await settled(kind, name);
    const last = JSON.parse(live.metadata.annotations?.['kubectl.kubernetes.io/last-applied-configuration'] ?? '');
    // The comparison of the tool leaves out the namespace and empty annotations, which kubectl adds.
    delete last.metadata.namespace;
    delete last.metadata.annotations;
    expect(threeWayPatch(last, manifestOf(kind, name), live)).toBeUndefined();
    // The comparison detects a real difference.
    expect(threeWayPatch(last, { ...manifestOf(kind, name), spec: { isActivated: 'no' } }, live)).toBeDefined();
  });

  test('replaces the stored object, which keeps its identity', async () => {
    const before = await settled(kind, name);
    expect(await ctl('replace', '-f', await fileOf(kind, name))).toContain('replaced');
    await poll(async () => (await read(kind, name))?.metadata.labels).toEqual(before.metadata.labels);
    const after = await settled(kind, name);
    expect([after.status?.uuid, after.status?.id]).toEqual([before.status?.uuid, before.status?.id]);
    expect(after.metadata.finalizers).toEqual(before.metadata.finalizers);
    expect(after.metadata.generation).toBe(before.metadata.generation);
  });

  test('that is restored without its status, as backups do, keeps its identity', async () => {
    const { metadata, spec, status } = await settled(kind, name);
    await cluster.kube.delete(resourceOf(kind), ref(name));
    await poll(() => read(kind, name)).toBeUndefined();
    const { labels, annotations } = metadata;
    const made = await create(kind, name, spec, { labels, annotations });
    expect(made.metadata.uid).not.toBe(metadata.uid);
    const back = await settled(kind, name);
    expect([back.status?.uuid, back.status?.id]).toEqual([status?.uuid, status?.id]);
  });

  test('restores identity labels that were changed or removed', async () => {
    const { metadata } = await settled(kind, name);
    const forged = { [LABELS.uuid]: randomUUID(), [LABELS.id]: '4711' };
    await merge(kind, name, { metadata: { labels: forged } });
    const right = async () => (await read(kind, name))?.metadata.labels;
    await poll(right).toMatchObject(metadata.labels ?? {});
    await merge(kind, name, { metadata: { labels: null } });
    await poll(right).toMatchObject(metadata.labels ?? {});
  });
});

describe('an object whose identity is in its spec', () => {
  test('keeps its identity when a manifest without it replaces the object', async () => {
    const uuid = randomUUID();
    await create('Application', 'of-before', { uuid, id: 4242, microservices: [] });
    expect((await settled('Application', 'of-before')).status).toMatchObject({ uuid, id: 4242 });
    await merge('Application', 'of-before', { spec: { uuid: null, id: null } });
    expect((await settled('Application', 'of-before')).status).toMatchObject({ uuid, id: 4242 });
  });

  test('cannot get another identity', async () => {
    await create('Application', 'fixed', {});
    await settled('Application', 'fixed');
    for (const spec of [{ uuid: randomUUID() }, { id: 77 }])
      await expect(merge('Application', 'fixed', { spec })).rejects.toThrow(/is immutable: spec\.(uuid|id) may repeat/);
    const { status } = await settled('Application', 'fixed');
    await merge('Application', 'fixed', { spec: { uuid: status?.uuid, id: status?.id } });
  });
});

test('a copy of an object with all its labels gets an identity of its own', async () => {
  await create('Application', 'original', {});
  const { metadata, status } = await settled('Application', 'original');
  await nextSecond(await settled('Application', 'original'));
  await create('Application', 'copy', {}, { labels: metadata.labels });
  const copy = await settled('Application', 'copy');
  await poll(async () => ready((await read('Application', 'copy')) as Any)?.reason).toBe('Empty');
  expect(copy.status?.uuid).toBe(copy.metadata.uid);
  expect(copy.status?.id).not.toBe(status?.id);
});

describe('numbers', () => {
  test('are issued for both kinds after the counter was set out of bounds', async () => {
    await create('Application', 'after-poison', {});
    expect((await settled('Application', 'after-poison')).status?.id).toBeLessThan(10_000);
    const { body } = await rest.post('/registries', {
      json: { url: 'r.example', isPublic: true, email: 'e@x.example' },
    });
    expect(body.id).toBeLessThan(10_000);
  });

  test.each(['Application', 'Registry'] as const)(
    '%s: the API server refuses a number beyond the bound',
    async (kind) => {
      for (const id of [9007199254740991, BOUNDS.id + 1])
        await expect(
          create(kind, 'beyond', { url: 'r.example', id, ...(kind === 'Application' && { url: undefined }) }),
        ).rejects.toThrow(/spec\.id/);
    },
  );

  test('the greatest number that a user may write moves no other number, and lists show every object', async () => {
    await create('Application', 'greatest', { id: BOUNDS.id });
    await create('Registry', 'greatest', { url: 'r.example', id: BOUNDS.id });
    for (const kind of ['Application', 'Registry'] as const)
      expect((await settled(kind, 'greatest')).status?.id).toBe(BOUNDS.id);
    await create('Application', 'next', {});
    expect((await settled('Application', 'next')).status?.id).toBeLessThan(10_000);
    const { status, body } = await rest.get('/application');
    expect(status).toBe(200);
    expect(body.applications.map(({ name }: { name: string }) => name)).toEqual(
      expect.arrayContaining(['greatest', 'next']),
    );
  });

  test.each(['Application', 'Registry'] as const)(
    '%s: a number that two objects ask for stays with the older one, and the other one is Stalled',
    async (kind) => {
      const spec = { id: 5151, ...(kind === 'Registry' && { url: 'r.example' }) };
      await create(kind, 'holder', spec);
      await nextSecond(await settled(kind, 'holder'));
      await create(kind, 'claimant', spec);
      await poll(async () => ready((await read(kind, 'claimant')) as Any)).toMatchObject({
        status: 'False',
        reason: 'IdTaken',
        message: expect.stringMatching(/5151.*holder/),
      });
      const claimant = await settled(kind, 'claimant');
      expect(claimant.status?.id).not.toBe(5151);
      await merge(kind, 'claimant', { spec: { id: null } });
      await poll(async () => ready((await read(kind, 'claimant')) as Any)?.reason).not.toBe('IdTaken');
    },
  );

  test('a number of an issued block that kubectl took is not issued again', async () => {
    const post = async () =>
      (await rest.post('/registries', { json: { url: 'r.example', isPublic: true, email: 'e@x.example' } })).body.id;
    const first: number = await post();
    await create('Registry', 'taker', { url: 'r.example', id: first + 1 });
    await settled('Registry', 'taker');
    expect(await post()).toBe(first + 2);
    const { body } = await rest.get('/registries');
    const ids = body.registries.map(({ id }: { id: number }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect((await rest.get(`/registries/${first + 1}`)).body).toMatchObject({ name: 'taker' });
  });

  test('the numbers of built-in registries are given to no other registry', async () => {
    await create('Registry', 'not-built-in', { url: 'evil.example', id: 2 });
    expect(ready(await settled('Registry', 'not-built-in'))).toMatchObject({ reason: 'IdTaken' });
  });
});

test('of two registries with one name the younger one is Stalled with NameTaken', async () => {
  await create('Registry', 'named', { url: 'r.example' });
  await nextSecond(await settled('Registry', 'named'));
  await create('Registry', 'other', { url: 'r.example', name: 'named' });
  await poll(async () => ready((await read('Registry', 'other')) as Any)).toMatchObject({ reason: 'NameTaken' });
});

test('of two applications with one uuid the younger one is not Ready and runs nothing', async () => {
  const uuid = randomUUID();
  await create('Application', 'elder', { uuid });
  await nextSecond(await settled('Application', 'elder'));
  const entry = { name: 'web', agent: { name: 'nowhere' }, images: { amd64: 'a:1' } };
  await create('Application', 'younger', { uuid, microservices: [entry] });
  await poll(async () => (await read('Application', 'younger'))?.status?.conditions).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ type: 'Ready', status: 'False', reason: 'UuidTaken' }),
      expect.objectContaining({ type: 'Admitted', status: 'False', reason: 'UuidTaken' }),
    ]),
  );
  expect((await settled('Application', 'younger')).status?.uuid).toBeUndefined();
  await cluster.kube.delete(RESOURCES.applications, ref('elder'));
  await poll(async () => (await read('Application', 'younger'))?.status?.uuid).toBe(uuid);
});
