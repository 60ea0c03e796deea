/** Helpers of the tests against a real API server: a namespace per test, random writes in it, and stores that follow it. */
import { randomBytes } from 'node:crypto';
import type { KubeConfig } from '@kubernetes/client-node';
import { inject, onTestFinished } from 'vitest';
import { loadConfig, startFaultProxy } from './_fault-proxy.ts';
import { CONFIG_MAPS, type ConfigMap, createRandom, until } from './_util.ts';
import { createClient, type KubeClient, type KubeClientOptions } from './client.ts';
import { type KubeObject, keyOf, type Resource } from './object.ts';
import { type ReflectorOptions, startReflector } from './reflector.ts';
import { createStore, type Selection, type Store } from './store.ts';

const NAMESPACES: Resource = { group: '', version: 'v1', plural: 'namespaces', kind: 'Namespace', namespaced: false };
const LABELS = { app: 'churn' };

export interface Fixture {
  /** Connected to the API server directly, without a proxy. */
  client: KubeClient;
  namespace: string;
  /** Names of the objects that `churn` created and has not deleted. */
  there: Set<string>;
}

/** A client that is closed when the test ends. */
export function connect(config: () => KubeConfig, options: Partial<KubeClientOptions> = {}): KubeClient {
  const client = createClient({ config, ...options });
  onTestFinished(() => client[Symbol.asyncDispose]());
  return client;
}

/** A namespace that is deleted when the test ends. */
export async function createFixture(client: KubeClient): Promise<Fixture> {
  const namespace = `kube-${randomBytes(6).toString('hex')}`;
  await client.create(NAMESPACES, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  onTestFinished(async () => {
    await client.delete(NAMESPACES, { name: namespace }).catch(() => {});
  });
  return { client, namespace, there: new Set() };
}

/** A namespace, and a client whose requests go through a proxy, until the test ends. */
export async function createProxied(options: Partial<KubeClientOptions> = {}) {
  const kubeconfig = inject('kubeconfig');
  const fixture = await createFixture(connect(() => loadConfig(kubeconfig)));
  const proxy = await startFaultProxy(kubeconfig);
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  return { fixture, proxy, client: connect(() => proxy.config(), options) };
}

const selectionOf = ({ namespace }: Fixture): Selection => ({ namespace, labels: LABELS });

export function churnObject(fixture: Fixture, name: string, data: Record<string, string> = {}): ConfigMap {
  const metadata = { name, namespace: fixture.namespace, labels: LABELS };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata, data };
}

interface Churn {
  names?: number;
  lanes?: number;
  seed?: number;
  bytes?: number;
  signal?: AbortSignal;
}

/** Creates, changes and deletes `names` objects at random, `writes` times, `lanes` at once. */
export async function churn(fixture: Fixture, writes: number, options: Churn = {}) {
  const { names = 20, lanes = 4, seed = 1, bytes = 100, signal } = options;
  const { client, namespace, there } = fixture;
  const random = createRandom(seed);
  const call = signal ? { signal } : {};
  let left = writes;
  const lane = async (number: number) => {
    // Each lane writes to names of its own, so that no write fails because of another lane.
    const mine = Array.from({ length: names }, (_, i) => `churn-${i}`).filter((_, i) => i % lanes === number);
    while (left-- > 0) {
      signal?.throwIfAborted();
      const name = mine[Math.floor(random() * mine.length)] as string;
      const data = { text: 'x'.repeat(bytes), n: String(left) };
      if (!there.has(name)) {
        await client.create(CONFIG_MAPS, churnObject(fixture, name, data), call);
        there.add(name);
      } else if (random() < 0.15) {
        await client.delete(CONFIG_MAPS, { namespace, name }, call);
        there.delete(name);
      } else {
        await client.patch(CONFIG_MAPS, { namespace, name }, { type: 'merge', body: { data } }, call);
      }
    }
  };
  // When one lane fails, the others still end before this function returns: there are no writes after that.
  const ends = await Promise.allSettled(Array.from({ length: lanes }, (_, number) => lane(number)));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

/** A reflector with a store of the fixture's objects, and a record of the changes that the store reported. */
export function startMirror(fixture: Fixture, client: KubeClient, options: Partial<ReflectorOptions<ConfigMap>> = {}) {
  const store = createStore<ConfigMap>({ resource: CONFIG_MAPS, selection: selectionOf(fixture) });
  /** By key, the last version reported of each object that was not deleted. */
  const reported = new Map<string, string | undefined>();
  /** Objects that the store reported with an older version after a newer one. Must stay empty. */
  const regressions: string[] = [];
  const highest = new Map<string, number>();
  const ended: { reason: string; next: string }[] = [];
  let lists = 0;
  store.subscribe(({ type, key, object }) => {
    const version = Number(object.metadata.resourceVersion);
    if (type === 'set') reported.set(key, object.metadata.resourceVersion);
    else reported.delete(key);
    if (type === 'set' && version < (highest.get(key) ?? 0)) regressions.push(`${key} ${highest.get(key)} ${version}`);
    if (type === 'set') highest.set(key, version);
  });
  const reflector = startReflector({
    client,
    store,
    metrics: {
      watchEnded: ({ reason, next }) => ended.push({ reason, next }),
      relisted: () => lists++,
    },
    ...options,
  });
  onTestFinished(() => reflector[Symbol.asyncDispose]());
  return {
    store,
    reflector,
    reported,
    regressions,
    /** The reasons for which watches ended, in order. */
    ended,
    get lists() {
      return lists;
    },
  };
}

function stateOf(objects: Iterable<KubeObject>): string[] {
  return [...objects].map((object) => `${keyOf(object)} ${object.metadata.resourceVersion}`).sort();
}

async function serverState(fixture: Fixture): Promise<string[]> {
  const query = { namespace: fixture.namespace, labelSelector: 'app=churn' };
  return stateOf((await fixture.client.list(CONFIG_MAPS, query)).items);
}

/** Waits until the store has the server's objects in the same versions. Call it after the last write. */
export async function untilEqual(fixture: Fixture, store: Store<ConfigMap>): Promise<string[]> {
  const want = await serverState(fixture);
  const equal = () => stateOf(store.list()).join() === want.join();
  await until('the store to equal the server', equal).catch((error: Error) => {
    const have = new Set(stateOf(store.list()));
    const missing = want.filter((line) => !have.has(line));
    const stale = [...have].filter((line) => !want.includes(line));
    throw new Error(`${error.message}; missing: ${missing.slice(0, 5)}; stale: ${stale.slice(0, 5)}`);
  });
  return want;
}
