import { createHash } from 'node:crypto';
import { request } from 'node:http';
import { describe, expect, test } from 'vitest';
import type {} from '../../hack/testing/provided.ts';
import { LABELS } from '../api/names.ts';
import { RESOURCES } from '../subjects/kinds.ts';
import { startTestCluster } from './_cluster.ts';

const cluster = await startTestCluster();
const replica = await cluster.startReplica();
const other = await cluster.startReplica();
const admin = replica.client.as(await cluster.token('admin'));

const create = async (name: string, body: object = {}): Promise<string> => {
  const { status, body: created } = await admin.post('/node', { json: { name, ...body } });
  expect(status).toBe(201);
  return created.uuid;
};

describe('public routes', () => {
  test('for liveness, readiness, architectures and the OpenAPI document need no token', async () => {
    for (const path of ['/live', '/status', '/architectures', '/architectures/', '/openapi.json'])
      expect((await replica.client.get(path)).status).toBe(200);
    expect((await replica.client.get('/status')).body).toMatchObject({
      status: 'online',
      versions: { controller: '0.0.0-test' },
    });
    const { architectures } = (await replica.client.get('/architectures')).body;
    expect(architectures.map(({ name }: { name: string }) => name)).toEqual([
      'auto',
      'amd64',
      'arm64',
      'riscv64',
      'arm',
    ]);
  });
});

describe('a node', () => {
  test('is created, read, listed, changed and deleted', async () => {
    const { status, body } = await admin.post('/node', {
      json: { name: 'gw-1', location: 'hall 3', latitude: 1.5, longitude: 0, unknown: 1 },
    });
    expect([status, Object.keys(body).sort()]).toEqual([201, ['id', 'uuid']]);
    const path = `/node/${body.uuid}`;
    expect((await admin.get(path)).body).toMatchObject({
      uuid: body.uuid,
      name: 'gw-1',
      location: 'hall 3',
      daemonStatus: 'NOT_PROVISIONED',
    });
    expect((await admin.get('/node-list')).body.fogs.map((fog: { name: string }) => fog.name)).toContain('gw-1');
    expect((await admin.patch(path, { json: { location: 'hall 4', description: 'new' } })).status).toBe(204);
    expect((await admin.get(path)).body).toMatchObject({ location: 'hall 4', description: 'new', latitude: 1.5 });
    expect((await admin.delete(path)).status).toBe(202);
    expect((await admin.get(path)).status).toBe(404);
    expect((await admin.delete(path)).status).toBe(404);
  });

  test('connects only to routers that exist and accept connections', async () => {
    const routerPorts = { interRouterPort: 55671, edgeRouterPort: 45671 };
    const upstream = await create('upstream', { routerMode: 'interior', host: '10.0.0.9', ...routerPorts });
    await create('edge', { routerMode: 'edge', host: '10.0.0.8' });
    for (const upstreamRouters of [[upstream], ['upstream'], ['default-router'], []])
      await create(`downstream-${upstreamRouters}`.slice(0, 40), { upstreamRouters });
    const path = `/node/${await create('lost')}`;
    const missing = {
      status: 404,
      body: { code: 'INVALID_ROUTER', message: 'upstreamRouters: there is no node "nowhere"' },
    };
    expect(await admin.post('/node', { json: { name: 'x', upstreamRouters: ['nowhere'] } })).toMatchObject(missing);
    expect(await admin.patch(path, { json: { upstreamRouters: ['upstream', 'nowhere'] } })).toMatchObject(missing);
    expect((await admin.patch(path, { json: { upstreamRouters: ['upstream'] } })).status).toBe(204);
    expect(await admin.patch(path, { json: { upstreamRouters: ['edge'] } })).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('the router of "edge" is of mode edge') },
    });
    expect(await admin.patch(path, { json: { networkRouter: 'nowhere' } })).toMatchObject({
      status: 404,
      body: { message: 'networkRouter: there is no node "nowhere"' },
    });
    expect((await admin.patch(path, { json: { networkRouter: upstream } })).status).toBe(204);
    expect((await admin.patch(path, { json: { networkRouter: '' } })).status).toBe(204);
  });

  test('is an EdgeNode in kubectl', async () => {
    const uuid = await create('both-surfaces', { tags: ['a'] });
    const object = await cluster.kube.get(RESOURCES.nodes, { namespace: cluster.namespace, name: 'both-surfaces' });
    expect(object.spec).toMatchObject({ tags: ['a'] });
    expect(object.metadata.labels).toEqual({ [LABELS.uuid]: uuid });
    expect(object.spec.name).toBeUndefined();
  });

  test('may have any name that no other node has', async () => {
    const name = 'Tor 7 / Süd';
    const uuid = await create(name);
    expect((await admin.get(`/node/${uuid}`)).body.name).toBe(name);
    expect(await admin.post('/node', { json: { name } })).toMatchObject({
      status: 409,
      body: { code: 'DUPLICATE_NAME', name: 'DuplicatePropertyError' },
    });
    const atOnce = await Promise.all(
      [replica, other].map(async (one) =>
        one.client.as(await cluster.token('admin')).post('/node', { json: { name: 'race' } }),
      ),
    );
    expect(atOnce.map(({ status }) => status).sort()).toEqual([201, 409]);
  });

  test('that was created with kubectl is found by its uid', async () => {
    const made = await cluster.kube.create(RESOURCES.nodes, {
      apiVersion: 'skerry.dev/v3',
      kind: 'EdgeNode',
      metadata: { name: 'by-kubectl', namespace: cluster.namespace },
      spec: {},
    });
    expect((await admin.get(`/node/${made.metadata.uid}`)).body.name).toBe('by-kubectl');
  });

  test.each([
    ['without a name', {}, 'name'],
    ['with a wrong value', { name: 'x', cpuLimit: 1 }, 'cpuLimit'],
    ['with a wrong type', { name: 'x', tags: 'a' }, 'tags'],
  ])('%s is refused with the field', async (_, json, field) => {
    const { status, body } = await admin.post('/node', { json });
    expect([status, body.name]).toEqual([400, 'ValidationError']);
    expect(body.message).toContain(field);
  });

  test('cannot be renamed', async () => {
    const uuid = await create('keeps-name');
    expect((await admin.patch(`/node/${uuid}`, { json: { name: 'other' } })).status).toBe(400);
    expect((await admin.patch(`/node/${uuid}`, { json: { name: 'keeps-name' } })).status).toBe(204);
  });

  test('that does not exist gets 404, whatever its uuid looks like', async () => {
    for (const uuid of ['x', '00000000-0000-4000-8000-000000000000', 'a,b=c'])
      expect(await admin.get(`/node/${encodeURIComponent(uuid)}`)).toMatchObject({
        status: 404,
        body: { code: 'INVALID_NODE_UUID' },
      });
  });

  test('that one replica wrote is visible at the other replica at once', async () => {
    const uuid = await create('seen');
    const there = other.client.as(await cluster.token('admin'));
    expect((await there.get(`/node/${uuid}`)).status).toBe(200);
    await admin.patch(`/node/${uuid}`, { json: { location: 'x' } });
    expect((await there.get(`/node/${uuid}`)).body.location).toBe('x');
    await admin.delete(`/node/${uuid}`);
    expect((await there.get(`/node/${uuid}`)).status).toBe(404);
  });

  test('that two replicas change at once has all changes', async () => {
    const uuid = await create('contended');
    const there = other.client.as(await cluster.token('admin'));
    const fields = ['location', 'description', 'timeZone', 'logLevel', 'host', 'networkInterface'];
    const answers = await Promise.all(
      fields.flatMap((field, i) => [(i % 2 ? admin : there).patch(`/node/${uuid}`, { json: { [field]: `v${i}` } })]),
    );
    expect(answers.map(({ status }) => status)).toEqual(fields.map(() => 204));
    const { body } = await admin.get(`/node/${uuid}`);
    expect(fields.map((field) => body[field])).toEqual(fields.map((_, i) => `v${i}`));
  });
});

