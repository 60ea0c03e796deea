import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, inject, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { findTools } from '../hack/binaries.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { API_VERSION, LABELS } from './api/names.ts';
import type { Artifact } from './api/v3/index.ts';
import { poll, startTestCluster } from './rest/_cluster.ts';
import { RESOURCES } from './subjects/kinds.ts';

/** Models and knowledge on a real API server with a controller that leads: by kubectl, files and JSON. */
const run = promisify(execFile);
const dir = temporaryFolder();

const kubectl = (await findTools(['kubectl'])).kubectl;
const cluster = await startTestCluster();
const rest = (await cluster.startController()).client.as(await cluster.token('admin'));
await vi.waitFor(async () => expect((await rest.get('/status')).status).toBe(200), { timeout: 20_000 });
const hub = (await rest.post('/registries', { json: { name: 'hub', url: 'hub.example', type: 'hub' } })).body.id;
const { uuid: node } = (await rest.post('/node', { json: { name: 'gw-1', archId: 1 } })).body;

const documentOf = (kind: string, name: string, spec: object) =>
  stringify({ apiVersion: API_VERSION, kind, metadata: { name }, spec });

/** Output of kubectl, also when it fails. */
async function ctl(...args: string[]): Promise<string> {
  const all = ['--kubeconfig', inject('kubeconfig'), '-n', cluster.namespace, ...args];
  return run(kubectl, all).then(
    ({ stdout }) => stdout,
    ({ stderr }: { stderr: string }) => `failed: ${stderr}`,
  );
}

async function apply(kind: string, name: string, spec: object): Promise<string> {
  const file = join(dir, `${kind}-${name}.yaml`);
  await writeFile(file, documentOf(kind, name, spec));
  return ctl('apply', '--server-side', '-f', file);
}

test('a model is created, read, changed, linked, bound and deleted over REST', async () => {
  const path = '/models';
  const made = await rest.post(path, { json: { name: 'tiny', repo: 'team/tiny', registryId: hub, files: ['*.gguf'] } });
  expect([made.status, made.body.uuid]).toEqual([200, expect.any(String)]);
  const form = (name: string, spec: object) => ({ form: { part: 'model', text: documentOf('Model', name, spec) } });
  const fromFile = await rest.post(
    `${path}/yaml`,
    form('other', { repo: 'team/other', registry: 'hub', files: ['x'] }),
  );
  expect([fromFile.status, fromFile.body.registryId]).toEqual([200, hub]);
  const put = await rest.put(`${path}/yaml/tiny`, form('tiny', { repo: 'team/tiny', registry: hub, files: ['y'] }));
  expect(put.body).toEqual({ ...made.body, files: ['y'] });
  expect((await rest.patch(`${path}/tiny`, { json: { revision: 'v2' } })).body.revision).toBe('v2');
  expect((await rest.get(path)).body.models.map(({ name }: { name: string }) => name)).toEqual(['other', 'tiny']);
  expect((await rest.get(`${path}/tiny`)).body).toEqual({ ...put.body, revision: 'v2' });
  expect((await rest.post(`${path}/tiny/link`, { json: { fogUuids: ['gw-1'] } })).body).toEqual({ fogUuids: [node] });
  expect((await rest.get(`${path}/tiny/link`)).body).toEqual({ fogUuids: [node] });
  expect((await rest.delete(`${path}/tiny/link`, { json: { fogUuids: [node] } })).status).toBe(200);
  const images = [{ containerImage: 'x:1', archId: 1 }];
  await rest.post('/application', { json: { name: 'plant' } });
  const { uuid } = (
    await rest.post('/microservices', { json: { name: 'reader', application: 'plant', nodeUuid: node, images } })
  ).body;
  const catalog = { bindPath: '/models', items: [{ name: 'tiny' }] };
  expect((await rest.patch(`/microservices/${uuid}/models`, { json: catalog })).status).toBe(204);
  expect((await rest.delete(`${path}/tiny`)).body.code).toBe('MODEL_IN_USE');
  await poll(async () => (await read('models', 'tiny'))?.metadata.labels?.[LABELS.inUse]).toBe('true');
  expect((await rest.delete('/application/plant')).status).toBe(204);
  await poll(async () => (await read('models', 'tiny'))?.metadata.labels?.[LABELS.inUse]).toBeUndefined();
  expect((await rest.delete(`${path}/tiny`)).status).toBe(202);
});

