import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { connect, credsAuthenticator, type NatsConnection } from 'nats';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findTools } from '../hack/binaries.ts';
import { busServerImage } from '../hack/bus-image.ts';
import { type Cluster, startCluster } from '../hack/cluster/cluster.ts';
import { controllerImage } from '../hack/cluster/release.ts';
import { saveImage } from '../hack/image.ts';
import { KubeError } from '../hack/kube.ts';
import { ROOT } from '../hack/paths.ts';
import { API_VERSION } from '../src/api/names.ts';
import type { BusHub } from '../src/api/v3/bus-hub.ts';
import { BASE } from '../src/rest/contract/base.ts';
import { accountSecretName } from '../src/subjects/bus-accounts/rules/secret.ts';
import { HUB_NAMES, memberName } from '../src/subjects/bus-servers/rules/hub.ts';
import { TOKENS_CONDITION } from '../src/subjects/bus-servers/rules/hub-objects.ts';
import { withoutTls } from '../testing/bus.ts';
import { type Access, adminAccess } from './_access.ts';
import { greetedBy, reached, startPeer } from './_reach.ts';
import { until } from './_stack.ts';

/**
 * The hub of the message bus as pods: the chart makes it on a cluster of two nodes with a name service, and `make nightly` has its
 * NetworkPolicy enforced by Calico. The tests build on each other.
 */
const NAMESPACE = 'skerry';
const BUS_IMAGE = 'skerry.local/bus:1';
const MEMBERS = 3;
const UID = 10_000;
const LONG = 600_000;
const PATIENT = { timeoutMs: 180_000, intervalMs: 250 };
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;

const started = new AsyncDisposableStack();
let dir: string;
let cluster: Cluster;
let access: Access;
/** of a user of the application `shop` */
let creds: string;
/** where clients outside of the cluster reach the Service of the hub */
let hubUrl: string;
let restUrl: string;

interface Pod {
  metadata: { name: string; uid: string; deletionTimestamp?: string };
  spec: { nodeName: string; containers: { image: string }[] };
  status: {
    podIP: string;
    conditions?: { type: string; status: string; message?: string }[];
    containerStatuses?: { restartCount: number; containerID: string }[];
  };
}

const names = Array.from({ length: MEMBERS }, (_, index) => memberName(index));
const dataOf = (name: string) => join(dir, 'volumes', name);
const kubectl = (...args: string[]) => cluster.kubectl('--namespace', NAMESPACE, ...args);
const podOf = (name: string) => cluster.kube.get<Pod>(`/api/v1/namespaces/${NAMESPACE}/pods/${name}`);
const isTrue = (pod: Pod | undefined, type: string) =>
  pod?.status.conditions?.some((one) => one.type === type && one.status === 'True') === true;
const hub = () => cluster.kube.get<BusHub>(`/apis/${API_VERSION}/namespaces/${NAMESPACE}/bushubs/bus-hub`);
const portOf = async (service: string, name: string) => {
  const found = await cluster.kube.get<{ spec: { ports: { name: string; nodePort: number }[] } }>(
    `/api/v1/namespaces/${NAMESPACE}/services/${service}`,
  );
  return found?.spec.ports.find((port) => port.name === name)?.nodePort;
};
/** Names of the members to which the Service leads. */
async function inService(): Promise<string[]> {
  const query = `labelSelector=kubernetes.io/service-name%3D${HUB_NAMES.service}`;
  const { items } = await cluster.kube.request<{
    items: { endpoints?: { conditions?: { ready?: boolean }; targetRef?: { name: string } }[] }[];
  }>('GET', `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices?${query}`);
  return items
    .flatMap(({ endpoints }) => endpoints ?? [])
    .flatMap(({ conditions, targetRef }) => (conditions?.ready && targetRef ? [targetRef.name] : []))
    .sort();
}
const untilAllReady = () =>
  until(
    'every member of the hub to be ready',
    async () => {
      const pods = await Promise.all(names.map(podOf));
      const [found, services] = [await hub(), await inService()];
      return (
        pods.every((pod) => pod && !pod.metadata.deletionTimestamp && isTrue(pod, 'Ready')) &&
        services.length === MEMBERS &&
        found?.status?.current === MEMBERS &&
        found.status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') &&
        (pods as Pod[])
      );
    },
    PATIENT,
  ).catch(explain);

/** Changes the spec of the hub. */
const change = (spec: object) =>
  cluster.kube.request(
    'PATCH',
    `/apis/${API_VERSION}/namespaces/${NAMESPACE}/bushubs/bus-hub`,
    { spec },
    'application/merge-patch+json',
  );
