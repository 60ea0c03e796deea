import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type {} from '../../hack/testing/provided.ts';
import type { Application } from '../api/v3/index.ts';
import { RESOURCES } from '../subjects/kinds.ts';
import type { TestClient } from './_client.ts';
import { startTestCluster } from './_cluster.ts';

let count = 0;
/** A name that no other test has. */
let name: string;

const cluster = await startTestCluster();
const replica = await cluster.startReplica();
const token = await cluster.token('admin');
const admin = replica.client.as(token);
const there = (await cluster.startReplica()).client.as(token);
const { uuid: nodeUuid } = (await admin.post('/node', { json: { name: 'gw', host: '10.0.0.1' } })).body;
beforeEach(() => {
  name = `app-${++count}`;
});

const images = [{ containerImage: 'reg.example/a:1', archId: 1 }];
const flat = (of: string, more: object = {}) => ({ name: of, nodeUuid, images, ...more });
const create = async (microservices: object[] = [flat('a')], more: object = {}) => {
  const answer = await admin.post('/application', { json: { name, microservices, ...more } });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return (await admin.get(`/application/${name}`)).body;
};
const stored = (of = name) =>
  cluster.kube.get<Application>(RESOURCES.applications, { namespace: cluster.namespace, name: of });

describe('an application', () => {
  test('is created with its microservices, read, listed and deleted', async () => {
    const body = await create(
      [flat('a', { config: '{"rate": 5}', ports: [{ internal: 80, external: 8001 }] }), flat('b')],
      {
        description: 'two',
      },
    );
    expect(body).toMatchObject({
      name,
      description: 'two',
      isActivated: true,
      busConfig: { busAccess: false, busRule: null },
    });
    expect(body.id).toBeGreaterThan(9);
    expect(body.microservices.map((one: { name: string }) => one.name)).toEqual(['a', 'b']);
    expect(body.microservices[0]).toMatchObject({
      application: name,
      nodeUuid,
      config: '{"rate":5}',
      registryId: 1,
      images,
      ports: [{ internal: 80, external: 8001, protocol: 'tcp' }],
      status: { status: 'QUEUED' },
      flowId: body.id,
    });
    const { body: list } = await admin.get('/application');
    expect(list.applications.map((one: { name: string }) => one.name)).toContain(name);
    expect((await admin.delete(`/application/${name}`)).status).toBe(204);
    expect((await admin.get(`/application/${name}`)).status).toBe(404);
    expect((await admin.delete(`/application/${name}`)).status).toBe(404);
  });

  test('cannot be created twice under one name, at one replica or at two', async () => {
    await create([]);
    for (const client of [admin, there])
      expect(await client.post('/application', { json: { name } })).toMatchObject({
        status: 409,
        body: { code: 'DUPLICATE_NAME' },
      });
    const race = await Promise.all(
      [admin, there].map((client) => client.post('/application', { json: { name: `${name}-x` } })),
    );
    expect(race.map(({ status }) => status).sort()).toEqual([201, 409]);
  });

  test('is changed by PATCH without effect on its microservices', async () => {
    await create();
    expect(
      (await admin.patch(`/application/${name}`, { json: { description: 'x', isActivated: false, microservices: [] } }))
        .status,
    ).toBe(204);
    expect((await admin.get(`/application/${name}`)).body).toMatchObject({
      description: 'x',
      isActivated: false,
      microservices: [{ name: 'a' }],
    });
    expect((await admin.patch(`/application/${name}`, { json: { name: 'other' } })).status).toBe(400);
    expect((await admin.patch('/application/nothing-here', { json: {} })).status).toBe(404);
  });

  test('is replaced by PUT: remaining entries keep uuid and activation, absent ones are removed, without a list all stay', async () => {
    const before = await create([flat('a'), flat('b')]);
    const [a] = before.microservices;
    await admin.patch(`/microservices/${a.uuid}/stop`);
    const put = (json: object) => admin.put(`/application/${name}`, { json });
    expect((await put({ microservices: [flat('c'), flat('a', { env: [{ key: 'X', value: '1' }] })] })).status).toBe(
      204,
    );
    const after = (await admin.get(`/application/${name}`)).body.microservices;
    expect(after.map((one: { name: string }) => one.name)).toEqual(['c', 'a']);
    expect(after[1]).toMatchObject({ uuid: a.uuid, isActivated: false, env: [{ key: 'X', value: '1' }] });
    expect((await put({ description: 'only this' })).status).toBe(204);
    expect((await admin.get(`/application/${name}`)).body.microservices).toHaveLength(2);
    expect((await put({ microservices: [] })).status).toBe(204);
    expect((await admin.get(`/application/${name}`)).body.microservices).toEqual([]);
    expect((await put({ name: 'other', microservices: [] })).status).toBe(400);
  });

  test('of the system has its own resource for permissions', async () => {
    await cluster.kube.create(RESOURCES.applications, {
      apiVersion: 'skerry.dev/v3',
      kind: 'Application',
      metadata: { name: 'system-gw', namespace: cluster.namespace },
      spec: {
        isActivated: true,
        isSystem: true,
        microservices: [
          { name: 'controller', agent: { name: 'gw' }, images: { amd64: 'x:1' }, isActivated: true, schedule: 0 },
        ],
      },
    });
    await expect
      .poll(async () => (await admin.get('/application/system')).body.applications.length, { timeout: 20_000 })
      .toBe(1);
    const names = (await admin.get('/application')).body.applications.map((one: { name: string }) => one.name);
    expect(names).not.toContain('system-gw');
    expect((await admin.get('/application/system-gw')).status).toBe(404);
    expect((await admin.delete('/application/system-gw')).status).toBe(400);
    const [microservice] = (await admin.get('/application/system/system-gw')).body.microservices;
    const path = `/microservices/${microservice.uuid}`;
    expect((await admin.get(path)).status).toBe(404);
    expect((await admin.get(`/microservices/system/${microservice.uuid}`)).status).toBe(200);
    expect(await admin.patch(path, { json: {} })).toMatchObject({
      status: 400,
      body: { code: 'SYSTEM_MICROSERVICE_UPDATE' },
    });
    expect(await admin.delete(path)).toMatchObject({ status: 403, body: { code: 'SYSTEM_MICROSERVICE_DELETE' } });
    expect((await admin.patch(`/microservices/system/${microservice.uuid}/rebuild`)).status).toBe(204);
    expect((await admin.get('/microservices/system')).body.microservices).toHaveLength(1);
    const developer = replica.client.as(await cluster.token('developer'));
    expect((await developer.get(`/microservices/system/${microservice.uuid}`)).status).toBe(200);
    expect((await developer.patch(`/microservices/system/${microservice.uuid}/rebuild`)).status).toBe(403);
    expect((await developer.delete('/application/system/system-gw')).status).toBe(403);
    expect((await admin.delete('/application/system/system-gw')).status).toBe(204);
  });
});

