import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AGENT_VERSION } from '../agent/src/domain/names.ts';
import { makeCertificate } from '../hack/certificate.ts';
import { type Access, accessTo, type Cluster, startCluster } from '../hack/cluster/cluster.ts';
import { createOutside } from '../hack/cluster/outside.ts';
import { controllerImage } from '../hack/cluster/release.ts';
import { debianRoot } from '../hack/debian.ts';
import { saveImage } from '../hack/image.ts';
import { KubeError } from '../hack/kube.ts';
import { Machine } from '../hack/machine.ts';
import { ROOT } from '../hack/paths.ts';
import { type Log, startClock } from '../hack/progress.ts';
import { sampleImage } from '../hack/sample.ts';
import { API_VERSION } from '../src/api/names.ts';
import { BASE } from '../src/rest/contract/base.ts';
import { KINDS } from '../src/subjects/kinds.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { expectImage, expectNoForeignCrds, removeInstallation } from './_given-cluster.ts';
import { type PodName, reached, startPeer } from './_reach.ts';
import { until } from './_stack.ts';
import { installOn } from './machines/_install.ts';
import { makeReleases, type Releases } from './machines/_releases.ts';

/**
 * The chart on a whole cluster of two nodes: the image as a release has it, with the service accounts of its pods, behind a NodePort
 * with TLS. There is no name service. With `make nightly` only, Calico enforces NetworkPolicies, which takes minutes to build, and
 * a machine outside joins, which takes minutes too. `make e2e` runs the rest on a cluster that is given, except for what needs its nodes.
 */
const GIVEN = process.env.SKERRY_CLUSTER;
const NAMESPACE = GIVEN ? (process.env.SKERRY_NAMESPACE ?? '') : 'skerry';
const NODE_PORT = 30_121;
const SAMPLE = 'skerry.local/sample:1';
const CURL_TIMEOUT = 28;
/** Whose pods may scrape. */
const MONITORING = 'monitoring';
const PORTS = { rest: 51_121, metrics: 51_122, internal: 51_123 };
const isNightly = process.env.SKERRY_NIGHTLY !== undefined && !GIVEN;
/** Containers start at once here; a slow machine takes longer to see it. */
const PATIENT = { timeoutMs: 180_000 };
const started = new AsyncDisposableStack();
const dir = temporaryFolder();
let cluster: Access & Partial<Cluster>;
/** of the controller, for machines */
let url: string;

interface Pod {
  metadata: { name: string; uid: string; deletionTimestamp?: string };
  spec: { nodeName: string; containers: { image: string }[] };
  status: {
    podIP: string;
    conditions?: { type: string; status: string }[];
    containerStatuses?: { restartCount: number; ready: boolean; containerID: string }[];
  };
}

const POD_LABELS = 'labelSelector=app.kubernetes.io/component%3Dcontroller';
const replicas = async (): Promise<Pod[]> =>
  (
    await cluster.kube.request<{ items: Pod[] }>('GET', `/api/v1/namespaces/${NAMESPACE}/pods?${POD_LABELS}`)
  ).items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
const isReady = ({ status }: Pod) => status.conditions?.some((one) => one.type === 'Ready' && one.status === 'True');
const untilBothReady = () =>
  until(
    'both replicas to be ready',
    async () => {
      const pods = await replicas();
      return pods.length === 2 && pods.every(isReady) && pods;
    },
    PATIENT,
  );
const kubectl = (...args: string[]) => cluster.kubectl('--namespace', NAMESPACE, ...args);
/** What a program of Node prints in the container of a replica. */
const inPod = (pod: Pod, program: string) =>
  kubectl('exec', pod.metadata.name, '--', '/usr/bin/node', '--eval', program);

beforeAll(async () => {
  const log = startClock((text) => process.stderr.write(text));
  const own = GIVEN ? await useGiven(GIVEN, log) : await startOwn(log);
  log('The cluster has the image');

  const hosts = cluster.nodes?.map(({ address }) => address) ?? [new URL(url).hostname];
  const certificate = makeCertificate(join(dir, 'tls'), [...hosts, `skerry.${NAMESPACE}.svc`]);
  // Machines know the authority by its digest alone, so it comes along.
  const chain = join(dir, 'tls/chain.pem');
  writeFileSync(chain, `${readFileSync(certificate.cert, 'utf8')}${certificate.ca}`);
  await kubectl('create', 'secret', 'tls', 'public', '--cert', chain, '--key', certificate.key);
  const values = { ...own, tls: { secretName: 'public' }, roles: { groups: NAMESPACE } };
  writeFileSync(join(dir, 'values.yaml'), JSON.stringify(values));
  const args = ['--namespace', NAMESPACE, '--values', join(dir, 'values.yaml'), '--wait', '--timeout', '5m'];
  await cluster.helm('install', 'skerry', join(ROOT, 'charts/skerry'), ...args).catch(explain);
  log('The chart is installed');
}, 900_000);
afterAll(() => started.disposeAsync(), 600_000);

