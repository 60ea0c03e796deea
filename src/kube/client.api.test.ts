import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest';
import { churnObject, connect, createFixture, type Fixture } from './_api-server.ts';
import { type FaultProxy, loadConfig, type Seen, startFaultProxy, statusBody } from './_fault-proxy.ts';
import { CONFIG_MAPS, type ConfigMap } from './_util.ts';
import { FencedError, isConflict, isForbidden, isNotFound, type KubeClient } from './client.ts';

let fixture: Fixture;
let proxy: FaultProxy;
/** Through the proxy. */
let client: KubeClient;

beforeEach(async () => {
  const kubeconfig = inject('kubeconfig');
  fixture = await createFixture(connect(() => loadConfig(kubeconfig)));
  proxy = await startFaultProxy(kubeconfig);
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  client = connect(() => proxy.config());
});

const any = () => true;
const isPost = ({ method }: Seen) => method === 'POST';
const ref = (name: string) => ({ namespace: fixture.namespace, name });
const make = (name: string) => fixture.client.create(CONFIG_MAPS, churnObject(fixture, name));

describe('a call', () => {
  test('is repeated after internal errors until it succeeds', async () => {
    await make('a');
    proxy.inject(any, { answer: { status: 500, body: statusBody(500, 'InternalError') } }, 2);
    await expect(client.get(CONFIG_MAPS, ref('a'))).resolves.toMatchObject({ metadata: { name: 'a' } });
    expect(proxy.requests).toHaveLength(3);
  });

  test('waits as long as Retry-After says', async () => {
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

  test('tells at once when Retry-After lies beyond its deadline', async () => {
    proxy.inject(any, { answer: { status: 429, headers: { 'retry-after': '60' }, body: statusBody(429, 'TooMany') } });
    await expect(client.get(CONFIG_MAPS, ref('a'), { timeoutMs: 5_000 })).rejects.toMatchObject({ status: 429 });
    expect(proxy.requests).toHaveLength(1);
  });

  test('is repeated after the answer broke off', async () => {
    await make('a');
    proxy.inject(any, { cutAfter: 0 }, 2);
    await expect(client.get(CONFIG_MAPS, ref('a'))).resolves.toMatchObject({ metadata: { name: 'a' } });
  });

  test('that creates is not repeated when it may have been executed', async () => {
    proxy.inject(isPost, { cutAfter: 0 });
    const creating = client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    await expect(creating).rejects.toMatchObject({ name: 'TransportError', code: 'lost' });
    expect(proxy.requests.filter(isPost)).toHaveLength(1);
    await expect(client.get(CONFIG_MAPS, ref('a'))).resolves.toBeDefined();
  });

  test('that is in conflict with its own lost attempt says that nobody knows, for to read and repeat would do it twice', async () => {
    const read = await make('a');
    proxy.inject(({ method }) => method === 'PUT', { cutAfter: 0 }, 1);
    const replacing = client.replace(CONFIG_MAPS, { ...read, data: { ...read.data, mine: 'yes' } });
    await expect(replacing).rejects.toMatchObject({ name: 'TransportError', code: 'lost' });
    expect((await client.get(CONFIG_MAPS, ref('a'))).data).toMatchObject({ mine: 'yes' });
    // Of another's write it says so, whatever else went wrong before it was sent.
    proxy.inject(
      ({ method }) => method === 'PUT',
      { answer: { status: 429, body: statusBody(429, 'TooManyRequests') } },
      1,
    );
    await expect(client.replace(CONFIG_MAPS, { ...read, data: {} })).rejects.toSatisfy(isConflict);
  });

  test('that creates is repeated when flow control refused it', async () => {
    proxy.inject(isPost, { answer: { status: 429, body: statusBody(429, 'TooManyRequests') } }, 2);
    await client.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    expect(proxy.requests.filter(isPost)).toHaveLength(3);
  });

  test.each([
    ['before the answer', { hang: true } as const],
    ['within the answer', { swallowAfter: 0 } as const],
  ])('ends at its deadline when the server hangs %s', async (_name, trouble) => {
    await make('a');
    proxy.inject(any, trouble);
    const start = performance.now();
    await expect(client.get(CONFIG_MAPS, ref('a'), { timeoutMs: 300 })).rejects.toMatchObject({ code: 'timeout' });
    expect(performance.now() - start).toBeLessThan(3_000);
  });

  test("rejects with the caller's reason when he gives up, and sends nothing when he already has", async () => {
    proxy.inject(any, { hang: true });
    const reason = new Error('shutting down');
    const controller = new AbortController();
    const calling = client.get(CONFIG_MAPS, ref('a'), { signal: controller.signal });
    controller.abort(reason);
    await expect(calling).rejects.toBe(reason);
    await expect(client.get(CONFIG_MAPS, ref('a'), { signal: controller.signal })).rejects.toBe(reason);
    expect(proxy.requests.length).toBeLessThanOrEqual(1);
  });

  test('refuses an answer that is larger than the cap', async () => {
    await fixture.client.create(CONFIG_MAPS, churnObject(fixture, 'a', { text: 'x'.repeat(100_000) }));
    const small = connect(() => proxy.config(), { maxResponseBytes: 50_000 });
    await expect(small.get(CONFIG_MAPS, ref('a'))).rejects.toMatchObject({ code: 'too-large' });
  });

  test('that finds nothing says so as an error or as a value', async () => {
    await expect(client.get(CONFIG_MAPS, ref('a'))).rejects.toSatisfy(isNotFound);
    expect(await client.find(CONFIG_MAPS, ref('a'))).toBeUndefined();
  });

  test('reaches what has no type of its own', async () => {
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
  test('are read anew after they were refused, from files as well', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'kube-token-'));
    onTestFinished(() => rm(dir, { recursive: true }));
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

  test('that cannot be had yet are asked for again', async () => {
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

  test('the token goes to the API server and to nobody that it redirects to', async () => {
    proxy.inject(any, { answer: { status: 302, headers: { location: 'http://127.0.0.1:1/' }, body: '' } });
    await client.get(CONFIG_MAPS, ref('a')).catch(() => {});
    expect(proxy.requests).toHaveLength(1);
  });
});

describe('lists', () => {
  test('come in pages, consistent and with kinds', async () => {
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

describe('deleting', () => {
  test('twice is boring', async () => {
    await make('a');
    expect(await client.delete(CONFIG_MAPS, ref('a'))).toEqual({ found: true });
    expect(await client.delete(CONFIG_MAPS, ref('a'))).toEqual({ found: false });
  });

  test('shows what a finalizer still holds', async () => {
    const object = churnObject(fixture, 'a');
    object.metadata.finalizers = ['test.dev/held'];
    await client.create(CONFIG_MAPS, object);
    const { object: held } = await client.delete(CONFIG_MAPS, ref('a'));
    expect(held?.metadata.deletionTimestamp).toBeDefined();
    await client.patch(CONFIG_MAPS, ref('a'), { type: 'merge', body: { metadata: { finalizers: null } } });
  });

  test('spares the successor of the object that was meant', async () => {
    await make('a');
    const preconditions = { uid: 'of another one' };
    await expect(client.delete(CONFIG_MAPS, ref('a'), { preconditions })).rejects.toSatisfy(isConflict);
  });
});

describe('a fenced client', () => {
  test('sends no write while it may not, and reads', async () => {
    let leading = true;
    const fenced = client.fenced(() => leading);
    await fenced.create(CONFIG_MAPS, churnObject(fixture, 'a'));
    leading = false;
    const sent = proxy.requests.length;
    await expect(fenced.delete(CONFIG_MAPS, ref('a'))).rejects.toBeInstanceOf(FencedError);
    expect(proxy.requests).toHaveLength(sent);
    await expect(fenced.get(CONFIG_MAPS, ref('a'))).resolves.toBeDefined();
  });

  test('does not repeat a write after it was fenced', async () => {
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
  test('that is refused throws what the server said', async () => {
    proxy.inject(any, { answer: { status: 403, body: statusBody(403, 'Forbidden', 'not you') } });
    const watching = client.watch(CONFIG_MAPS, { namespace: fixture.namespace })[Symbol.asyncIterator]();
    await expect(watching.next()).rejects.toSatisfy(isForbidden);
  });

  test('ends in order when the server says so', async () => {
    const seen: string[] = [];
    const options = { namespace: fixture.namespace, timeoutSeconds: 1, sendInitialEvents: true };
    for await (const { type } of client.watch(CONFIG_MAPS, options)) seen.push(type);
    expect(seen).toContain('BOOKMARK');
  });

  test('closes its connection when its reader leaves', async () => {
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