describe('an application file', () => {
  const v3 = (more = '') => `kind: Application
metadata: {name: ${name}}
spec:
  description: from a file
  microservices:
    - name: reader
      agent: {name: gw}
      images: {x86: "reg.example/reader:2", registry: remote}
      container:
        ports: [{internal: 80, external: 9080}]
        cmd: [--fast]
        env: [{key: MODE, value: 1}]
      config: {rate: 5}
${more}`;
  const kubectl = () => `apiVersion: skerry.dev/v3
kind: Application
metadata: {name: ${name}}
spec:
  isActivated: false
  microservices:
    - name: reader
      agent: {name: gw}
      images: {amd64: "reg.example/reader:2"}
      container: {commands: [--fast]}
`;

  test('in the v3 form is accepted as a part of a form', async () => {
    const answer = await admin.post('/application/yaml', { form: { part: 'application', text: v3() } });
    expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 201, body: { name } });
    expect((await admin.get(`/application/${name}`)).body).toMatchObject({
      description: 'from a file',
      isActivated: true,
      microservices: [
        {
          name: 'reader',
          nodeUuid,
          registryId: 1,
          images: [{ containerImage: 'reg.example/reader:2', archId: 1 }],
          commands: ['--fast'],
          env: [{ key: 'MODE', value: '1' }],
          config: '{"rate":5}',
          ports: [{ internal: 80, external: 9080, protocol: 'tcp' }],
        },
      ],
    });
    await admin.delete(`/application/${name}`);
  });

  test('in the form of kubectl is accepted as the body, and kubectl accepts the same file', async () => {
    const answer = await admin.post('/application/yaml', { yaml: kubectl() });
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
    expect((await admin.get(`/application/${name}`)).body).toMatchObject({
      isActivated: false,
      microservices: [{ commands: ['--fast'] }],
    });
    const { parse } = await import('yaml');
    const document = parse(kubectl());
    document.metadata = { name: `${name}-k`, namespace: cluster.namespace };
    await cluster.kube.patch(
      RESOURCES.applications,
      document.metadata,
      { type: 'apply', body: document },
      { fieldManager: 'kubectl' },
    );
    const body = (await admin.get(`/application/${name}-k`)).body;
    expect(body.microservices[0]).toMatchObject({ name: 'reader', commands: ['--fast'] });
    expect((await admin.get(`/microservices/${body.microservices[0].uuid}`)).body.name).toBe('reader');
  });

  test('replaces the spec of an existing application', async () => {
    await create([flat('old')]);
    const answer = await admin.put(`/application/yaml/${name}`, { form: { part: 'application', text: v3() } });
    expect(answer.status, JSON.stringify(answer.body)).toBe(204);
    expect(
      (await admin.get(`/application/${name}`)).body.microservices.map((one: { name: string }) => one.name),
    ).toEqual(['reader']);
    expect((await admin.put('/application/yaml/other', { yaml: v3() })).status).toBe(400);
    await admin.delete(`/application/${name}`);
  });

  test.each([
    ['another kind', 'kind: Microservice\nmetadata: {name: a}\nspec: {}'],
    ['no spec', 'kind: Application\nmetadata: {name: a}'],
    [
      'both spellings of an image',
      'kind: Application\nmetadata: {name: a}\nspec: {microservices: [{name: m, agent: {name: gw}, images: {x86: "a:1", amd64: "b:1"}}]}',
    ],
    ['text that is no YAML', 'kind: ['],
  ])('with %s is refused', async (_, yaml) => {
    expect((await admin.post('/application/yaml', { yaml })).status).toBe(400);
  });
});