/** Starts a cluster with our image; returns the values by which machines reach it. */
async function startOwn(log: Log): Promise<object> {
  const made = Promise.all([controllerImage(), isNightly ? makeReleases(dir, [AGENT_VERSION]) : noReleases()]);
  const mine = started.use(await startCluster({ dir, nodes: 2, policies: isNightly, log }));
  cluster = mine;
  const [image, { folder, key }] = await made;
  await cluster.kubectl('create', 'namespace', NAMESPACE);
  await mine.load(image);
  url = `https://${mine.nodes[0]?.address}:${NODE_PORT}`;
  return {
    publicUrl: url,
    // Nodes are drained below, and each has to answer.
    service: { type: 'NodePort', nodePort: NODE_PORT, externalTrafficPolicy: 'Cluster' },
    releasesVolume: { hostPath: { path: folder } },
    releasesKey: key,
    networkPolicy: {
      metricsFrom: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': MONITORING } } }],
    },
  };
}

function noReleases(): Pick<Releases, 'folder' | 'key'> {
  const folder = join(dir, 'releases');
  mkdirSync(folder);
  return { folder, key: '' };
}

/** A cluster that is given is left as it was found, but for the CRDs. */
async function useGiven(kubeconfig: string, log: Log): Promise<object> {
  cluster = await accessTo(kubeconfig, dir, log);
  const [, repository, tag] = /^(.+):([^:/]+)$/.exec(process.env.SKERRY_IMAGE ?? '') ?? [];
  if (!repository)
    throw new Error(`IMAGE="${process.env.SKERRY_IMAGE ?? ''}": name the image of the controller with its tag`);
  url = 'https://skerry.example:51121';
  const place = { cluster, namespace: NAMESPACE, image: `${repository}:${tag}` };
  started.defer(() => cluster.kube.close());
  await expectNoForeignCrds(cluster);
  started.defer(() => removeInstallation(place));
  await cluster.kubectl('create', 'namespace', NAMESPACE);
  await expectImage(place);
  return { image: { repository, tag } };
}

/** An installation that fails says only that it took too long. */
async function explain(error: Error): Promise<never> {
  const pods = await kubectl('get', 'pods', '--output', 'wide');
  const events = await kubectl('get', 'events');
  throw new Error(`${error.message}\n${pods}\n${events}`);
}

/** What a program that fails writes to its standard error. */
const saidBy = (run: Promise<unknown>) =>
  run.then(
    () => '',
    (error: { stderr?: string }) => error.stderr,
  );

/** An application of one microservice on the machine, of an image that its engine has. */
const application = (greeting: string) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name: 'plant', namespace: NAMESPACE },
  spec: {
    microservices: [
      {
        name: 'web',
        agent: { name: 'gw-1' },
        images: { amd64: SAMPLE, arm64: SAMPLE, registry: 'local' },
        container: { ports: [{ internal: 8080, external: 18_080 }], env: [{ key: 'GREETING', value: greeting }] },
      },
    ],
  },
});

