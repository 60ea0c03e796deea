import { expect, test } from 'vitest';
import { ApiError } from './api-error.ts';
import type { KubeClient } from './client.ts';
import type { KubeObject } from './object.ts';
import { createOrUpdate, retryOnConflict } from './update.ts';

const conflict = () => new ApiError(409, { reason: 'Conflict' }, 'replace');
const alreadyExists = () => new ApiError(409, { reason: 'AlreadyExists' }, 'create');

/** Rejects with the errors one after another, then resolves. */
function failing(...errors: Error[]) {
  let attempts = 0;
  return {
    get attempts() {
      return attempts;
    },
    run: async () => {
      const error = errors[attempts++];
      if (error) throw error;
      return 'written';
    },
  };
}

test.each([
  ['a conflict', conflict],
  ['an object that another writer created first', alreadyExists],
])('%s leads to another attempt', async (_, error) => {
  const attempt = failing(error(), error());
  expect(await retryOnConflict(attempt.run, { random: () => 1 })).toBe('written');
  expect(attempt.attempts).toBe(3);
});

test('any other error is thrown by the first attempt', async () => {
  const attempt = failing(new ApiError(403, { reason: 'Forbidden' }, 'replace'));
  await expect(retryOnConflict(attempt.run)).rejects.toThrow('Forbidden');
  expect(attempt.attempts).toBe(1);
});

test('attempts are delayed by 10 ms, doubling up to 200 ms, and end with the last conflict at the deadline', async () => {
  const delays: number[] = [];
  let now = 0;
  const clock = {
    now: () => now,
    wall: () => now,
    after(ms: number, callback: () => void) {
      delays.push(ms);
      now += ms;
      queueMicrotask(callback);
      return () => {};
    },
  };
  const attempt = failing(...Array.from({ length: 100 }, conflict));
  await expect(retryOnConflict(attempt.run, { deadlineMs: 1_000, clock, random: () => 0 })).rejects.toThrow('Conflict');
  expect(delays.slice(0, 7)).toEqual([10, 20, 40, 80, 160, 200, 200]);
  expect(now).toBeLessThanOrEqual(1_000);
});

test('an aborted signal ends the wait between two attempts', async () => {
  const stop = new AbortController();
  const attempt = failing(...Array.from({ length: 10 }, conflict));
  const done = retryOnConflict(
    async () => {
      const result = attempt.run();
      stop.abort();
      return result;
    },
    { signal: stop.signal },
  );
  await expect(done).rejects.toThrow('Conflict');
  expect(attempt.attempts).toBe(1);
});

const RESOURCE = { group: '', version: 'v1', plural: 'configmaps', kind: 'ConfigMap', namespaced: true };
const REF = { namespace: 'x', name: 'a' };
interface Counter extends KubeObject {
  count: number;
}
const counter = (count: number, resourceVersion?: string): Counter => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { ...REF, ...(resourceVersion && { resourceVersion }) },
  count,
});

/** One object under optimistic locking. */
function createServer(stored?: Counter) {
  const server = { stored, calls: [] as string[], before: (_call: string) => {} };
  const call = (name: string) => {
    server.before(name);
    server.calls.push(name);
  };
  const put = (object: Counter) => {
    const version = String(Number(server.stored?.metadata.resourceVersion ?? 0) + 1);
    server.stored = { ...object, metadata: { ...object.metadata, resourceVersion: version } };
    return server.stored;
  };
  const client = {
    async find() {
      call('find');
      return server.stored;
    },
    async create(_: unknown, object: Counter) {
      call('create');
      if (server.stored) throw alreadyExists();
      return put(object);
    },
    async replace(_: unknown, object: Counter) {
      call('replace');
      if (!server.stored) throw new ApiError(404, { reason: 'NotFound' }, 'replace');
      if (server.stored.metadata.resourceVersion !== object.metadata.resourceVersion) throw conflict();
      return put(object);
    },
  } as unknown as KubeClient;
  return Object.assign(server, { client });
}

const next = (present: Counter | undefined) => (present ? { ...present, count: present.count + 1 } : counter(1));

test('no change is lost when many clients write at once', async () => {
  const server = createServer();
  await Promise.all(Array.from({ length: 10 }, () => createOrUpdate(server.client, RESOURCE, REF, next)));
  expect(server.stored?.count).toBe(10);
});

test('a change that returns nothing, or the present object, writes nothing', async () => {
  const server = createServer(counter(5, '1'));
  for (const change of [() => undefined, (present: Counter | undefined) => present])
    expect(await createOrUpdate(server.client, RESOURCE, REF, change)).toMatchObject({
      written: false,
      object: { count: 5 },
    });
  expect(server.calls).toEqual(['find', 'find']);
});

test('the first attempt uses the object of a store, later ones that of the API server', async () => {
  const server = createServer(counter(5, '2'));
  const { object } = await createOrUpdate(server.client, RESOURCE, REF, next, { known: counter(3, '1') });
  expect(object?.count).toBe(6);
  expect(server.calls).toEqual(['replace', 'find', 'replace']);
});

test('an object that is deleted between read and write is created', async () => {
  const server = createServer(counter(5, '1'));
  server.before = (call) => {
    if (call === 'replace') server.stored = undefined;
  };
  const { object } = await createOrUpdate(server.client, RESOURCE, REF, next);
  expect(object?.count).toBe(1);
  expect(server.calls).toEqual(['find', 'replace', 'find', 'create']);
});

test('a create that gets 404 is not retried', async () => {
  const server = createServer();
  server.before = (call) => {
    if (call === 'create') throw new ApiError(404, { reason: 'NotFound' }, 'create in a namespace that is gone');
  };
  await expect(createOrUpdate(server.client, RESOURCE, REF, next)).rejects.toThrow('namespace that is gone');
});