describe('the verdict of an entry', () => {
  test.each<[string, object, number, string]>([
    ['a node that does not exist', { nodeUuid: '00000000-0000-4000-8000-000000000000' }, 404, 'INVALID_NODE_UUID'],
    ['a node name that does not exist', { nodeUuid: undefined, agentName: 'nowhere' }, 404, 'NOT_FOUND_AGENT_NAME'],
    ['no node', { nodeUuid: undefined }, 400, 'NODE_NOT_SET'],
    ['a registry that does not exist', { registryId: 4711 }, 404, 'REGISTRY_NOT_FOUND'],
    ['a reserved port', { ports: [{ internal: 1, external: 54321 }] }, 400, 'PORT_RESERVED'],
    ['no images', { images: [] }, 400, 'MICROSERVICE_DOES_NOT_HAVE_IMAGES'],
    ['a secret that does not exist', { env: [{ key: 'A', valueFromSecret: 'none/key' }] }, 404, 'SECRET_NOT_FOUND'],
    ['a template that does not exist', { template: { name: 't' } }, 404, 'MICROSERVICE_TEMPLATE_NOT_FOUND'],
  ])('refuses %s', async (_, more, status, code) => {
    const answer = await admin.post('/application', { json: { name, microservices: [flat('a', more)] } });
    expect(answer).toMatchObject({ status, body: { code } });
    expect((await admin.get(`/application/${name}`)).status).toBe(404);
  });

  test('refuses a port that is taken', async () => {
    await create([flat('a', { ports: [{ internal: 80, external: 7001 }] })]);
    const { body } = await admin.post('/microservices', {
      json: flat('b', { application: name, ports: [{ internal: 81, external: 7001 }] }),
    });
    expect(body).toMatchObject({ code: 'PORT_NOT_AVAILABLE' });
    expect(body.message).toContain('7001');
  });

  test('accepts a registry or node that another replica has just created', async () => {
    const id = (await there.post('/registries', { json: { url: 'late.example' } })).body.id;
    const uuid = (await there.post('/node', { json: { name: `late-${name}` } })).body.uuid;
    await create([flat('a', { registryId: id, nodeUuid: uuid })]);
    expect(await admin.delete(`/registries/${id}`)).toMatchObject({
      status: 400,
      body: { code: 'REGISTRY_IS_IN_USE' },
    });
    await admin.delete(`/application/${name}`);
    expect((await admin.delete(`/registries/${id}`)).status).toBe(204);
  });

  test('does not prevent changes of other entries', async () => {
    const body = await create([
      flat('a'),
      flat('b', { nodeUuid: (await admin.post('/node', { json: { name: `gone-${name}` } })).body.uuid }),
    ]);
    await admin.delete(`/node/${body.microservices[1].nodeUuid}`);
    expect((await admin.patch(`/microservices/${body.microservices[0].uuid}`, { json: { schedule: 7 } })).status).toBe(
      204,
    );
    expect((await admin.patch(`/microservices/${body.microservices[1].uuid}`, { json: { schedule: 7 } })).status).toBe(
      404,
    );
  });
});

