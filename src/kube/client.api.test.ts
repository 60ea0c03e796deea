import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { churnObject, connect, createProxied, type Fixture } from './_api-server.ts';
import { type FaultProxy, type Seen, statusBody } from './_fault-proxy.ts';
import { CONFIG_MAPS, type ConfigMap } from './_util.ts';
import { FencedError } from './call.ts';
import { isConflict, isForbidden, isNotFound, type KubeClient } from './client.ts';

let fixture: Fixture;
let proxy: FaultProxy;
/** Connected through the proxy. */
let client: KubeClient;

beforeEach(async () => {
  ({ fixture, proxy, client } = await createProxied());
});

const any = () => true;
const isPost = ({ method }: Seen) => method === 'POST';
const ref = (name: string) => ({ namespace: fixture.namespace, name });
const make = (name: string) => fixture.client.create(CONFIG_MAPS, churnObject(fixture, name));

describe('a call', () => {
  test('is retried after internal errors until it succeeds', async () => {
    await make('a');
    proxy.inject(any, { answer: { status: 500, body: statusBody(500, 'InternalError') } }, 2);
    await expect(client.get(CONFIG_MAPS, ref('a'))).resolves.toMatchObject({ metadata: { name: 'a' } });
    expect(proxy.requests).toHaveLength(3);
  });

  test('is retried after the delay of Retry-After', async () => {
    await make('a');
    proxy.inject(
      any,
      { answer: { status: 429, headers: { 'retry-after': '1' }, body: statusBody(429, 'TooMany') } },
      1,
    );
    await client.get(CONFIG_MAPS, ref('a'));
    const [first, second] = proxy.requests;
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(1_000);
  });

  test('fails at once when Retry-After exceeds its deadline', async () => {
    proxy.inject(any, { answer: { status: 429, headers: { 'retry-after': '60' }, body: statusBody(429, 'TooMany') } });
    await expect(client.get(CONFIG_MAPS, ref('a'), { timeoutMs: 5_000 })).rejects.toMatchObject({ status: 429 });
    expect(proxy.requests).toHaveLength(1);
  });

  test('is retried after the connection broke during the response', async () => {
    await make('a');
    proxy.inject(any, { cutAfter: 0 }, 2);
    await expect(client.get(CONFIG_MAPS, ref('a'))).resolves.toMatchObject({ metadata: { name: 'a' } });
  });

  test('is not retried when it is a create that may have been executed', async () => {
    proxy.inject(isPost, { cutAfter: 0 });
    const creating = client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    await expect(creating).rejects.toMatchObject({ name: 'TransportError', code: 'lost' });
    expect(proxy.requests.filter(isPost)).toHaveLength(1);
    await expect(client.get(CONFIG_MAPS, ref('a'))).resolves.toBeDefined();
  });

  test('rejects with the error of its lost attempt, not with a conflict, when that attempt may have caused the conflict', async () => {
    const read = await make('a');
    proxy.inject(({ method }) => method === 'PUT', { cutAfter: 0 }, 1);
    const replacing = client.replace(CONFIG_MAPS, { ...read, data: { ...read.data, mine: 'yes' } });
    await expect(replacing).rejects.toMatchObject({ name: 'TransportError', code: 'lost' });
    expect((await client.get(CONFIG_MAPS, ref('a'))).data).toMatchObject({ mine: 'yes' });
    // An attempt that was certainly not executed cannot have caused the conflict.
    proxy.inject(
      ({ method }) => method === 'PUT',
      { answer: { status: 429, body: statusBody(429, 'TooManyRequests') } },
      1,
    );
    await expect(client.replace(CONFIG_MAPS, { ...read, data: {} })).rejects.toSatisfy(isConflict);
  });

  test('is retried when it is a create that flow control refused', async () => {
    proxy.inject(isPost, { answer: { status: 429, body: statusBody(429, 'TooManyRequests') } }, 2);
    await client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    expect(proxy.requests.filter(isPost)).toHaveLength(3);
  });

  test.each([
    ['before the response', { hang: true } as const],
    ['during the response', { swallowAfter: 0 } as const],
  ])('ends at its deadline when the server hangs %s', async (_name, trouble) => {
    await make('a');
    proxy.inject(any, trouble);
    const start = performance.now();
    await expect(client.get(CONFIG_MAPS, ref('a'), { timeoutMs: 300 })).rejects.toMatchObject({ code: 'timeout' });
    // Without a deadline of its own a call ends after 30 s.
    expect(performance.now() - start).toBeLessThan(15_000);
  });

  test('rejects with the reason of an aborted signal, and sends nothing when the signal was aborted before', async () => {
    proxy.inject(any, { hang: true });
    const reason = new Error('shutting down');
    const controller = new AbortController();
    const calling = client.get(CONFIG_MAPS, ref('a'), { signal: controller.signal });
    controller.abort(reason);
    await expect(calling).rejects.toBe(reason);
    await expect(client.get(CONFIG_MAPS, ref('a'), { signal: controller.signal })).rejects.toBe(reason);
    expect(proxy.requests.length).toBeLessThanOrEqual(1);
  });

  test('fails when the response exceeds the maximum length', async () => {
    await fixture.client.create(CONFIG_MAPS, churnObject(fixture, 'a', { text: 'x'.repeat(100_000) }));
    const small = connect(() => proxy.config(), { maxResponseBytes: 50_000 });
    await expect(small.get(CONFIG_MAPS, ref('a'))).rejects.toMatchObject({ code: 'too-large' });
  });

  test('reads a list whose pages exceed the maximum length in smaller pages', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e'])
      await fixture.client.create(CONFIG_MAPS, churnObject(fixture, name, { text: 'x'.repeat(30_000) }));
    const small = connect(() => proxy.config(), { maxPageBytes: 50_000 });
    const { items } = await small.list(CONFIG_MAPS, { namespace: fixture.namespace, limit: 4 });
    expect(items.map(({ metadata }) => metadata.name)).toEqual(expect.arrayContaining(['a', 'b', 'c', 'd', 'e']));
    await expect(
      connect(() => proxy.config(), { maxPageBytes: 10_000 }).list(CONFIG_MAPS, { namespace: fixture.namespace }),
    ).rejects.toMatchObject({ code: 'too-large' });
  });

  test('for an object that does not exist rejects with get and resolves with undefined with find', async () => {
    await expect(client.get(CONFIG_MAPS, ref('a'))).rejects.toSatisfy(isNotFound);
    expect(await client.find(CONFIG_MAPS, ref('a'))).toBeUndefined();
  });

  test('can have any method and path', async () => {
    expect(await client.request('GET', '/version')).toMatchObject({ major: '1' });
    const review = {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes: { verb: 'get', resource: 'pods', namespace: 'default' } },
    };
    const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
    expect(await client.request('POST', path, review)).toMatchObject({ status: { allowed: true } });
  });
});