describe('the chart on a cluster', () => {
  test('its job makes the CRDs and says so', async () => {
    const said = await kubectl('logs', 'job/skerry-crds');
    for (const { definition } of Object.values(KINDS))
      expect(said).toMatch(
        new RegExp(
          `^${definition.plural}\\.skerry\\.dev: ${GIVEN ? '(created|updated|unchanged|left .*)' : 'created'}$`,
          'm',
        ),
      );
  });

  test('helm test finds a replica that answers through the Service', async () => {
    expect(await cluster.helm('test', 'skerry', '--namespace', NAMESPACE)).toMatch(/Phase:\s+Succeeded/);
  }, 180_000);

  test.skipIf(GIVEN)('REST answers with the certificate of the Secret at the NodePort of each node', async () => {
    const ca = readFileSync(join(dir, 'tls/ca.pem'));
    const statusAt = (address: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const at = `https://${address}:${NODE_PORT}${BASE}/status`;
        get(at, { ca, timeout: 30_000 }, (response) => {
          response.resume();
          resolve(response.statusCode);
        }).on('error', reject);
      });
    expect(await Promise.all(cluster.nodes?.map(({ address }) => statusAt(address)) ?? [])).toEqual([200, 200]);
  });

  test('replicas run on different nodes where there are several', async () => {
    const pods = await untilBothReady();
    const nodes = await cluster.kubectl('get', 'nodes', '--output', 'name');
    if (nodes.trim().split('\n').length > 1) expect(new Set(pods.map(({ spec }) => spec.nodeName)).size).toBe(2);
  });

  test('a replica is not root, has no capabilities, and can write nowhere', async () => {
    const [pod] = await untilBothReady();
    const places = ['/x', '/tmp/x', '/opt/skerry/x', '/tls/x', ...(GIVEN ? [] : ['/releases/x'])];
    const program = `const fs = require('node:fs');
      const status = Object.fromEntries(fs.readFileSync('/proc/1/status', 'utf8').split('\\n').map((line) => line.split(/:\\s*/)));
      const write = (path) => { try { fs.writeFileSync(path, ''); return 'written'; } catch (error) { return error.code; } };
      console.log(JSON.stringify({ uid: process.getuid(), capabilities: status.CapBnd, privileges: status.NoNewPrivs,
        seccomp: status.Seccomp, written: ${JSON.stringify(places)}.map(write), memory: process.constrainedMemory() }));`;
    expect(JSON.parse(await inPod(pod as Pod, program))).toEqual({
      ...{ uid: 65532, capabilities: '0000000000000000', privileges: '1', seccomp: '2' },
      written: places.map(() => 'EROFS'),
      memory: 2 ** 30,
    });
  });

  test('the plugin reaches a replica without an address, and the controller judges the user', async () => {
    await kubectl('create', 'serviceaccount', 'ann');
    await cluster.kube.apply(application('nobody'));
    const plugin = (...words: string[]) =>
      promisify(execFile)(process.execPath, [join(ROOT, 'bin/kubectl-skerry.cjs'), '-n', NAMESPACE, ...words], {
        env: { ...process.env, KUBECONFIG: cluster.kubeconfig, SKERRY_CONTROLLER: '' },
      });
    const logs = ['logs', 'plant/web', '--service-account', 'ann'];
    try {
      // The name of the application reaches the stores of the replica a moment later.
      await until('the microservice', async () => !/no such session/.test((await saidBy(plugin(...logs))) ?? ''));
      expect(await saidBy(plugin(...logs))).toMatch(
        new RegExp(`^error: .*not permitted: system:serviceaccount:${NAMESPACE}:ann may not `),
      );
      const rights = ['create', 'rolebinding', 'ann', '--role', 'skerry-developer'];
      await kubectl(...rights, '--serviceaccount', `${NAMESPACE}:ann`);
      await expect
        .poll(async () => saidBy(plugin(...logs)), { timeout: 60_000 })
        .toMatch(/microservice web names no node/);
    } finally {
      await kubectl('delete', 'application', 'plant');
    }
  }, 120_000);

  test('an eviction of the second replica is refused until the first is ready elsewhere', async () => {
    const [first, second] = (await untilBothReady()) as [Pod, Pod];
    const evict = ({ metadata: { name } }: Pod) =>
      cluster.kube.request('POST', `/api/v1/namespaces/${NAMESPACE}/pods/${name}/eviction`, {
        apiVersion: 'policy/v1',
        kind: 'Eviction',
        metadata: { name, namespace: NAMESPACE },
      });
    await evict(first);
    const refused = await evict(second).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(KubeError);
    expect(refused).toMatchObject({ status: 429, message: expect.stringContaining('disruption budget') });
    await untilBothReady();
  }, 240_000);

  test.runIf(isNightly && !GIVEN)(
    'a replica whose process hangs is started again',
    async () => {
      const [pod] = (await untilBothReady()) as [Pod, Pod];
      const node = cluster.nodes?.find(({ name }) => name === pod.spec.nodeName);
      const before = pod.status.containerStatuses?.[0]?.restartCount ?? 0;
      await node?.signal(pod.status.containerStatuses?.[0]?.containerID ?? '', 'SIGSTOP');
      await until(
        'the container to be started again',
        async () => {
          const now = (await replicas()).find(({ metadata }) => metadata.name === pod.metadata.name);
          return now && (now.status.containerStatuses?.[0]?.restartCount ?? 0) > before && isReady(now);
        },
        PATIENT,
      );
    },
    240_000,
  );
});