describe('a microservice', () => {
  test('is added, read, listed, changed and removed', async () => {
    await create([]);
    const { status, body } = await admin.post('/microservices', { json: flat('m', { application: name, logSize: 5 }) });
    expect(status, JSON.stringify(body)).toBe(201);
    expect(body).toEqual({ uuid: expect.any(String), name: 'm' });
    const path = `/microservices/${body.uuid}`;
    expect((await admin.get(path)).body).toMatchObject({ name: 'm', application: name, logSize: 5, isActivated: true });
    const { body: list } = await admin.get(`/microservices?application=${name}`);
    expect(list.microservices.map((one: { uuid: string }) => one.uuid)).toEqual([body.uuid]);
    expect((await admin.get('/microservices/')).status).toBe(200);
    expect((await admin.get('/microservices?application=nothing-here')).status).toBe(404);
    expect(
      (
        await admin.patch(path, {
          json: { env: [{ key: 'A', value: 'b' }], images: [{ containerImage: 'x:2', archId: 2 }] },
        })
      ).status,
    ).toBe(204);
    expect((await admin.get(path)).body).toMatchObject({
      logSize: 5,
      env: [{ key: 'A', value: 'b' }],
      images: [{ containerImage: 'x:2', archId: 2 }],
    });
    expect((await admin.delete(path, { json: { withCleanup: true } })).status).toBe(204);
    expect((await admin.get(path)).status).toBe(404);
    expect((await admin.delete(path)).status).toBe(404);
  });

  test('needs an existing application and a name that is free in it', async () => {
    await create([flat('m')]);
    const post = (more: object) => admin.post('/microservices', { json: flat('m', more) });
    expect((await post({})).status).toBe(400);
    expect(await post({ application: 'nothing-here' })).toMatchObject({
      status: 404,
      body: { code: 'INVALID_APPLICATION_NAME' },
    });
    expect(await post({ application: name })).toMatchObject({ status: 409, body: { code: 'DUPLICATE_NAME' } });
  });

  test('is refused when the application would be too large to be stored', async () => {
    await create([]);
    const config = JSON.stringify('x'.repeat(60_000));
    for (let i = 0; ; i++) {
      const { status, body } = await admin.post('/microservices', {
        json: flat(`m${i}`, { application: name, config }),
      });
      if (status === 201 && i < 60) continue;
      expect(body).toMatchObject({ code: 'OBJECT_TOO_LARGE' });
      expect(status).toBe(400);
      break;
    }
    expect((await admin.delete(`/application/${name}`)).status).toBe(204);
  });

  test('keeps name and application, and its uuid when it is removed and added again', async () => {
    const [{ uuid }] = (await create([flat('m')])).microservices;
    expect((await admin.patch(`/microservices/${uuid}`, { json: { name: 'other' } })).status).toBe(400);
    expect((await admin.patch(`/microservices/${uuid}`, { json: { application: 'other' } })).status).toBe(400);
    await admin.delete(`/microservices/${uuid}`);
    expect((await admin.post('/microservices', { json: flat('m', { application: name }) })).body.uuid).toBe(uuid);
  });

  test('is added and replaced by a file', async () => {
    await create([]);
    const file = (image: string) => `kind: Microservice
metadata: {name: ${name}/writer}
spec: {agent: {name: gw}, images: {amd64: "${image}"}, container: {env: [{key: A, value: "1"}]}}`;
    const { status, body } = await admin.post('/microservices/yaml', {
      form: { part: 'microservice', text: file('w:1') },
    });
    expect(status, JSON.stringify(body)).toBe(201);
    const path = `/microservices/${body.uuid}`;
    await admin.patch(`${path}/stop`);
    await admin.patch(path, { json: { logSize: 9 } });
    expect((await admin.patch(`/microservices/yaml/${body.uuid}`, { yaml: file('w:2') })).status).toBe(204);
    const read = (await admin.get(path)).body;
    expect(read).toMatchObject({ uuid: body.uuid, isActivated: false, images: [{ containerImage: 'w:2', archId: 1 }] });
    expect(read.logSize).toBe(10);
    expect(
      (await admin.patch(`/microservices/yaml/${body.uuid}`, { yaml: file('w:2').replace('/writer', '/other') }))
        .status,
    ).toBe(400);
  });

  test('is started, stopped and rebuilt', async () => {
    const [{ uuid }] = (await create([flat('m')])).microservices;
    const path = `/microservices/${uuid}`;
    expect((await admin.patch(`${path}/stop`)).status).toBe(204);
    expect((await admin.get(path)).body).toMatchObject({ isActivated: false, status: { status: 'STOPPED' } });
    const version = (await stored()).metadata.resourceVersion;
    expect((await admin.patch(`${path}/stop`)).status).toBe(204);
    expect((await stored()).metadata.resourceVersion).toBe(version);
    expect((await admin.patch(`${path}/start`)).status).toBe(204);
    expect((await admin.get(path)).body.isActivated).toBe(true);
    for (let i = 0; i < 2; i++) expect((await admin.patch(`${path}/rebuild`)).status).toBe(204);
    expect(JSON.parse((await stored()).metadata.annotations?.['skerry.dev/rebuild'] ?? '')).toEqual({ m: 2 });
    await admin.patch(`/application/${name}`, { json: { isActivated: false } });
    expect(await admin.patch(`${path}/start`)).toMatchObject({
      status: 400,
      body: { code: 'APPLICATION_NOT_ACTIVATED' },
    });
  });

  test('that does not exist gets 404 from every operation', async () => {
    for (const uuid of ['00000000-0000-4000-8000-000000000000', 'x']) {
      const path = `/microservices/${uuid}`;
      expect((await admin.get(path)).status).toBe(404);
      expect((await admin.patch(path, { json: {} })).status).toBe(404);
      expect((await admin.patch(`${path}/start`)).status).toBe(404);
      expect(await admin.delete(path)).toMatchObject({ status: 404, body: { code: 'INVALID_MICROSERVICE_UUID' } });
    }
  });
});

