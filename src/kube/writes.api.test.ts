import { beforeEach, describe, expect, inject, test } from 'vitest';
import { churnObject, connect, createFixture, type Fixture } from './_api-server.ts';
import { loadConfig } from './_fault-proxy.ts';
import { CONFIG_MAPS, type ConfigMap, until } from './_util.ts';
import { createApply, ForeignChildError } from './apply.ts';
import { isConflict, isInvalid, type KubeClient } from './client.ts';
import { createEventRecorder } from './events.ts';
import { addFinalizer, finalizerState, removeFinalizer } from './finalizer.ts';
import { type KubeObject, ownerReference, type Resource } from './object.ts';
import { writeStatus } from './status.ts';

let fixture: Fixture;
let client: KubeClient;

beforeEach(async () => {
  client = connect(() => loadConfig(inject('kubeconfig')));
  fixture = await createFixture(client);
});

const ref = (name: string) => ({ namespace: fixture.namespace, name });
const versionOf = (object: KubeObject) => object.metadata.resourceVersion;

describe('applying a child', () => {
  const applier = () => createApply({ client, fieldManager: 'test', hashAnnotation: 'test.dev/applied' });

  test('creates it, and writes nothing while there is no difference', async () => {
    const apply = applier();
    const desired = churnObject(fixture, 'child', { a: '1' });
    const first = await apply(CONFIG_MAPS, desired, undefined);
    expect(first.written).toBe(true);
    const second = await apply(CONFIG_MAPS, desired, first.object);
    expect(second).toEqual({ object: first.object, written: false });
  });

  test('removes a field that was removed from the desired state, although the live object covers the rest', async () => {
    const apply = applier();
    const { object } = await apply(CONFIG_MAPS, churnObject(fixture, 'child', { a: '1', b: '2' }), undefined);
    const { object: after, written } = await apply(CONFIG_MAPS, churnObject(fixture, 'child', { a: '1' }), object);
    expect(written).toBe(true);
    expect(after.data).toEqual({ a: '1' });
  });

  test('restores a field that another client changed, and keeps one that it added', async () => {
    const apply = applier();
    const desired = churnObject(fixture, 'child', { a: '1' });
    await apply(CONFIG_MAPS, desired, undefined);
    const body = { data: { a: 'changed', theirs: 'x' } };
    const meddled = await client.patch(CONFIG_MAPS, ref('child'), { type: 'merge', body });
    const { object, written } = await apply(CONFIG_MAPS, desired, meddled);
    expect(written).toBe(true);
    expect(object.data).toEqual({ a: '1', theirs: 'x' });
    expect((await apply(CONFIG_MAPS, desired, object)).written).toBe(false);
  });

  test("does not take over another owner's child", async () => {
    const apply = applier();
    const [mine, theirs] = await Promise.all(
      ['mine', 'theirs'].map((name) => client.create(CONFIG_MAPS, churnObject(fixture, name))),
    );
    const child = (owner: ConfigMap) => {
      const object = churnObject(fixture, 'child');
      object.metadata.ownerReferences = [ownerReference(owner)];
      return object;
    };
    const { object } = await apply(CONFIG_MAPS, child(theirs as ConfigMap), undefined);
    await expect(apply(CONFIG_MAPS, child(mine as ConfigMap), object)).rejects.toBeInstanceOf(ForeignChildError);
    expect((await apply(CONFIG_MAPS, child(theirs as ConfigMap), object)).written).toBe(false);
  });
});