describe('a node that is being deleted', () => {
  test('gets 404 from the response to DELETE on, also while its deletion is pending', async () => {
    const ref = { namespace: cluster.namespace, name: 'held' };
    const made = await cluster.kube.create(RESOURCES.nodes, {
      apiVersion: 'skerry.dev/v3',
      kind: 'EdgeNode',
      metadata: { ...ref, finalizers: ['skerry.dev/workloads'] },
      spec: {},
    });
    const path = `/node/${made.metadata.uid}`;
    const there = other.client.as(await cluster.token('admin'));
    expect((await admin.delete(path)).status).toBe(202);
    for (const client of [admin, there]) {
      const missing = { status: 404, body: { code: 'INVALID_NODE_UUID' } };
      expect(await client.get(path)).toMatchObject(missing);
      expect(await client.delete(path)).toMatchObject(missing);
      expect(await client.patch(path, { json: { location: 'x' } })).toMatchObject(missing);
      expect(await client.get(`${path}/provisioning-key`)).toMatchObject(missing);
      const { fogs } = (await client.get('/node-list')).body;
      expect(fogs.map((one: { name: string }) => one.name)).not.toContain('held');
    }
    const next = there.post('/node', { json: { name: 'held' } });
    await cluster.kube.patch(RESOURCES.nodes, ref, { type: 'merge', body: { metadata: { finalizers: null } } });
    expect(await next).toMatchObject({ status: 201 });
  });
});