/** Waits until every member is another pod, and ready; `look` is called meanwhile. */
const untilReplaced = (before: readonly Pod[], look: () => Promise<void> = async () => {}) =>
  until(
    'every member to be another pod',
    async () => {
      const pods = await Promise.all(names.map(podOf));
      await look();
      return pods.every((pod, i) => pod && pod.metadata.uid !== before[i]?.metadata.uid && isTrue(pod, 'Ready'));
    },
    { ...PATIENT, timeoutMs: LONG },
  ).catch(explain);

/** What the cluster says of the members, for an error. */
async function explain(error: Error): Promise<never> {
  const parts = await Promise.all(
    [
      kubectl('get', 'pods,pvc,pv,bushub', '--output', 'wide'),
      kubectl('get', 'bushub', '--output', 'yaml'),
      kubectl('get', 'events'),
      ...names.map((name) => kubectl('logs', name, '--tail', '40')),
      kubectl('logs', 'deployment/skerry-controller', '--tail', '40'),
    ].map((part) => part.catch(String)),
  );
  throw new Error([error.message, ...parts].join('\n'));
}

async function rest<T>(method: string, path: string, body?: object): Promise<T> {
  const headers = { authorization: `Bearer ${access.token}`, 'content-type': 'application/json' };
  const answer = await fetch(`${restUrl}${BASE}${path}`, {
    method,
    headers,
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.status === 204 ? (undefined as T) : ((await answer.json()) as T);
}

async function newCreds(name: string): Promise<string> {
  await rest('POST', '/bus/accounts/shop/users', { name });
  const { credsBase64 } = await until('credentials', () =>
    rest<{ credsBase64: string }>('GET', `/bus/accounts/shop/users/${name}/creds`).catch(() => undefined),
  );
  return Buffer.from(credsBase64, 'base64').toString();
}

async function client(text = creds, servers = hubUrl, more: object = {}): Promise<NatsConnection> {
  const authenticator = credsAuthenticator(new TextEncoder().encode(text));
  const connection = await connect({ servers, authenticator, ignoreClusterUpdates: true, timeout: 5_000, ...more });
  started.defer(() => connection.close().catch(() => {}));
  return connection;
}

/** What a server says to a user who connects: `in`, or its refusal. */
const answerTo = (text: string, servers = hubUrl, more: object = {}): Promise<string> =>
  client(text, servers, { reconnect: false, ...more }).then(async (one) => {
    await one.close();
    return 'in';
  }, String);

/** A way to one member, past the Service. */
async function forwarded(name: string): Promise<{ url: string; process: ChildProcess }> {
  const { kubectl: program } = await findTools(['kubectl']);
  const args = ['--namespace', NAMESPACE, 'port-forward', `pod/${name}`, ':4222'];
  const process_ = spawn(program, args, { env: { ...process.env, KUBECONFIG: cluster.kubeconfig } });
  started.defer(() => void process_.kill());
  let said = '';
  process_.stdout.on('data', (piece) => {
    said += piece;
  });
  const port = await until('the way to a member', async () => /127\.0\.0\.1:(\d+) ->/.exec(said)?.[1]);
  return { url: `nats://127.0.0.1:${port}`, process: process_ };
}

/** An image with Node, which the nodes of the cluster have. */
async function imageOfController(): Promise<string> {
  const query = 'labelSelector=app.kubernetes.io/component%3Dcontroller';
  const { items } = await cluster.kube.request<{ items: Pod[] }>(
    'GET',
    `/api/v1/namespaces/${NAMESPACE}/pods?${query}`,
  );
  return items[0]?.spec.containers[0]?.image ?? '';
}
/** Certificates of an authority, PEM. */
async function caOf(secret: string): Promise<string> {
  const text = await kubectl('get', 'secret', secret, '--output', 'jsonpath={.data.ca\\.crt}');
  return Buffer.from(text, 'base64').toString();
}

const replicas = (count: number) => kubectl('scale', 'deployment/skerry-controller', '--replicas', String(count));
const nodeOf = ({ spec }: Pod) => cluster.nodes.find(({ name }) => name === spec.nodeName);
const containerOf = ({ status }: Pod) => status.containerStatuses?.[0];

beforeAll(async () => {
  if (!isNightly) return;
  dir = await mkdtemp(join(process.env.TMPDIR ?? '/tmp', 'skerry-hub-'));
  started.defer(() => rm(dir, { recursive: true, force: true }));
  const log = (text: string) => void process.stderr.write(`${text}\n`);
  const policies = process.env.SKERRY_NO_POLICIES === undefined;
  cluster = started.use(await startCluster({ dir, nodes: 2, names: true, policies, log }));
  await cluster.load(await controllerImage());
  await cluster.load(saveImage(await busServerImage(), BUS_IMAGE));
  await cluster.kubectl('create', 'namespace', NAMESPACE);
  for (const name of names) {
    mkdirSync(dataOf(name), { recursive: true });
    chownSync(dataOf(name), UID, UID);
    await cluster.kube.apply({
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: `skerry-${name}` },
      spec: {
        capacity: { storage: '20Gi' },
        accessModes: ['ReadWriteOnce'],
        persistentVolumeReclaimPolicy: 'Retain',
        hostPath: { path: dataOf(name) },
        claimRef: { namespace: NAMESPACE, name: `data-${name}` },
      },
    } as never);
  }
  await cluster.helm(
    ...['install', 'skerry', join(ROOT, 'charts/skerry'), '--namespace', NAMESPACE, '--wait', '--timeout', '5m'],
    ...['--set', 'service.type=NodePort,bus.enabled=true,bus.hub.serviceType=NodePort'],
    ...['--set', `bus.hub.image=${BUS_IMAGE}`],
  );
  access = await adminAccess(cluster.kube, NAMESPACE);
  const service = await cluster.kube.get<{ spec: { ports: { nodePort: number }[] } }>(
    `/api/v1/namespaces/${NAMESPACE}/services/skerry`,
  );
  restUrl = `http://${cluster.nodes[0]?.address}:${service?.spec.ports[0]?.nodePort}`;
}, 1_800_000);
afterAll(() => started.disposeAsync(), 120_000);

describe.runIf(isNightly)('the hub of the message bus as pods', () => {
  test(
    'has three members on both nodes, which take clients once they have every token',
    async () => {
      const pods = await untilAllReady();
      for (const pod of pods) expect(isTrue(pod, TOKENS_CONDITION)).toBe(true);
      expect(new Set(pods.map(({ spec }) => spec.nodeName)).size).toBe(2);
      expect((await hub())?.status).toMatchObject({ members: MEMBERS, current: MEMBERS });
    },
    LONG,
  );

  test(
    'carries a message from any member to any other',
    async () => {
      await access.apply({
        ...{ apiVersion: API_VERSION, kind: 'Application', metadata: { name: 'shop' } },
        spec: { busConfig: { busAccess: true }, microservices: [] },
      } as never);
      await until('the account', () => rest('GET', '/bus/accounts/shop').catch(() => undefined));
      creds = await newCreds('till');
      hubUrl = `nats://${cluster.nodes[0]?.address}:${await portOf(HUB_NAMES.service, 'client')}`;
      const clients = await until('a client of each member', async () => {
        const some = await Promise.all(Array.from({ length: 12 }, () => client()));
        return new Set(some.map(({ info }) => info?.server_name)).size === MEMBERS && some;
      });
      let received = 0;
      for (const one of clients) {
        one.subscribe('sale', { callback: () => void received++ });
        await one.flush();
      }
      await expect
        .poll(
          async () => {
            received = 0;
            for (const one of clients) one.publish('sale', '1');
            await Promise.all(clients.map((one) => one.flush()));
            await new Promise((resolve) => setTimeout(resolve, 300));
            return received;
          },
          { timeout: 30_000 },
        )
        .toBe(clients.length ** 2);
      for (const one of clients) await one.close();
    },
    LONG,
  );

  test(
    'keeps a stream of three copies while a member is killed',
    async () => {
      const one = await client();
      const manager = await one.jetstreamManager();
      await manager.streams.add({ name: 'sales', subjects: ['sales.>'], num_replicas: MEMBERS });
      const stream = one.jetstream();
      await stream.publish('sales.first', 'a');
      const pod = (await podOf(memberName(0))) as Pod;
      const { restartCount = 0, containerID = '' } = containerOf(pod) ?? {};
      await nodeOf(pod)?.signal(containerID, 'SIGKILL');
      await expect
        .poll(() => stream.publish('sales.second', 'b').then(() => 'stored', String), { timeout: 60_000 })
        .toBe('stored');
      await until(
        'the member to be started again',
        async () => (containerOf((await podOf(memberName(0))) as Pod)?.restartCount ?? 0) > restartCount,
        PATIENT,
      );
      await untilAllReady();
      expect((await manager.streams.info('sales')).state.messages).toBeGreaterThanOrEqual(2);
      await one.close();
    },
    LONG,
  );

  test(
    'keeps a member without its disk out of service until a replica has pushed the tokens',
    async () => {
      const late = await newCreds('late');
      await expect.poll(() => answerTo(late), { timeout: 30_000 }).toBe('in');
      await rest('DELETE', '/bus/accounts/shop/users/late');
      await expect.poll(() => answerTo(late), { timeout: 30_000 }).toContain('Authorization');
      await replicas(0);
      await until(
        'no replica to lead',
        async () =>
          (await kubectl('get', 'pods', '--selector', 'app.kubernetes.io/component=controller', '--output', 'name')) ===
          '',
        PATIENT,
      );
      const name = memberName(2);
      const { uid } = ((await podOf(name)) as Pod).metadata;
      for (const entry of readdirSync(dataOf(name)))
        rmSync(join(dataOf(name), entry), { recursive: true, force: true });
      await kubectl('delete', 'pod', name, '--grace-period', '1');
      const fresh = await until(
        'the containers of the new pod to be ready',
        async () => {
          const pod = await podOf(name);
          return pod?.metadata.uid !== uid && isTrue(pod, 'ContainersReady') && pod;
        },
        PATIENT,
      );
      expect(isTrue(fresh, 'Ready')).toBe(false);
      await until(
        'the others alone to be in service',
        async () => (await inService()).join() === [memberName(0), memberName(1)].join(),
        PATIENT,
      );
      await replicas(2);
      await untilAllReady();
      const way = await forwarded(name);
      await expect.poll(() => answerTo(creds, way.url), { timeout: 60_000 }).toBe('in');
      expect(await answerTo(late, way.url)).toContain('Authorization');
      way.process.kill();
      const one = await client();
      const manager = await one.jetstreamManager();
      await expect
        .poll(async () => (await manager.streams.info('sales')).cluster?.replicas?.every(({ current }) => current), {
          timeout: 120_000,
        })
        .toBe(true);
      await one.close();
    },
    LONG,
  );

  test(
    'reads a larger store and another certificate without another process',
    async () => {
      const processes = async () =>
        (await untilAllReady()).map((pod) => `${pod.metadata.uid} ${containerOf(pod)?.containerID}`);
      const before = await processes();
      const says = async (name: string, path: string) =>
        JSON.parse(await kubectl('exec', name, '--', 'wget', '-q', '-O', '-', `http://127.0.0.1:8222/${path}`));
      await change({ jsStorageSize: '11g' });
      await kubectl('delete', 'secret', 'bus-hub-site');
      for (const name of names)
        await expect
          .poll(async () => (await says(name, 'jsz')).config?.max_storage, { timeout: 180_000, interval: 1_000 })
          .toBe(11 * 2 ** 30);
      expect(await processes()).toEqual(before);
    },
    LONG,
  );

  test(
    'loses one member at a time to evictions',
    async () => {
      const evict = (name: string) =>
        cluster.kube.request('POST', `/api/v1/namespaces/${NAMESPACE}/pods/${name}/eviction`, {
          ...{ apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace: NAMESPACE } },
        });
      await evict(memberName(0));
      const refused = await evict(memberName(1)).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(KubeError);
      expect(refused).toMatchObject({ status: 429 });
      await untilAllReady();
    },
    LONG,
  );

  test(
    'replaces its members one after the other for another port, and takes messages meanwhile',
    async () => {
      const before = await untilAllReady();
      const one = await client(creds, hubUrl, { reconnect: true, maxReconnectAttempts: -1, reconnectTimeWait: 200 });
      const stream = one.jetstream({ timeout: 2_000 });
      let fewest = MEMBERS;
      let [stored, longestGap, last] = [0, 0, performance.now()];
      let isRolling = true;
      const writing = (async () => {
        while (isRolling) {
          const isStored = await stream.publish('sales.roll', 'x').then(
            () => true,
            () => false,
          );
          if (!isStored) continue;
          stored++;
          longestGap = Math.max(longestGap, performance.now() - last);
          last = performance.now();
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
      })();
      await change({ leafPort: 7423 });
      await untilReplaced(before, async () => {
        fewest = Math.min(fewest, (await inService()).length);
      });
      isRolling = false;
      await writing;
      await untilAllReady();
      expect(fewest).toBe(MEMBERS - 1);
      expect(stored).toBeGreaterThan(20);
      expect(longestGap).toBeLessThan(30_000);
      await one.close();
    },
    LONG,
  );

  test.skipIf(process.env.SKERRY_NO_POLICIES)(
    'lets strangers reach the ports of clients, bus servers and devices alone',
    async () => {
      const [pod] = (await untilAllReady()) as [Pod];
      const peer = { namespace: 'elsewhere', name: 'stranger' };
      await startPeer(cluster, await imageOfController(), peer);
      const ports = {
        client: 4222,
        leaf: (await hub())?.spec.leafPort ?? 7422,
        mqtt: 8883,
        cluster: 6222,
        monitor: 8222,
      };
      await expect
        .poll(() => reached(cluster, peer, pod.status.podIP, ports), { timeout: 180_000, interval: 1_000 })
        .toEqual(['client', 'leaf', 'mqtt']);
    },
    LONG,
  );

  test(
    'replaces its members for other keys of the account of the servers when its Secret is lost, and keeps clients and streams',
    async () => {
      const before = await untilAllReady();
      const path = `/apis/${API_VERSION}/namespaces/${NAMESPACE}/busaccounts`;
      interface Account {
        spec: { name?: string };
        status?: { uuid: string; publicKey: string };
      }
      const system = async () => {
        const { items } = await cluster.kube.request<{ items: Account[] }>('GET', path);
        return items.find(({ spec }) => spec.name === 'SYS')?.status;
      };
      const lost = await system();
      await kubectl('delete', 'secret', accountSecretName(lost?.uuid ?? ''));
      await untilReplaced(before);
      await untilAllReady();
      expect((await system())?.publicKey).toBe(lost?.publicKey);
      const late = await newCreds('later');
      for (const text of [creds, late]) await expect.poll(() => answerTo(text), { timeout: 30_000 }).toBe('in');
      await rest('DELETE', '/bus/accounts/shop/users/later');
      for (const name of names) {
        const way = await forwarded(name);
        await expect.poll(() => answerTo(late, way.url), { timeout: 30_000 }).toContain('Authorization');
        expect(await answerTo(creds, way.url)).toBe('in');
        way.process.kill();
      }
      const one = await client();
      const { state } = await (await one.jetstreamManager()).streams.info('sales');
      expect(state.messages).toBeGreaterThanOrEqual(2);
      await one.close();
    },
    LONG,
  );

  test(
    'leaves its members as they are when the key of their streams is lost, and takes it from a member',
    async () => {
      const before = await untilAllReady();
      const reason = async () => (await hub())?.status?.conditions?.find(({ type }) => type === 'Ready')?.reason;
      await kubectl('delete', 'secret', HUB_NAMES.config);
      await expect.poll(reason, { timeout: 60_000 }).toBe('BusHubKeyLost');
      const print = 's/^  key: "\\(.*\\)"/\\1/p';
      const key = (await kubectl('exec', 'bus-0', '--', 'sed', '-n', print, '/etc/nats/config/server.conf')).trim();
      await kubectl('create', 'secret', 'generic', HUB_NAMES.config, `--from-literal=store-key=${key}`);
      await kubectl('label', 'secret', HUB_NAMES.config, 'skerry.dev/bus=server');
      const after = await untilAllReady();
      expect(after.map(({ metadata }) => metadata.uid)).toEqual(before.map(({ metadata }) => metadata.uid));
      const one = await client();
      const { state } = await (await one.jetstreamManager()).streams.info('sales');
      expect(state.messages).toBeGreaterThanOrEqual(2);
      await one.close();
    },
    LONG,
  );

  test(
    'lets clients in by TLS alone once it is asked to, with certificates that clients verify by the address that they know',
    async () => {
      const before = await untilAllReady();
      await change({ clientTls: true });
      await untilReplaced(before);
      // The leading replica itself connects to each member by the name of its pod.
      await untilAllReady();
      const ca = await caOf('skerry-ca-default-bus-local-ca');
      const other = await caOf('skerry-ca-bus-site-ca');
      for (const name of names) {
        const way = await forwarded(name);
        const byTls = (of: string) => answerTo(creds, way.url.replace('nats:', 'tls:'), { tls: { ca: of } });
        expect(await byTls(ca)).toBe('in');
        expect(await byTls(other)).toMatch(/certificate/);
        expect(await withoutTls(Number(new URL(way.url).port))).toBe('is ended');
        way.process.kill();
      }
      const peer = { namespace: 'elsewhere', name: 'stranger' };
      await startPeer(cluster, await imageOfController(), peer);
      const host = `${HUB_NAMES.service}.${NAMESPACE}.svc`;
      const says = (of: string, servername: string) =>
        greetedBy(cluster, peer, { host, port: 4222, servername, ca: of });
      expect(await says(ca, host)).toBe('secure');
      expect(await says(other, host)).toMatch(/certificate/);
      expect(await says(ca, 'elsewhere.example')).toMatch(/altnames/);
    },
    LONG,
  );
});
