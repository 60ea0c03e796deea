import { beforeEach, describe, expect, inject, test } from 'vitest';
import { churnObject, connect, createFixture, type Fixture } from './_api-server.ts';
import { loadConfig } from './_fault-proxy.ts';
import { CONFIG_MAPS, type ConfigMap, until } from './_util.ts';
import { isConflict, type KubeClient } from './client.ts';
import { createEventRecorder } from './events.ts';
import { removeFinalizer } from './finalizer.ts';
import type { KubeObject, Resource } from './object.ts';
import { writeStatus } from './status.ts';

let fixture: Fixture;
let client: KubeClient;

beforeEach(async () => {
  client = connect(() => loadConfig(inject('kubeconfig')));
  fixture = await createFixture(client);
});

const ref = (name: string) => ({ namespace: fixture.namespace, name });
const versionOf = (object: KubeObject) => object.metadata.resourceVersion;

describe('a finalizer', () => {
  const ours = 'test.dev/ours';

  /** Creates an object with these finalizers. */
  const create = (...finalizers: string[]) => {
    const object = churnObject(fixture, 'a');
    return client.create(CONFIG_MAPS, { ...object, metadata: { ...object.metadata, finalizers } });
  };

  test('keeps a deleted object until it is removed', async () => {
    await create(ours);
    const { object } = await client.delete(CONFIG_MAPS, ref('a'));
    expect(await removeFinalizer(client, CONFIG_MAPS, object as ConfigMap, ours)).toBeUndefined();
    expect(await client.find(CONFIG_MAPS, ref('a'))).toBeUndefined();
  });

  test('is removed from a list with finalizers of others', async () => {
    const both = await create('test.dev/theirs', ours);
    const left = await removeFinalizer(client, CONFIG_MAPS, both, 'test.dev/theirs');
    expect(left?.metadata.finalizers).toEqual([ours]);
    await removeFinalizer(client, CONFIG_MAPS, left as ConfigMap, ours);
  });

  test('leads to a conflict, and no finalizer is lost, when the list changed after it was read', async () => {
    const both = await create('test.dev/theirs', ours);
    await removeFinalizer(client, CONFIG_MAPS, both, 'test.dev/theirs');
    await expect(removeFinalizer(client, CONFIG_MAPS, both, ours)).rejects.toSatisfy(isConflict);
    const now = await client.get(CONFIG_MAPS, ref('a'));
    expect(now.metadata.finalizers).toEqual([ours]);
    await removeFinalizer(client, CONFIG_MAPS, now, ours);
  });

  test('at another index than it was read at leads to a conflict, and no other finalizer is removed', async () => {
    const object = await create('test.dev/first', ours, 'test.dev/last');
    await removeFinalizer(client, CONFIG_MAPS, object, 'test.dev/first');
    await expect(removeFinalizer(client, CONFIG_MAPS, object, ours)).rejects.toSatisfy(isConflict);
    expect((await client.get(CONFIG_MAPS, ref('a'))).metadata.finalizers).toEqual([ours, 'test.dev/last']);
    await client.patch(CONFIG_MAPS, ref('a'), { type: 'merge', body: { metadata: { finalizers: null } } });
  });

  test('of a later object stays when that of a former object with the same name is removed', async () => {
    const first = await create(ours);
    await client.delete(CONFIG_MAPS, ref('a'));
    await removeFinalizer(client, CONFIG_MAPS, first, ours);
    const second = await create(ours);
    await expect(removeFinalizer(client, CONFIG_MAPS, first, ours)).rejects.toSatisfy(isConflict);
    expect((await client.get(CONFIG_MAPS, ref('a'))).metadata.finalizers).toEqual([ours]);
    await removeFinalizer(client, CONFIG_MAPS, second, ours);
  });

  test('of an object that is gone counts as removed', async () => {
    const object = await create(ours);
    await client.delete(CONFIG_MAPS, ref('a'));
    await removeFinalizer(client, CONFIG_MAPS, object, ours);
    expect(await removeFinalizer(client, CONFIG_MAPS, object, ours)).toBeUndefined();
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