describe('the list', () => {
  test('is filtered by a body or by the query', async () => {
    await create('filter-a', { location: 'north side' });
    await create('filter-b', { location: 'south side' });
    const names = (answer: { body: { fogs: { name: string }[] } }) => answer.body.fogs.map(({ name }) => name).sort();
    const query = new URLSearchParams({
      'filters[0][key]': 'location',
      'filters[0][value]': 'side',
      'filters[0][condition]': 'has',
    });
    expect(names(await admin.get(`/node-list?${query}`))).toEqual(['filter-a', 'filter-b']);
    query.set('filters[1][key]', 'name');
    query.set('filters[1][value]', 'filter-b');
    query.set('filters[1][condition]', 'equals');
    expect(names(await admin.get(`/iofog-list?${query}`))).toEqual(['filter-b']);
  });

  test('accepts filters as the body of a GET, as v3 clients send them', async () => {
    await create('filter-body');
    const text = JSON.stringify([{ key: 'name', value: 'filter-body', condition: 'equals' }]);
    const authorization = `Bearer ${await cluster.token('admin')}`;
    const body = await new Promise<string>((resolve, reject) => {
      const headers = { authorization, 'content-type': 'application/json', 'content-length': text.length };
      const call = request(`${replica.origin}/api/v3/node-list`, { method: 'GET', headers }, (response) => {
        response.setEncoding('utf8');
        let all = '';
        response.on('data', (chunk) => (all += chunk));
        response.on('end', () => resolve(all));
      });
      call.on('error', reject);
      call.end(text);
    });
    expect(JSON.parse(body).fogs.map((fog: { name: string }) => fog.name)).toEqual(['filter-body']);
  });

  test('has no platform status', async () => {
    const { body } = await admin.get('/node-list');
    expect(body.fogs.every((fog: object) => !('platformStatus' in fog))).toBe(true);
  });
});

describe('a provisioning key', () => {
  const secretOf = async (key: string) => {
    const name = `provisioning-key-${createHash('sha256').update(key).digest('hex')}`;
    const secret = await cluster.kube.find(RESOURCES.secrets, { namespace: cluster.namespace, name });
    return (
      secret && {
        ...secret,
        text: Object.fromEntries(
          Object.entries(secret.data ?? {}).map(([k, v]) => [k, Buffer.from(v, 'base64').toString()]),
        ),
      }
    );
  };

  test('has a Secret of its node that does not contain the key, and replaces the former key', async () => {
    const uuid = await create('to-provision');
    const before = Date.now();
    const { status, body } = await admin.get(`/node/${uuid}/provisioning-key`);
    expect([status, body.caCert]).toEqual([201, 'Q0E=']);
    expect(body.expirationTime - before).toBeGreaterThan(19 * 60_000);
    const secret = await secretOf(body.key);
    expect(secret?.text).toEqual({ nodeUuid: uuid, expiresAt: String(body.expirationTime) });
    expect(JSON.stringify(secret)).not.toContain(body.key);
    expect(secret?.metadata.ownerReferences?.[0]).toMatchObject({ kind: 'EdgeNode', name: 'to-provision' });
    const second = (await admin.get(`/iofog/${uuid}/provisioning-key`)).body.key;
    expect(await secretOf(body.key)).toBeUndefined();
    expect(await secretOf(second)).toBeDefined();
  });

  test('that is issued many times at once remains once', async () => {
    const uuid = await create('many-keys');
    const answers = await Promise.all(Array.from({ length: 5 }, () => admin.get(`/node/${uuid}/provisioning-key`)));
    const left = await Promise.all(answers.map(({ body }) => secretOf(body.key)));
    expect(left.filter(Boolean)).toHaveLength(1);
  });

  test('needs a permission of its own', async () => {
    const uuid = await create('guarded');
    const as = async (role: 'sre' | 'developer' | 'viewer') => replica.client.as(await cluster.token(role));
    expect((await (await as('sre')).get(`/node/${uuid}/provisioning-key`)).status).toBe(201);
    for (const role of ['developer', 'viewer'] as const) {
      const client = await as(role);
      expect((await client.get(`/node/${uuid}`)).status).toBe(200);
      expect(await client.get(`/node/${uuid}/provisioning-key`)).toMatchObject({
        status: 403,
        body: { error: 'Forbidden' },
      });
    }
  });
});