describe('the parts of a microservice', () => {
  const start = async (more = {}) => `/microservices/${(await create([flat('m', more)])).microservices[0].uuid}`;

  test('include the config, which is JSON text and is set as text or as a value, and removed', async () => {
    const path = `${await start()}/config`;
    expect((await admin.get(path)).body).toBe('{}');
    expect((await admin.patch(path, { json: '{"b": 1, "a": [2]}' })).status).toBe(204);
    expect((await admin.get(path)).body).toBe('{"a":[2],"b":1}');
    expect((await admin.patch(path, { json: { c: 3 } })).status).toBe(204);
    expect((await admin.get(path)).body).toBe('{"c":3}');
    expect((await admin.patch(path, { json: '{no' })).status).toBe(400);
    expect((await admin.delete(path)).status).toBe(204);
    expect((await admin.get(path)).body).toBe('{}');
  });

  test('include the ports, which are added once each, listed and removed', async () => {
    const path = `${await start()}/port-mapping`;
    const port = { internal: 80, external: 6001 };
    expect(await admin.post(path, { json: port })).toMatchObject({ status: 201, body: { ...port, protocol: 'tcp' } });
    expect((await admin.post(path, { json: port })).body.code).toBe('PORT_MAPPING_ALREADY_EXISTS');
    expect((await admin.post(path, { json: { ...port, external: 6002, protocol: 'udp' } })).status).toBe(201);
    expect((await admin.post(path, { json: { internal: 81, external: 6001 } })).status).toBe(400);
    expect((await admin.post(path, { json: { internal: 81, external: 53 } })).body.code).toBe('PORT_RESERVED');
    expect((await admin.get(path)).body.ports).toHaveLength(2);
    expect((await admin.delete(`${path}/80`)).status).toBe(204);
    expect((await admin.delete(`${path}/80`)).status).toBe(404);
    expect((await admin.get(path)).body.ports).toEqual([]);
  });

  test('include the volumes, which are added once each, listed and removed', async () => {
    const path = `${await start()}/volume-mapping`;
    const volume = {
      hostDestination: 'data',
      containerDestination: '/data',
      accessMode: 'rw',
      type: 'volume',
      scope: 'SHARED',
    };
    const { status, body } = await admin.post(path, { json: volume });
    expect([status, body.id]).toEqual([201, expect.any(Number)]);
    expect((await admin.post(path, { json: volume })).body.code).toBe('VOLUME_MAPPING_ALREADY_EXISTS');
    expect((await admin.post(path, { json: { ...volume, scope: 'odd' } })).status).toBe(400);
    expect((await admin.get(path)).body.volumeMappings).toEqual([{ ...volume, scope: 'shared', id: body.id }]);
    expect((await admin.delete(`${path}/1`)).body.code).toBe('INVALID_VOLUME_MAPPING_UUID');
    expect((await admin.delete(`${path}/${body.id}`)).status).toBe(204);
    expect((await admin.get(path)).body.volumeMappings).toEqual([]);
  });
});