describe('a finalizer', () => {
  const ours = 'test.dev/ours';

  test('has the states add, apply and cleanup, and the object is gone after its removal', async () => {
    let object = await client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    expect(finalizerState(object, ours)).toBe('add');
    object = await addFinalizer(client, CONFIG_MAPS, object, ours);
    expect(finalizerState(object, ours)).toBe('apply');
    object = (await client.delete(CONFIG_MAPS, ref('a'))).object as ConfigMap;
    expect(finalizerState(object, ours)).toBe('cleanup');
    expect(await removeFinalizer(client, CONFIG_MAPS, object, ours)).toBeUndefined();
    expect(await client.find(CONFIG_MAPS, ref('a'))).toBeUndefined();
  });

  test('is added to and removed from a list with finalizers of others', async () => {
    const created = await client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    const theirs = await addFinalizer(client, CONFIG_MAPS, created, 'test.dev/theirs');
    const both = await addFinalizer(client, CONFIG_MAPS, theirs, ours);
    expect(both.metadata.finalizers).toEqual(['test.dev/theirs', ours]);
    const left = await removeFinalizer(client, CONFIG_MAPS, both, 'test.dev/theirs');
    expect(left?.metadata.finalizers).toEqual([ours]);
    await removeFinalizer(client, CONFIG_MAPS, left as ConfigMap, ours);
  });

  test('leads to a conflict, and no finalizer is lost, when the list changed after it was read', async () => {
    const stale = await client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    const theirs = await addFinalizer(client, CONFIG_MAPS, stale, 'test.dev/theirs');
    await expect(addFinalizer(client, CONFIG_MAPS, stale, ours)).rejects.toSatisfy(isConflict);
    const both = await addFinalizer(client, CONFIG_MAPS, theirs, ours);
    await removeFinalizer(client, CONFIG_MAPS, both, 'test.dev/theirs');
    await expect(removeFinalizer(client, CONFIG_MAPS, both, ours)).rejects.toSatisfy(isConflict);
    const now = await client.get(CONFIG_MAPS, ref('a'));
    expect(now.metadata.finalizers).toEqual([ours]);
    await removeFinalizer(client, CONFIG_MAPS, now, ours);
  });

  test('is not added to a later object with the name of the one that was read', async () => {
    const first = await client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    await client.delete(CONFIG_MAPS, ref('a'));
    await client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    await expect(addFinalizer(client, CONFIG_MAPS, first, ours)).rejects.toSatisfy(isConflict);
    expect((await client.get(CONFIG_MAPS, ref('a'))).metadata.finalizers).toBeUndefined();
  });

  test('at another index than it was read at leads to a conflict, and no other finalizer is removed', async () => {
    let object = await client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    for (const name of ['test.dev/first', ours, 'test.dev/last']) {
      object = await addFinalizer(client, CONFIG_MAPS, object, name);
    }
    await removeFinalizer(client, CONFIG_MAPS, object, 'test.dev/first');
    await expect(removeFinalizer(client, CONFIG_MAPS, object, ours)).rejects.toSatisfy(isConflict);
    expect((await client.get(CONFIG_MAPS, ref('a'))).metadata.finalizers).toEqual([ours, 'test.dev/last']);
    await client.patch(CONFIG_MAPS, ref('a'), { type: 'merge', body: { metadata: { finalizers: null } } });
  });

  test('of a later object stays when that of a former object with the same name is removed', async () => {
    const create = async () =>
      addFinalizer(client, CONFIG_MAPS, await client.create(CONFIG_MAPS, churnObject(fixture, 'a')), ours);
    const first = await create();
    await client.delete(CONFIG_MAPS, ref('a'));
    await removeFinalizer(client, CONFIG_MAPS, first, ours);
    const second = await create();
    await expect(removeFinalizer(client, CONFIG_MAPS, first, ours)).rejects.toSatisfy(isConflict);
    expect((await client.get(CONFIG_MAPS, ref('a'))).metadata.finalizers).toEqual([ours]);
    await removeFinalizer(client, CONFIG_MAPS, second, ours);
  });

  test('of an object that is gone counts as removed', async () => {
    const object = await addFinalizer(
      client,
      CONFIG_MAPS,
      await client.create(CONFIG_MAPS, churnObject(fixture, 'a')),
      ours,
    );
    await client.delete(CONFIG_MAPS, ref('a'));
    await removeFinalizer(client, CONFIG_MAPS, object, ours);
    expect(await removeFinalizer(client, CONFIG_MAPS, object, ours)).toBeUndefined();
  });

  test('with an invalid name leads to an invalid error, not to a conflict', async () => {
    const object = await client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    await expect(addFinalizer(client, CONFIG_MAPS, object, 'not valid')).rejects.toSatisfy(isInvalid);
  });
});

