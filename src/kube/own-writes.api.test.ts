import { expect, inject, test } from 'vitest';
import { churnObject, connect, createProxied, startMirror, untilEqual } from './_api-server.ts';
import { loadConfig } from './_fault-proxy.ts';
import { CONFIG_MAPS, type ConfigMap, createRandom, until } from './_util.ts';
import { removeFinalizer } from './finalizer.ts';
import type { ObjectRef } from './object.ts';

/** A store whose watch goes through a proxy, and a client that writes without the proxy. */
async function makeWriter() {
  const { fixture, proxy, client: throughProxy } = await createProxied();
  const mirror = startMirror(fixture, throughProxy);
  await until('the first list', () => mirror.store.synced);
  const { client, namespace } = fixture;
  client.observeWrites(CONFIG_MAPS, mirror.store);
  const ref = (name: string): ObjectRef => ({ namespace, name });
  const read = (name: string) => mirror.store.get(namespace, name);
  return { fixture, proxy, mirror, client, ref, read };
}

test('the next read returns an own write although the watch is stalled', async () => {
  const { fixture, proxy, mirror, client, ref, read } = await makeWriter();
  proxy.freeze();
  const created = await client.create(CONFIG_MAPS, churnObject(fixture, 'a', { n: '1' }));
  expect(read('a')?.metadata.resourceVersion).toBe(created.metadata.resourceVersion);
  await client.patch(CONFIG_MAPS, ref('a'), { type: 'merge', body: { data: { n: '2' } } });
  expect(read('a')?.data).toEqual({ n: '2' });
  const replaced = await client.replace(CONFIG_MAPS, { ...(read('a') as ConfigMap), data: { n: '3' } });
  expect(read('a')?.data).toEqual({ n: '3' });
  const { metadata } = replaced;
  const held = await client.replace(CONFIG_MAPS, {
    ...replaced,
    metadata: { ...metadata, finalizers: ['test.dev/held'] },
  });
  expect(read('a')?.metadata.finalizers).toEqual(['test.dev/held']);
  await client.delete(CONFIG_MAPS, ref('a'));
  expect(read('a')?.metadata.deletionTimestamp).toBeDefined();
  await removeFinalizer(client, CONFIG_MAPS, held, 'test.dev/held');
  expect(read('a')).toBeUndefined();
  const again = await client.create(CONFIG_MAPS, churnObject(fixture, 'a', { n: '4' }));
  expect(read('a')?.metadata.uid).toBe(again.metadata.uid);
  await client.delete(CONFIG_MAPS, ref('a'));
  expect(read('a')).toBeUndefined();

  const seen: string[] = [];
  mirror.store.subscribe(({ type, key }) => seen.push(`${type} ${key}`));
  await client.create(CONFIG_MAPS, churnObject(fixture, 'marker'));
  proxy.thaw();
  await untilEqual(fixture, mirror.store);
  const progressed = () => mirror.ended.length === 0;
  expect(progressed()).toBe(true);
  // The late events of own writes led to no change.
  await client.create(CONFIG_MAPS, churnObject(fixture, 'last'));
  await until('the last event', () => read('last'));
  expect(seen.filter((line) => line.endsWith('/a'))).toEqual([]);
  expect(mirror.regressions).toEqual([]);
});

test('reads never go back during own writes, writes of others and faults of the watch', async () => {
  const { fixture, proxy, mirror, client, ref, read } = await makeWriter();
  const others = connect(() => loadConfig(inject('kubeconfig')));
  const random = createRandom(42);
  const names = ['a', 'b', 'c', 'd'];
  const tolerate = (error: { status?: number }) => {
    if (error.status !== 404 && error.status !== 409) throw error;
  };
  const write = async (by: typeof client, own: boolean) => {
    const name = names[Math.floor(random() * names.length)] as string;
    const dice = random();
    if (dice < 0.4) {
      const created = await by.create(CONFIG_MAPS, churnObject(fixture, name)).catch(tolerate);
      if (own && created) check(name, created);
    } else if (dice < 0.8) {
      const body = { data: { n: String(random()) } };
      const patched = await by.patch(CONFIG_MAPS, ref(name), { type: 'merge', body }).catch(tolerate);
      if (own && patched) check(name, patched);
    } else {
      await by.delete(CONFIG_MAPS, ref(name));
    }
  };
  /** A read returns what was just written, or a newer state; or the object is gone, since another client deleted it. */
  function check(name: string, written: ConfigMap) {
    const now = read(name);
    if (now)
      expect(Number(now.metadata.resourceVersion)).toBeGreaterThanOrEqual(Number(written.metadata.resourceVersion));
  }
  const busy = async (by: typeof client, own: boolean) => {
    for (let i = 0; i < 150; i++) await write(by, own);
  };
  let over = false;
  const limp = async () => {
    while (!over) {
      const dice = random();
      if (dice < 0.2) proxy.cutAll();
      else if (dice < 0.6) proxy.freeze();
      else proxy.thaw();
      await new Promise((resolve) => setTimeout(resolve, 15));
    }
    proxy.thaw();
  };
  const limping = limp();
  await Promise.all([busy(client, true), busy(client, true), busy(others, false)]);
  over = true;
  await limping;
  await untilEqual(fixture, mirror.store);
  expect(mirror.regressions).toEqual([]);
});