test('knowledge is created, read, changed, linked, bound and deleted over REST', async () => {
  const path = '/knowledge';
  const made = await rest.post(path, {
    json: { name: 'manuals', repo: 'team/manuals', registryId: hub, format: 'PDF' },
  });
  expect([made.status, made.body.format]).toEqual([200, 'pdf']);
  const form = (name: string, spec: object) => ({
    form: { part: 'knowledge', text: documentOf('Knowledge', name, spec) },
  });
  expect((await rest.post(`${path}/yaml`, form('other', { repo: 'team/other', registry: 'hub' }))).status).toBe(200);
  const put = await rest.put(`${path}/yaml/manuals`, form('manuals', { repo: 'team/manuals', registry: hub }));
  expect(put.body).toEqual({ ...made.body, format: undefined });
  expect((await rest.patch(`${path}/manuals`, { json: { format: 'scrolls' } })).body.format).toBe('unknown');
  expect((await rest.get(path)).body.knowledge).toHaveLength(2);
  expect((await rest.get(`${path}/manuals`)).body.repo).toBe('team/manuals');
  expect((await rest.post(`${path}/manuals/link`, { json: { fogUuids: [node] } })).status).toBe(200);
  expect((await rest.get(`${path}/manuals/link`)).body).toEqual({ fogUuids: [node] });
  expect((await rest.delete(`${path}/manuals/link`, { json: { fogUuids: [node] } })).status).toBe(200);
  const images = [{ containerImage: 'x:1', archId: 1 }];
  await rest.post('/application', { json: { name: 'office' } });
  const { uuid } = (
    await rest.post('/microservices', { json: { name: 'reader', application: 'office', nodeUuid: node, images } })
  ).body;
  const catalog = { bindPath: '/docs', items: [{ name: 'manuals' }] };
  expect((await rest.patch(`/microservices/${uuid}/knowledge`, { json: catalog })).status).toBe(204);
  expect((await rest.delete(`${path}/manuals`)).body.code).toBe('KNOWLEDGE_IN_USE');
  expect((await rest.delete('/application/office')).status).toBe(204);
  expect((await rest.delete(`${path}/manuals`)).status).toBe(202);
});

const read = (kind: 'models' | 'knowledge', name: string) =>
  cluster.kube.find<Artifact>(RESOURCES[kind] as never, { namespace: cluster.namespace, name });

describe.each([
  ['Model', 'models', 'model'],
  ['Knowledge', 'knowledge', 'knowledge'],
] as const)('%s', (kind, plural, part) => {
  test('is judged alike by kubectl, as a file and as JSON', async () => {
    const refused: [object, RegExp][] = [
      [{ repo: 'https://hub.example/a', registryId: hub }, /repo.*https:\/\/hub\.example/],
      [{ repo: 'a', registryId: hub, registry: hub }, /exactly one of registryId and registry names the registry/],
      [{ repo: 'a', registryId: hub, files: ['../a'] }, /files\[0\]/],
      [{ repo: 'a', registryId: hub, size: 3 }, /size/],
    ];
    for (const [spec, message] of refused) {
      const json = await rest.post(`/${plural}`, { json: { name: 'bad', ...spec } });
      const file = await rest.post(`/${plural}/yaml`, { form: { part, text: documentOf(kind, 'bad', spec) } });
      expect([json.status, file.status]).toEqual([400, 400]);
      for (const text of [json.body.message, file.body.message, await apply(kind, 'bad', spec)])
        expect(text).toMatch(message);
    }
    expect(await apply(kind, 'not.a.label', { repo: 'a', registryId: hub })).toMatch(/at most 63 lower-case letters/);
  });

  test('that kubectl applies becomes Ready, gets its identity, and shows on how many nodes it is ready', async () => {
    expect(await apply(kind, 'by-kubectl', { repo: 'team/a', registry: 'hub', files: ['x'], nodes: ['gw-1'] })).toMatch(
      /serverside-applied/,
    );
    await poll(async () => (await read(plural, 'by-kubectl'))?.status?.nodeCount).toBe('0/1');
    const { body } = await rest.get(`/${plural}/by-kubectl`);
    expect(body).toMatchObject({ name: 'by-kubectl', registryId: hub, files: ['x'] });
    expect((await read(plural, 'by-kubectl'))?.status?.uuid).toBe(body.uuid);
    expect(await ctl('get', `${plural}.skerry.dev`, 'by-kubectl')).toMatch(
      /READY +NODES +REPO +REVISION +AGE\nby-kubectl +True +0\/1 +team\/a/,
    );
  });

  test('that kubectl applies and that names a registry which does not exist says so with the message of REST', async () => {
    const registry = `nowhere-${part}`;
    const spec = { repo: 'team/a', registryId: registry };
    await apply(kind, 'lost', spec);
    const { body } = await rest.post(`/${plural}`, { json: { name: 'lost-too', ...spec } });
    const ready = async () =>
      (await read(plural, 'lost'))?.status?.conditions?.find(({ type }) => type === 'Ready')?.message;
    await poll(ready).toBe(body.message);
    await rest.post('/registries', { json: { name: registry, url: 'reg.example' } });
    await poll(ready).toBe(`the ${part} can be used`);
  });
});