describe('an application that is being deleted', () => {
  const ref = () => ({ namespace: cluster.namespace, name });
  const finalizers = (list: string[] | null) =>
    cluster.kube.patch(RESOURCES.applications, ref(), { type: 'merge', body: { metadata: { finalizers: list } } });
  const report = (microservices: object[]) =>
    cluster.kube.patch(
      RESOURCES.nodes,
      { namespace: cluster.namespace, name: 'gw' },
      {
        type: 'merge',
        body: { status: { observedGeneration: 1, lastSeenTime: new Date().toISOString(), microservices } },
      },
      { subresource: 'status' },
    );

  test('gets 404 at every replica from the 204 on, and its microservices have delete: true while a node still has them', async () => {
    const [{ uuid }, { uuid: other }] = (await create([flat('m'), flat('n')])).microservices;
    await finalizers(['skerry.dev/workloads']);
    await report([{ uuid, application: name, name: 'm', state: 'RUNNING', containerId: 'c' }]);
    const start = performance.now();
    expect((await admin.delete(`/application/${name}`)).status).toBe(204);
    const took = performance.now() - start;
    expect(took).toBeGreaterThan(2_500);
    expect(took).toBeLessThan(20_000);

    for (const client of [admin, there]) {
      const missing = { status: 404 };
      expect(await client.get(`/application/${name}`)).toMatchObject(missing);
      expect(await client.get(`/microservices?application=${name}`)).toMatchObject(missing);
      expect(await client.patch(`/application/${name}`, { json: {} })).toMatchObject(missing);
      expect(await client.delete(`/application/${name}`)).toMatchObject(missing);
      expect(await client.patch(`/microservices/${uuid}/stop`)).toMatchObject(missing);
      expect(await client.post('/microservices', { json: flat('x', { application: name }) })).toMatchObject(missing);
      const names = async () =>
        (await client.get('/application')).body.applications.map((one: { name: string }) => one.name);
      expect(await names()).not.toContain(name);
      await expect
        .poll(async () => (await client.get(`/microservices/${uuid}`)).body.delete, { timeout: 20_000 })
        .toBe(true);
      expect(await client.get(`/microservices/${other}`)).toMatchObject(missing);
      const { microservices } = (await client.get('/microservices')).body;
      expect(microservices.filter((one: { application: string }) => one.application === name)).toMatchObject([
        { uuid, delete: true, isActivated: false },
      ]);
    }

    await report([]);
    await expect.poll(async () => (await admin.get(`/microservices/${uuid}`)).status, { timeout: 20_000 }).toBe(404);
    await finalizers(null);
  });

  test('frees its name for a waiting create as soon as it is gone', async () => {
    await create();
    await finalizers(['skerry.dev/workloads']);
    await cluster.kube.delete(RESOURCES.applications, ref());
    const [next] = await Promise.all([
      there.post('/application', { json: { name, description: 'next' } }),
      expect
        .poll(async () => (await stored())?.metadata.deletionTimestamp, { timeout: 20_000 })
        .toBeDefined()
        .then(() => finalizers(null)),
    ]);
    expect(next.status, JSON.stringify(next.body)).toBe(201);
    expect((await admin.get(`/application/${name}`)).body).toMatchObject({ description: 'next' });
  });
});