describe('actions', () => {
  test('a reconcile raises a counter on the object', async () => {
    const uuid = await create('reconciled');
    for (const count of ['1', '2']) {
      expect((await admin.post(`/node/${uuid}/reconcile`)).body).toEqual({ uuid });
      const { metadata } = await cluster.kube.get(RESOURCES.nodes, {
        namespace: cluster.namespace,
        name: 'reconciled',
      });
      expect(metadata.annotations?.['skerry.dev/reconcile']).toContain(count);
    }
  });

  test('a reboot and a prune raise counters; a version needs an agent that is ready for it', async () => {
    const uuid = await create('ordered');
    const ref = { namespace: cluster.namespace, name: 'ordered' };
    expect((await admin.post(`/node/${uuid}/reboot`)).status).toBe(204);
    expect((await admin.post(`/iofog/${uuid}/prune`)).status).toBe(204);
    for (const command of ['upgrade', 'rollback'])
      expect(await admin.post(`/node/${uuid}/version/${command}`)).toMatchObject({
        status: 400,
        body: {
          code: `INVALID_VERSION_COMMAND_${command.toUpperCase()}`,
          message: `the node ordered is not ready to ${command}: no agent has taken its identity`,
        },
      });
    expect((await admin.post(`/node/${uuid}/version/sideways`)).status).toBe(400);
    const status = { observedGeneration: 1, isReadyToUpgrade: true };
    await cluster.kube.patch(RESOURCES.nodes, ref, { type: 'merge', body: { status } }, { subresource: 'status' });
    expect((await admin.post(`/node/${uuid}/version/upgrade`, { json: { semver: 'nonsense' } })).status).toBe(400);
    expect((await admin.post(`/node/${uuid}/version/upgrade`, { json: { semver: 'v1.2.3' } })).status).toBe(204);
    const { annotations } = (await cluster.kube.get(RESOURCES.nodes, ref)).metadata;
    expect(annotations).toMatchObject({
      'skerry.dev/reboot': '1',
      'skerry.dev/prune': '1',
      'skerry.dev/version': '{"count":1,"command":"upgrade","semver":"v1.2.3"}',
    });
    const developer = replica.client.as(await cluster.token('developer'));
    expect((await developer.post(`/node/${uuid}/reboot`)).status).toBe(403);
    // Our own agent has to be told where releases are.
    const ours = { ...status, agent: '0.1.0', isReadyToRollback: true };
    await cluster.kube.patch(
      RESOURCES.nodes,
      ref,
      { type: 'merge', body: { status: ours } },
      { subresource: 'status' },
    );
    expect((await admin.post(`/node/${uuid}/reboot`)).status).toBe(204);
    expect(await admin.post(`/node/${uuid}/version/upgrade`)).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('SKERRY_RELEASES_URL') },
    });
    expect((await admin.post(`/node/${uuid}/version/rollback`)).status).toBe(204);
  });
});

describe('access', () => {
  test('a token that the cluster does not accept for our audience gets 401', async () => {
    expect((await replica.client.get('/node-list')).status).toBe(401);
    expect((await replica.client.as('nonsense').get('/node-list')).status).toBe(401);
    expect(
      (await replica.client.as(await cluster.token('admin', { audience: 'other' })).get('/node-list')).status,
    ).toBe(401);
    expect((await replica.client.as(await cluster.token('admin', { audience: '' })).get('/node-list')).status).toBe(
      401,
    );
  });

  test('a token without a role gets 403', async () => {
    const nobody = replica.client.as(await cluster.token('nobody'));
    expect(await nobody.get('/node-list')).toMatchObject({ status: 403, body: { error: 'Forbidden' } });
  });

  test('a viewer may read and not write', async () => {
    const viewer = replica.client.as(await cluster.token('viewer'));
    expect((await viewer.get('/node-list')).status).toBe(200);
    expect((await viewer.post('/node', { json: { name: 'no' } })).status).toBe(403);
  });

  test('a role limited to one object allows that object, by its metadata.name', async () => {
    const uuid = await create('only-this');
    const hidden = await create('not-this');
    const { namespace, kube } = cluster;
    const token = await cluster.token('nobody');
    const rbac = { group: 'rbac.authorization.k8s.io', version: 'v1', namespaced: true };
    const metadata = { name: 'one-node', namespace };
    await kube.create({ ...rbac, plural: 'roles', kind: 'Role' }, {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'Role',
      metadata,
      rules: [{ apiGroups: ['skerry.dev'], resources: ['edgenodes'], verbs: ['get'], resourceNames: ['only-this'] }],
    } as never);
    await kube.create({ ...rbac, plural: 'rolebindings', kind: 'RoleBinding' }, {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'one-node' },
      subjects: [{ kind: 'ServiceAccount', name: 'nobody', namespace }],
    } as never);
    const client = replica.client.as(token);
    await expect.poll(async () => (await client.get(`/node/${uuid}`)).status, { timeout: 15_000 }).toBe(200);
    expect((await client.get(`/node/${hidden}`)).status).toBe(403);
  });
});