describe('credentials', () => {
  test('are read from their files again after they were refused', async () => {
    const dir = temporaryFolder();
    const tokenFile = join(dir, 'token');
    const real = proxy.config();
    const token = real.getCurrentUser()?.token as string;
    await writeFile(tokenFile, 'expired');
    const rotating = connect(() => {
      const config = new KubeConfig();
      const cluster = real.getCurrentCluster();
      if (!cluster) throw new Error('no cluster');
      const authProvider = { name: 'tokenFile', config: { tokenFile } };
      config.loadFromClusterAndUser(cluster, { name: 'user', authProvider });
      return config;
    });
    await expect(rotating.get(CONFIG_MAPS, ref('a'))).rejects.toMatchObject({ status: 401 });
    await writeFile(tokenFile, `${token}\n`);
    await expect(rotating.get(CONFIG_MAPS, ref('a'))).rejects.toSatisfy(isNotFound);
  });

  test('are loaded again after loading them failed', async () => {
    let asked = 0;
    const late = connect(() => {
      if (++asked === 2) throw new Error('half written');
      const config = proxy.config();
      if (asked === 1) config.users = config.users.map((user) => ({ ...user, token: 'expired' }));
      return config;
    });
    await expect(late.get(CONFIG_MAPS, ref('a'))).rejects.toSatisfy(isNotFound);
    expect(asked).toBe(3);
  });

  test('are not sent to the target of a redirect', async () => {
    proxy.inject(any, { answer: { status: 302, headers: { location: 'http://127.0.0.1:1/' }, body: '' } });
    await client.get(CONFIG_MAPS, ref('a')).catch(() => {});
    expect(proxy.requests).toHaveLength(1);
  });
});

