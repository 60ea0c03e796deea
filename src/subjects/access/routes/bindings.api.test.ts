import { describe, expect, test } from 'vitest';
import { RBAC_RESOURCES } from '../../../api/rbac.ts';
import { poll, startTestCluster } from '../../../rest/_cluster.ts';
import { createLeftovers } from '../reconcile/leftovers.ts';
import { replacementOf } from '../rules/v3-binding.ts';

/** Roles and role bindings over a real API server, at two replicas. */

const cluster = await startTestCluster();
const [one, two] = [await cluster.startReplica(), await cluster.startReplica()];
const admin = one.client.as(await cluster.token('admin'));
const other = two.client.as(await cluster.token('admin'));
const nobody = await cluster.token('nobody');
const asNobody = one.client.as(nobody);
const elsewhere = two.client.as(nobody);
const subjects = [{ kind: 'ServiceAccount', name: 'nobody' }];
const reads = (...resources: string[]) => [{ apiGroups: [''], resources, verbs: ['get', 'list'] }];
const status = async (path: string) => [(await asNobody.get(path)).status, (await elsewhere.get(path)).status];

describe('a role binding', () => {
  test('counts at every replica within a second, and no longer once it is deleted', async () => {
    expect(await status('/registries')).toEqual([403, 403]);
    await admin.post('/roles', { json: { name: 'counts', rules: reads('registries') } });
    await admin.post('/rolebindings', { json: { name: 'counts', roleRef: { name: 'counts' }, subjects } });
    const second = { timeout: 1_000, interval: 20 };
    await expect.poll(() => status('/registries'), second).toEqual([200, 200]);
    await admin.delete('/rolebindings/counts');
    await expect.poll(() => status('/registries'), second).toEqual([403, 403]);
  });

  test('gives access without a gap while it gets another role or another name, and its role another name', async () => {
    await admin.post('/roles', { json: { name: 'gap-1', rules: reads('services') } });
    await admin.post('/roles', { json: { name: 'gap-2', rules: reads('services', 'models') } });
    await admin.post('/rolebindings', { json: { name: 'gap', roleRef: { name: 'gap-1' }, subjects } });
    await poll(() => status('/services')).toEqual([200, 200]);
    const seen = new Set<number>();
    let isOver = false;
    const polling = (async () => {
      while (!isOver) {
        for (const one of await status('/services')) seen.add(one);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    for (let i = 0; i < 3; i++) {
      const [from, to] = i % 2 === 0 ? ['gap', 'gap-b'] : ['gap-b', 'gap'];
      expect((await admin.patch(`/rolebindings/${from}`, { json: { roleRef: { name: 'gap-2' } } })).status).toBe(200);
      expect(
        (await admin.patch(`/rolebindings/${from}`, { json: { name: to, roleRef: { name: 'gap-1' } } })).status,
      ).toBe(200);
      expect((await admin.patch('/roles/gap-1', { json: { name: 'gap-3', rules: reads('services') } })).status).toBe(
        200,
      );
      expect((await admin.patch('/roles/gap-3', { json: { name: 'gap-1', rules: reads('services') } })).status).toBe(
        200,
      );
    }
    isOver = true;
    await polling;
    expect([...seen]).toEqual([200]);
    expect(
      (await admin.get('/rolebindings')).body.filter(({ name }: { name: string }) => name.startsWith('gap')),
    ).toHaveLength(1);
  });

  test('gets one of two roles when two writers change it at the same time, and no other object is left', async () => {
    for (const name of ['race-1', 'race-2', 'race-3'])
      await admin.post('/roles', { json: { name, rules: reads('knowledge') } });
    await admin.post('/rolebindings', { json: { name: 'race', roleRef: { name: 'race-1' }, subjects } });
    await poll(async () => (await other.get('/rolebindings/race')).status).toBe(200);
    const writes = await Promise.all([
      admin.patch('/rolebindings/race', { json: { roleRef: { name: 'race-2' } } }),
      other.patch('/rolebindings/race', { json: { roleRef: { name: 'race-3' } } }),
    ]);
    for (const { status } of writes) expect([200, 409]).toContain(status);
    const { items } = await cluster.kube.list(RBAC_RESOURCES.roleBindings, { namespace: cluster.namespace });
    expect(items.filter(({ roleRef }) => roleRef.name.startsWith('race'))).toHaveLength(1);
  });

  test('has its former object no longer once the leader has seen it, also where a replica ended on the way', async () => {
    await admin.post('/roles', { json: { name: 'half', rules: reads('cluster') } });
    await admin.post('/rolebindings', { json: { name: 'half', roleRef: { name: 'viewer' }, subjects } });
    const before = one.deps.roleBindings.find('name', 'half')[0];
    if (!before) throw new Error('no binding');
    const after = { name: 'half', roleRef: { ...before.roleRef, name: 'half' }, subjects: before.subjects ?? [] };
    await one.deps.roleBindings.create(replacementOf(before, after), AbortSignal.timeout(5_000));
    expect((await admin.get('/rolebindings/half')).body.roleRef.name).toBe('half');
    let now = Date.now();
    cluster.reconcile(one, (deps) => createLeftovers({ ...deps, clock: () => now }));
    now += 60_000;
    await one.deps.roleBindings.replace(
      { ...before, metadata: { ...before.metadata, annotations: { touched: 'yes' } } },
      AbortSignal.timeout(5_000),
    );
    await poll(async () =>
      one.deps.roleBindings.read(before.metadata.name, AbortSignal.timeout(5_000)),
    ).toBeUndefined();
  });
});

describe('nobody', () => {
  test('makes a role that permits more than they may', async () => {
    await admin.post('/roles', {
      json: {
        name: 'maker',
        rules: [{ apiGroups: [''], resources: ['roles', 'roleBindings'], verbs: ['*'] }, ...reads('events')],
      },
    });
    const token = await cluster.token('nobody');
    const maker = one.client.as(token);
    await admin.post('/rolebindings', { json: { name: 'maker', roleRef: { name: 'maker' }, subjects } });
    await poll(async () => (await maker.get('/roles')).status).toBe(200);
    expect((await maker.post('/roles', { json: { name: 'same', rules: reads('events') } })).status).toBe(201);
    expect(
      await maker.post('/roles', {
        json: { name: 'more', rules: [{ apiGroups: [''], resources: ['events'], verbs: ['*'] }] },
      }),
    ).toMatchObject({ status: 403 });
    expect((await maker.patch('/roles/same', { json: { rules: reads('events', 'secrets') } })).status).toBe(403);
  });

  test('binds a role that permits more than they may', async () => {
    const maker = one.client.as(await cluster.token('nobody'));
    const bind = (name: string, role: string) =>
      maker.post('/rolebindings', { json: { name, roleRef: { name: role }, subjects } });
    // The rule `*` of role bindings and roles holds the verb bind as well.
    expect((await bind('self', 'maker')).status).toBe(201);
    const changed = [
      { apiGroups: [''], resources: ['roles', 'roleBindings'], verbs: ['get', 'list', 'create', 'patch', 'delete'] },
    ];
    await admin.patch('/roles/maker', { json: { rules: changed } });
    await poll(async () => (await bind('self-2', 'admin')).status).toBe(403);
    expect((await bind('self-3', 'maker')).status).toBe(201);
  });
});
