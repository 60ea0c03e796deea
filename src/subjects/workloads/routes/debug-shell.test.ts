import { beforeEach, expect, test } from 'vitest';
import { ANNOTATIONS, API_VERSION } from '../../../api/names.ts';
import type { Application, CatalogItem } from '../../../api/v3/index.ts';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';
import { builtInItems } from '../../catalog/rules/catalog-item.ts';

/** The routes of debug shells; when a shell goes by itself is tested in src/subjects/workloads/reconcile/debug-shell.test.ts. */
let now = Date.parse('2026-01-01T00:00:00Z');
let count = 0;
let uuid: string;

const deps = createMemoryDependencies({ clock: () => now });
const sre = (await serveInMemory({ deps })).as('sre');
for (const { name, spec } of builtInItems())
  deps.stores.catalogItems.set({
    apiVersion: API_VERSION,
    kind: 'CatalogItem',
    metadata: { name, namespace: 'test', uid: name, resourceVersion: '1' },
    spec,
  } as CatalogItem);
deps.stores.registries.set({
  apiVersion: API_VERSION,
  kind: 'Registry',
  metadata: { name: 'remote', namespace: 'test', uid: 'remote', resourceVersion: '1' },
  spec: { id: 1, url: 'registry.hub.docker.com', isPublic: true, type: 'oci' },
  status: { id: 1 },
} as never);

beforeEach(async () => {
  count++;
  uuid = (await sre.post('/node', { json: { name: `gw-${count}`, archId: 1 } })).body.uuid;
});
const later = (object: CatalogItem): CatalogItem => ({
  ...object,
  metadata: { ...object.metadata, resourceVersion: `${Number(object.metadata.resourceVersion) + 1000}` },
});
const stored = () => deps.stores.applications.get('test', `system-gw-${count}`);
const ask = (json?: object) => sre.post(`/node/${uuid}/exec`, json && { json });

test('POST adds the microservice debug to the application of the system, which a read shows', async () => {
  expect((await ask()).status).toBe(204);
  const { body } = await sre.get(`/microservices/system?application=system-gw-${count}`);
  expect(body.microservices).toMatchObject([{ name: 'debug', nodeUuid: uuid, isPrivileged: true, pidMode: 'host' }]);
  expect((await sre.get(`/application/system-gw-${count}`)).status).toBe(404);
});

test('POST again makes the time longer and changes nothing else', async () => {
  await ask();
  const before = stored();
  now += 10 * 60_000;
  expect((await ask()).status).toBe(204);
  expect(stored()?.spec).toEqual(before?.spec);
  expect(stored()?.metadata.annotations?.[ANNOTATIONS.debugUntil]).toBe(new Date(now + 60 * 60_000).toISOString());
});

test('two POSTs at once make one shell, also when both saw no application', async () => {
  const { create } = deps.applications;
  const arrived = Promise.withResolvers<void>();
  let count = 0;
  // Neither creates before the other is about to.
  deps.applications.create = async (application, signal) => {
    if (++count === 2) arrived.resolve();
    await arrived.promise;
    return create(application, signal);
  };
  using _ = {
    [Symbol.dispose]() {
      deps.applications.create = create;
    },
  };
  const both = await Promise.all([ask(), ask()]);
  expect(both.map(({ status }) => status)).toEqual([204, 204]);
  expect(stored()?.spec.microservices).toHaveLength(1);
  expect(count).toBe(2);
});

test('POST says which image the shell runs: that of the request, else that of the catalog item', async () => {
  const runs = async (json?: object) => (await ask(json)).headers.get('skerry-image');
  const own = await runs();
  expect(own).toBe(builtInItems().find(({ name }) => name === 'debug')?.spec.images[0]?.containerImage);
  expect(await runs({ image: 'reg.example/tools:1' })).toBe('reg.example/tools:1');
  expect(await runs()).toBe(own);
  expect(stored()?.spec.microservices?.[0]?.images).toEqual({ catalogId: 3 });
});

test('POST takes an image of its own, and refuses a text that is none', async () => {
  expect((await ask({ image: 'reg.example/tools:1' })).status).toBe(204);
  const { body } = await sre.get(`/microservices/system?application=system-gw-${count}`);
  expect(body.microservices[0].images).toContainEqual({ containerImage: 'reg.example/tools:1', archId: 1 });
  expect(await ask({ image: 'no image' })).toMatchObject({
    status: 400,
    body: { message: expect.stringMatching(/^image/) },
  });
});

test('POST says that the node does not exist', async () => {
  const unknown = '00000000-0000-4000-8000-000000000000';
  expect(await sre.post(`/node/${unknown}/exec`)).toMatchObject({
    status: 404,
    body: { message: `there is no node with the uuid ${unknown}` },
  });
  expect((await sre.delete(`/node/${unknown}/exec`)).status).toBe(404);
});

test('POST says what is missing where the catalog has no image for the architecture of the node', async () => {
  const item = deps.stores.catalogItems.get('test', 'debug') as CatalogItem;
  const images = item.spec.images?.filter(({ archId }) => archId !== 1);
  deps.stores.catalogItems.set({ ...later(item), spec: { ...item.spec, images } } as CatalogItem);
  expect(await ask()).toMatchObject({
    status: 400,
    body: {
      message: `microservice debug: the catalog item "debug" has no image for amd64, the architecture of the node "gw-${count}"; it has arm64, riscv64, arm`,
    },
  });
  deps.stores.catalogItems.set(later(later(item)));
});