describe('lists', () => {
  test('are read in pages, and their objects have apiVersion and kind', async () => {
    for (let i = 0; i < 7; i++) await make(`a-${i}`);
    const pages: ConfigMap[][] = [];
    const options = { namespace: fixture.namespace, labelSelector: 'app=churn', limit: 3 };
    for await (const page of client.listPages(CONFIG_MAPS, options)) pages.push(page.items);
    expect(pages.map((items) => items.length)).toEqual([3, 3, 1]);
    const all = await client.list(CONFIG_MAPS, options);
    expect(all.items.map((item) => `${item.apiVersion} ${item.kind}`)).toEqual(Array(7).fill('v1 ConfigMap'));
    expect(all.resourceVersion).toMatch(/^\d+$/);
  });
});

describe('a delete', () => {
  test('of an object that is gone resolves with found: false', async () => {
    await make('a');
    expect(await client.delete(CONFIG_MAPS, ref('a'))).toEqual({ found: true });
    expect(await client.delete(CONFIG_MAPS, ref('a'))).toEqual({ found: false });
  });

  test('resolves with the object while a finalizer delays its deletion', async () => {
    const object = churnObject(fixture, 'a');
    object.metadata.finalizers = ['test.dev/held'];
    await client.create(CONFIG_MAPS, object);
    const { object: held } = await client.delete(CONFIG_MAPS, ref('a'));
    expect(held?.metadata.deletionTimestamp).toBeDefined();
    await client.patch(CONFIG_MAPS, ref('a'), { type: 'merge', body: { metadata: { finalizers: null } } });
  });

  test('does not delete an object with another uid than that of its precondition', async () => {
    await make('a');
    const preconditions = { uid: 'of another one' };
    await expect(client.delete(CONFIG_MAPS, ref('a'), { preconditions })).rejects.toSatisfy(isConflict);
  });
});

describe('a fenced client', () => {
  test('sends reads, but no write, while writes are not allowed', async () => {
    let leading = true;
    const fenced = client.fenced(() => leading);
    await fenced.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    leading = false;
    const sent = proxy.requests.length;
    await expect(fenced.delete(CONFIG_MAPS, ref('a'))).rejects.toBeInstanceOf(FencedError);
    expect(proxy.requests).toHaveLength(sent);
    await expect(fenced.get(CONFIG_MAPS, ref('a'))).resolves.toBeDefined();
  });

  test('does not retry a write after writes were disallowed', async () => {
    let leading = true;
    const fenced = client.fenced(() => leading);
    proxy.inject(isPost, () => {
      leading = false;
      return { answer: { status: 429, body: statusBody(429, 'TooManyRequests') } };
    });
    await expect(fenced.create(CONFIG_MAPS, churnObject(fixture, 'a'))).rejects.toBeInstanceOf(FencedError);
    expect(proxy.requests.filter(isPost)).toHaveLength(1);
  });
});

describe('a watch', () => {
  test('throws the error of the server when it is refused', async () => {
    proxy.inject(any, { answer: { status: 403, body: statusBody(403, 'Forbidden', 'not you') } });
    const watching = client.watch(CONFIG_MAPS, { namespace: fixture.namespace })[Symbol.asyncIterator]();
    await expect(watching.next()).rejects.toSatisfy(isForbidden);
  });

  test('ends without an error when the server ends it at its timeout', async () => {
    const seen: string[] = [];
    const options = { namespace: fixture.namespace, timeoutSeconds: 1, sendInitialEvents: true };
    for await (const { type } of client.watch(CONFIG_MAPS, options)) seen.push(type);
    expect(seen).toContain('BOOKMARK');
  });

  test('closes its connection when its consumer stops reading', async () => {
    await make('a');
    const options = { namespace: fixture.namespace, sendInitialEvents: true };
    let closed: Promise<unknown> | undefined;
    proxy.inject(any, {
      stream(response) {
        closed = new Promise((resolve) => response.on('close', resolve));
        response.write(`${JSON.stringify({ type: 'ADDED', object: churnObject(fixture, 'a') })}\n`);
      },
    });
    for await (const _ of client.watch(CONFIG_MAPS, options)) break;
    await closed;
  });
});
