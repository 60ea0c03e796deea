import { expect, test, vi } from 'vitest';
import type { ConfigMap } from '../api/resources.ts';
import { ApiError } from '../kube/api-error.ts';
import type { KubeClient } from '../kube/mod.ts';
import { silentLog } from '../lib/log.ts';
import { formatPosition, latestPosition } from '../rules/epoch.ts';
import { createEpochs } from './epochs.ts';
import { createStores } from './stores.ts';

/** The ConfigMap of the epoch log; a read can be made to answer late, with what was there when it was asked. */
function makeClient() {
  let stored: ConfigMap | undefined;
  let version = 0;
  let delays: Promise<void>[] = [];
  const write = async (_: unknown, object: ConfigMap) => {
    const { resourceVersion } = object.metadata;
    if (stored && resourceVersion !== stored.metadata.resourceVersion)
      throw new ApiError(409, { reason: 'Conflict' }, 'PUT skerry-epochs');
    stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(++version) } };
    return stored;
  };
  const client = {
    async find() {
      const found = stored;
      await delays.shift();
      return found;
    },
    create: write,
    replace: write,
  } as unknown as KubeClient;
  return {
    client,
    delayNextRead(until: Promise<void>) {
      delays = [until];
    },
    restore: (object: ConfigMap | undefined) => {
      stored = object && { ...object, metadata: { ...object.metadata, resourceVersion: String(++version) } };
    },
    read: () => stored,
  };
}

async function start() {
  vi.useFakeTimers();
  const stores = createStores({ namespace: 'test' });
  const api = makeClient();
  const epochs = createEpochs({ client: api.client, namespace: 'test', stores, log: silentLog });
  const lost: string[] = [];
  epochs.onRestored((position) => lost.push(position));
  const stop = new AbortController();
  const leading = epochs.lead(api.client, stop.signal);
  await vi.advanceTimersByTimeAsync(0);
  return {
    ...{ api, epochs, lost },
    /** What a user changes is counted a moment later. */
    async edit(generation: number) {
      stores.applications.set({
        apiVersion: 'skerry.dev/v3',
        kind: 'Application',
        metadata: { name: 'a', namespace: 'test', uid: 'a', generation, resourceVersion: String(generation) },
        spec: {},
      } as never);
      await vi.advanceTimersByTimeAsync(1_500);
    },
    position: () => formatPosition(latestPosition(epochs.epochLog) as never),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await leading;
      vi.useRealTimers();
    },
  };
}

test('a read of the log that began before a change was counted is not taken for a restored datastore', async () => {
  await using fixture = await start();
  const { api, epochs, lost, edit, position } = fixture;
  await edit(1);
  const late = Promise.withResolvers<void>();
  api.delayNextRead(late.promise);
  const verifying = epochs.verify();
  const before = position();
  await edit(2);
  const after = position();
  expect(after).not.toBe(before);
  late.resolve();
  await verifying;
  expect(lost).toEqual([]);
  expect(epochs.isStale).toBe(false);
  expect(position()).toBe(after);
});

test('a log that lacks what was issued is a restored datastore, and is announced once its new epoch is stored', async () => {
  await using fixture = await start();
  const { api, epochs, lost, edit, position } = fixture;
  await edit(1);
  const backup = api.read();
  await edit(2);
  const issued = position();
  api.restore(backup);
  await epochs.verify();
  expect(lost).toEqual([issued]);
  expect(api.read()?.data?.epochs).not.toBe(backup?.data?.epochs);
});