test('POST is a conflict with an application of users that has the name, and DELETE leaves it', async () => {
  // One of before such names were reserved.
  const metadata = { name: `system-gw-${count}`, namespace: 'test', uid: `users-${count}`, resourceVersion: '1' };
  deps.stores.applications.set({ apiVersion: API_VERSION, kind: 'Application', metadata, spec: {} } as Application);
  expect((await ask()).status).toBe(409);
  expect((await sre.delete(`/node/${uuid}/exec`)).status).toBe(204);
  expect(stored()).toBeDefined();
});

test('names of the system are refused for applications of users, and those of before can still be changed', async () => {
  const refused = await sre.post('/application', { json: { name: `system-gw-${count}`, microservices: [] } });
  expect(refused).toMatchObject({
    status: 400,
    body: {
      message: expect.stringMatching(/^name: "system-gw-\d+" must not begin with "system-".*choose another name/),
    },
  });
  const metadata = { name: `system-gw-${count}`, namespace: 'test', uid: `users-${count}`, resourceVersion: '1' };
  deps.stores.applications.set({ apiVersion: API_VERSION, kind: 'Application', metadata, spec: {} } as Application);
  expect((await sre.patch(`/application/system-gw-${count}`, { json: { description: 'old' } })).status).toBe(204);
});

test('DELETE removes the shell and leaves the other microservices of the application', async () => {
  await ask();
  const application = stored() as Application;
  const router = { name: 'router', agent: { uuid }, images: { amd64: 'r:1' } };
  const microservices = [...(application.spec.microservices ?? []), router];
  const spec = { ...application.spec, microservices };
  await deps.applications.replace({ ...application, spec }, AbortSignal.timeout(5_000));
  expect((await sre.delete(`/node/${uuid}/exec`)).status).toBe(204);
  expect(stored()?.spec.microservices).toMatchObject([{ name: 'router' }]);
});

test('DELETE leaves an application that was made for the shell to the leader, without a microservice', async () => {
  await ask();
  expect((await sre.delete(`/node/${uuid}/exec`)).status).toBe(204);
  expect(stored()?.spec.microservices).toEqual([]);
  expect(stored()?.metadata.annotations).toMatchObject({ [ANNOTATIONS.madeFor]: 'debug' });
  expect((await ask()).status).toBe(204);
  expect(stored()?.spec.microservices).toHaveLength(1);
});

/** Another client writes the application once, after the next request has read it. */
function meanwhile(write: (application: Application) => Promise<unknown>): Disposable {
  const { read } = deps.applications;
  let isDone = false;
  deps.applications.read = async (name, signal) => {
    const found = await read(name, signal);
    if (found && !isDone) {
      isDone = true;
      await write(found);
    }
    return found;
  };
  return {
    [Symbol.dispose]() {
      deps.applications.read = read;
    },
  };
}
const withRouter = (application: Application): Application => {
  const router = { name: 'router', agent: { uuid }, images: { amd64: 'r:1' } };
  const microservices = [...(application.spec.microservices ?? []), router];
  return { ...application, spec: { ...application.spec, microservices } };
};
const replace = (application: Application) => deps.applications.replace(application, AbortSignal.timeout(5_000));

test('DELETE leaves a microservice that was added to the application meanwhile', async () => {
  await ask();
  using _ = meanwhile((application) => replace(withRouter(application)));
  expect((await sre.delete(`/node/${uuid}/exec`)).status).toBe(204);
  expect(stored()?.spec.microservices).toMatchObject([{ name: 'router' }]);
});

test('DELETE removes a shell that was not alone in the application and meanwhile is', async () => {
  await ask();
  const alone = (stored() as Application).spec;
  await replace(withRouter(stored() as Application));
  using _ = meanwhile((application) => replace({ ...application, spec: alone }));
  expect((await sre.delete(`/node/${uuid}/exec`)).status).toBe(204);
  expect(stored()?.spec.microservices).toEqual([]);
});

test('POST makes the application again that the leader deleted meanwhile', async () => {
  await ask();
  expect((await sre.delete(`/node/${uuid}/exec`)).status).toBe(204);
  using _ = meanwhile((application) => deps.applications.delete(application, AbortSignal.timeout(5_000)));
  expect((await ask()).status).toBe(204);
  expect(stored()?.spec.microservices).toHaveLength(1);
});

test('POST lets the shell run on a node that was made again under its name', async () => {
  await ask();
  const known = stored() as Application;
  const [entry] = known.spec.microservices ?? [];
  const gone = { ...entry, agent: { uuid: '44444444-4444-4444-8444-444444444444' }, isActivated: false };
  await replace({ ...known, spec: { ...known.spec, microservices: [gone] } } as Application);
  expect((await ask()).status).toBe(204);
  expect(stored()?.spec.microservices?.[0]?.agent).toEqual({ uuid });
  expect(stored()?.spec.microservices?.[0]?.isActivated).not.toBe(false);
});