describe('a removed microservice that its node still reports', () => {
  test('has delete: true in lists and by uuid until the node no longer reports it', async () => {
    const [{ uuid }] = (await create([flat('m')])).microservices;
    const report = (microservices: object[]) =>
      cluster.kube.patch(
        RESOURCES.nodes,
        { namespace: cluster.namespace, name: 'gw' },
        {
          type: 'merge',
          body: { status: { observedGeneration: 1, lastSeenTime: new Date().toISOString(), microservices } },
        },
        { subresource: 'status' },
      );
    await report([{ uuid, application: name, name: 'm', state: 'RUNNING', containerId: 'c' }]);
    await expect
      .poll(async () => (await admin.get(`/microservices/${uuid}`)).body.status.status, { timeout: 20_000 })
      .toBe('RUNNING');
    await admin.delete(`/microservices/${uuid}`);
    expect((await admin.get(`/application/${name}`)).body.microservices).toMatchObject([{ uuid, delete: true }]);
    expect((await admin.get(`/microservices/${uuid}`)).body).toMatchObject({
      delete: true,
      status: { status: 'DELETING' },
    });
    await report([]);
    await expect.poll(async () => (await admin.get(`/microservices/${uuid}`)).status, { timeout: 20_000 }).toBe(404);
  });
});

describe('a replica whose stores lag behind', () => {
  let late: TestClient;
  beforeAll(async () => {
    late = (await cluster.startReplica({ follows: false })).client.as(await cluster.token('admin'));
  });

  test('reads single objects from the API server', async () => {
    const body = await create([flat('m')]);
    const id = (await admin.post('/registries', { json: { url: 'a.example' } })).body.id;
    const node = (await admin.post('/node', { json: { name: `n-${name}` } })).body.uuid;
    const [{ uuid }] = body.microservices;
    for (const path of [`/application/${name}`, `/microservices/${uuid}`, `/registries/${id}`, `/node/${node}`])
      expect((await late.get(path)).status).toBe(200);
    await admin.patch(`/application/${name}`, { json: { description: 'new' } });
    expect((await late.get(`/application/${name}`)).body.description).toBe('new');
    for (const path of [`/microservices/${uuid}`, `/application/${name}`, `/registries/${id}`, `/node/${node}`]) {
      await admin.delete(path);
      expect((await late.get(path)).status).toBe(404);
    }
  });

  test('finds an object whose metadata.name differs from its name', async () => {
    const made = await cluster.kube.create(RESOURCES.applications, {
      apiVersion: 'skerry.dev/v3',
      kind: 'Application',
      metadata: { name: `object-${name}`, namespace: cluster.namespace },
      spec: {
        name,
        isActivated: true,
        microservices: [{ name: 'k', agent: { name: 'gw' }, images: { amd64: 'k:1' }, isActivated: true, schedule: 1 }],
      },
    });
    expect((await late.get(`/application/${name}`)).body.name).toBe(name);
    expect((await late.post('/application', { json: { name } })).status).toBe(409);
    const node = await cluster.kube.create(RESOURCES.nodes, {
      apiVersion: 'skerry.dev/v3',
      kind: 'EdgeNode',
      metadata: { name: `k-${name}`, namespace: cluster.namespace },
      spec: {},
    });
    expect((await late.get(`/node/${node.metadata.uid}`)).status).toBe(200);
    expect(made.spec.name).toBe(name);
  });

  test('validates with the present state, and its lists have its own writes', async () => {
    const id = (await admin.post('/registries', { json: { url: 'b.example' } })).body.id;
    const node = (await admin.post('/node', { json: { name: `n-${name}` } })).body.uuid;
    const microservices = [flat('m', { registryId: id, nodeUuid: node })];
    const answer = await late.post('/application', { json: { name, microservices } });
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
    const { body } = await late.get('/application');
    expect(body.applications.map((one: { name: string }) => one.name)).toContain(name);
    expect((await late.get(`/microservices?application=${name}`)).body.microservices).toHaveLength(1);
    expect((await late.delete(`/application/${name}`)).status).toBe(204);
    const after = (await late.get('/application')).body.applications.map((one: { name: string }) => one.name);
    expect(after).not.toContain(name);
  });
});