describe.runIf(isNightly)('the NetworkPolicy of the chart', () => {
  const peers: readonly PodName[] = [
    { namespace: 'elsewhere', name: 'stranger' },
    { namespace: NAMESPACE, name: 'neighbour' },
    { namespace: MONITORING, name: 'prometheus' },
  ];

  /** Which ports of both replicas each pod reaches; one of them is on another node. */
  async function reachable(): Promise<Record<string, string[]>> {
    const [first, second] = (await untilBothReady()) as [Pod, Pod];
    const ports = async (from: PodName, ...to: Pod[]) => {
      const each = await Promise.all(to.map(({ status }) => reached(cluster, from, status.podIP, PORTS)));
      return Object.keys(PORTS).flatMap((port) => {
        const count = each.filter((names) => names.includes(port)).length;
        return count === 0 ? [] : [count === to.length ? port : `${port} of one replica`];
      });
    };
    const own = { namespace: NAMESPACE, name: first.metadata.name };
    const rows = await Promise.all([
      ports(own, second).then((names) => ['replica', names]),
      ...peers.map(async (peer) => [peer.name, await ports(peer, first, second)]),
    ]);
    return Object.fromEntries(rows);
  }

  const setPolicy = (create: boolean) =>
    cluster.helm(
      ...['upgrade', 'skerry', join(ROOT, 'charts/skerry'), '--namespace', NAMESPACE, '--reuse-values'],
      ...['--set', `networkPolicy.create=${create}`, '--wait', '--timeout', '5m'],
    );
  const ENFORCED = {
    replica: ['rest', 'internal'],
    stranger: ['rest'],
    neighbour: ['rest'],
    prometheus: ['rest', 'metrics'],
  };
  const LONG = { timeout: 180_000, interval: 1_000 };

  beforeAll(async () => {
    const [pod] = (await untilBothReady()) as [Pod];
    const image = pod.spec.containers[0]?.image ?? '';
    await Promise.all(peers.map((peer) => startPeer(cluster, image, peer)));
  }, 240_000);

  // The kubelets reach the port of metrics: the replicas are ready, after some were replaced.
  test('is in force: metrics are for the namespace of the values, the internal port for replicas, REST for all', async () => {
    await expect.poll(reachable, LONG).toEqual(ENFORCED);
  }, 240_000);

  test('is what refuses: without it every pod reaches every port, and with it again none does', async () => {
    const all = Object.keys(PORTS);
    await setPolicy(false);
    await expect.poll(reachable, LONG).toEqual({ replica: all, stranger: all, neighbour: all, prometheus: all });
    await setPolicy(true);
    await expect.poll(reachable, LONG).toEqual(ENFORCED);
  }, 900_000);
});

// Last: replicas that begin while others end may come to be on one node.
test.runIf(isNightly)(
  'a machine without inbound routes joins with the line that the plugin prints, and receives edits whichever replica is taken away',
  async () => {
    const { network, nodes } = cluster as Cluster;
    using outside = createOutside(network);
    await using machine = await Machine.create({ base: await debianRoot(), within: outside.command });
    await machine.boot();
    machine.write('root/sample.tar', saveImage(await sampleImage(), SAMPLE));
    for (const said of [
      await machine.installEngine('docker'),
      await machine.sh('docker load --input /root/sample.tar'),
    ])
      expect(said, said.out.slice(-2000)).toMatchObject({ code: 0 });
    const place = { kubeconfig: cluster.kubeconfig, namespace: NAMESPACE, address: url };
    await installOn(machine, 'gw-1', { ...place, authority: join(dir, 'tls/ca.pem') });

    const greeting = async () => (await machine.say('curl', '-sS', 'http://127.0.0.1:18080/')).out;
    const edit = async (text: string) => {
      await cluster.kube.apply(application(text));
      await until(`the machine to say "${text}"`, async () => (await greeting()).includes(text), PATIENT);
    };
    await edit('first');
    await kubectl('wait', '--for=condition=Ready', 'applications.skerry.dev/plant', '--timeout=180s');

    // Its router takes no connection, although the node knows the way.
    await nodes[0]?.run('ip', 'route', 'add', outside.address, 'via', outside.router);
    const inbound = nodes[0]?.run('curl', '--silent', '--max-time', '2', `http://${outside.address}:18080/`);
    await expect(inbound).rejects.toMatchObject({ code: CURL_TIMEOUT });

    for (const { metadata } of await untilBothReady()) {
      await kubectl('delete', 'pod', metadata.name, '--wait=false');
      await edit(`without ${metadata.name}`);
      await untilBothReady();
    }
  },
  900_000,
);