describe('a status', () => {
  interface Claim extends KubeObject {
    status?: { phase?: string; capacity?: Record<string, string>; conditions?: { type: string; status: string }[] };
  }
  const claims: Resource<Claim> = {
    group: '',
    version: 'v1',
    plural: 'persistentvolumeclaims',
    kind: 'PersistentVolumeClaim',
    namespaced: true,
  };
  const makeClaim = () =>
    client.create(claims, {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name: 'a', namespace: fixture.namespace },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    });

  test('is written when a member was added or removed, and not when it is equal', async () => {
    const object = await makeClaim();
    const wanted = {
      ...object.status,
      capacity: { storage: '1Gi' },
      conditions: [{ type: 'Resizing', status: 'True' }],
    };
    const first = await writeStatus(client, claims, object, wanted);
    expect(first.written).toBe(true);
    expect(first.object.status?.capacity).toEqual({ storage: '1Gi' });
    const same = await writeStatus(client, claims, first.object, structuredClone(first.object.status as object));
    expect(same).toEqual({ object: first.object, written: false });
    const { capacity: _, ...without } = first.object.status as NonNullable<Claim['status']>;
    const third = await writeStatus(client, claims, first.object, without);
    expect(third.object.status?.capacity).toBeUndefined();
    expect(third.object.status?.conditions).toEqual(first.object.status?.conditions);
  });

  test('that was computed from an old state leads to a conflict', async () => {
    const old = await makeClaim();
    const labels = { changed: 'since' };
    await client.patch(claims, ref('a'), { type: 'merge', body: { metadata: { labels } } });
    await expect(writeStatus(client, claims, old, { phase: 'Lost' })).rejects.toSatisfy(isConflict);
  });
});

describe('events', () => {
  interface Event extends KubeObject {
    reason: string;
    note: string;
    type: string;
    regarding: { uid: string };
  }
  const EVENTS: Resource<Event> = {
    group: 'events.k8s.io',
    version: 'v1',
    plural: 'events',
    kind: 'Event',
    namespaced: true,
  };

  test('are recorded once per transition, with the object that they are about', async () => {
    const object = await client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    {
      await using events = createEventRecorder({ client, controller: 'test.dev/kube', instance: 'one' });
      const ready = (reason: string, note: string) =>
        events.record(object, { type: 'Normal', reason, action: 'Reconcile', note, about: 'Ready' });
      ready('Deployed', 'Deployed to node a');
      ready('Deployed', 'Deployed to node a');
      ready('Deployed', 'Deployed to node a');
      ready('NodeSilent', 'Node a is silent');
      ready('Deployed', 'Deployed to node a');
    }
    const { items } = await client.list(EVENTS, { namespace: fixture.namespace });
    expect(items.map((event) => event.reason).sort()).toEqual(['Deployed', 'Deployed', 'NodeSilent']);
    expect(items.every((event) => event.regarding.uid === object.metadata.uid)).toBe(true);
  });

  test('that cannot be written are counted and lead to no error', async () => {
    const dropped: string[] = [];
    const object = churnObject({ ...fixture, namespace: 'does-not-exist' }, 'a');
    await using events = createEventRecorder({
      client,
      controller: 'test.dev/kube',
      instance: 'one',
      metrics: { eventDropped: ({ reason }) => dropped.push(reason) },
    });
    events.record(object, { type: 'Normal', reason: 'Deployed', action: 'Reconcile', note: 'x' });
    await until('the failure to be counted', () => dropped.length > 0);
    expect(dropped).toEqual(['failed']);
  });
});

test('a replace with a former resource version leads to a conflict', async () => {
  const created = await client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
  const replaced = await client.replace(CONFIG_MAPS, { ...created, data: { a: '1' } });
  await expect(client.replace(CONFIG_MAPS, { ...created, data: { a: '2' } })).rejects.toSatisfy(isConflict);
  expect(versionOf(await client.get(CONFIG_MAPS, ref('a')))).toBe(versionOf(replaced));
});