describe('two replicas', () => {
  test('read the writes of each other at once, by name and by uuid', async () => {
    const { body } = await there.post('/application', { json: { name, microservices: [flat('m')] } });
    expect(body.name).toBe(name);
    const [{ uuid }] = (await admin.get(`/application/${name}`)).body.microservices;
    const second = (await there.post('/microservices', { json: flat('n', { application: name }) })).body.uuid;
    expect((await admin.get(`/microservices/${second}`)).status).toBe(200);
    await there.delete(`/microservices/${uuid}`);
    expect((await admin.get(`/microservices/${uuid}`)).status).toBe(404);
    expect((await admin.get(`/microservices/${second}`)).status).toBe(200);
  });

  test('write to one application at once and lose no write', async () => {
    await create([flat('z')]);
    const names = Array.from({ length: 10 }, (_, i) => `m${i}`);
    const answers = await Promise.all(
      names.map((one, i) => (i % 2 ? admin : there).post('/microservices', { json: flat(one, { application: name }) })),
    );
    expect(answers.map(({ status }) => status)).toEqual(names.map(() => 201));
    const after = (await admin.get(`/application/${name}`)).body.microservices;
    expect(after.map((one: { name: string }) => one.name).sort()).toEqual([...names, 'z'].sort());
    const [{ uuid }] = after;
    await Promise.all(
      [admin, there, admin, there].flatMap((client) => [
        client.patch(`/microservices/${uuid}/rebuild`),
        client.patch(`/application/${name}`, { json: { description: 'd' } }),
      ]),
    );
    expect(Object.values(JSON.parse((await stored()).metadata.annotations?.['skerry.dev/rebuild'] ?? ''))).toEqual([4]);
  });

  test('keep list entries of other field managers', async () => {
    await create([flat('mine')]);
    await cluster.kube.patch(
      RESOURCES.applications,
      { namespace: cluster.namespace, name },
      {
        type: 'apply',
        body: {
          apiVersion: 'skerry.dev/v3',
          kind: 'Application',
          metadata: { name, namespace: cluster.namespace },
          spec: { microservices: [{ name: 'theirs', agent: { name: 'gw' }, images: { amd64: 't:1' } }] },
        },
      },
      { fieldManager: 'gitops' },
    );
    const [{ uuid }] = (await admin.get(`/application/${name}`)).body.microservices;
    expect((await admin.patch(`/microservices/${uuid}`, { json: { schedule: 3 } })).status).toBe(204);
    const { metadata, spec } = await stored();
    expect(spec.microservices?.map((one) => one.name).sort()).toEqual(['mine', 'theirs']);
    const managers = (metadata as { managedFields?: { manager: string; operation: string }[] }).managedFields ?? [];
    expect(managers.map(({ manager, operation }) => `${manager} ${operation}`).sort()).toEqual([
      'gitops Apply',
      'skerry-rest Update',
    ]);
  });
});

describe('access', () => {
  test('a developer may write and a viewer only read applications', async () => {
    const developer = replica.client.as(await cluster.token('developer'));
    const viewer = replica.client.as(await cluster.token('viewer'));
    expect((await developer.post('/application', { json: { name } })).status).toBe(201);
    expect((await viewer.get(`/application/${name}`)).status).toBe(200);
    expect((await viewer.delete(`/application/${name}`)).status).toBe(403);
    expect((await viewer.post('/microservices', { json: flat('m', { application: name }) })).status).toBe(403);
    expect((await developer.delete(`/application/${name}`)).status).toBe(204);
  });
});
