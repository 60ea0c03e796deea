import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Cluster, startCluster } from '../hack/cluster/cluster.ts';
import { controllerImage } from '../hack/cluster/release.ts';
import { LAST_CHART, unpackLastRelease } from '../hack/last-release.ts';
import { ROOT } from '../hack/paths.ts';
import packageJson from '../package.json' with { type: 'json' };
import { API_VERSION } from '../src/api/names.ts';
import { KINDS } from '../src/subjects/kinds.ts';
import { manifest } from '../testing/manifest.ts';
import { type Access, adminAccess } from './_access.ts';
import { type SimulatedNode, startSimulatedNodes } from './_simulated-nodes.ts';
import { until } from './_stack.ts';
import { startUsers, type Users } from './_users.ts';

/**
 * `helm upgrade` and `helm rollback` on a cluster with pods, from chart and programs of the last release to this version and back,
 * under load, a leader that is killed between them, and at last `helm uninstall` of this version. The tests build on each other. Part of `make nightly`; e2e/upgrade.test.ts does the same with processes, by day.
 */
const NAMESPACE = 'skerry';
const CHART = join(ROOT, 'charts/skerry');
/** The programs of the last release have a lower version here, so that their image has another name. */
const FORMER = '0.0.9';
const SIMULATED = Number(process.env.SKERRY_NODES ?? 200);
const LONG = 600_000;
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;

const started = new AsyncDisposableStack();
const stop = new AbortController();
let cluster: Cluster;
let access: Access;
let simulated: SimulatedNode[];
let users: Users;

beforeAll(async () => {
  if (!isNightly) return;
  const dir = await mkdtemp(join(process.env.TMPDIR ?? '/tmp', 'skerry-cluster-'));
  started.defer(() => rm(dir, { recursive: true, force: true }));
  cluster = started.use(await startCluster({ dir, log: (text) => process.stderr.write(`${text}\n`) }));
  unpackLastRelease(join(dir, 'last-release'));
  await cluster.load(await controllerImage({ version: FORMER, bundles: join(dir, 'last-release') }));
  await cluster.load(await controllerImage());
  await cluster.kubectl('create', 'namespace', NAMESPACE);
  await helm('install', FORMER);
  const service = await cluster.kube.get<{ spec: { ports: { nodePort: number }[] } }>(
    `/api/v1/namespaces/${NAMESPACE}/services/skerry`,
  );
  const url = `http://${cluster.nodes[0]?.address}:${service?.spec.ports[0]?.nodePort}`;
  access = await adminAccess(cluster.kube, NAMESPACE);
  started.defer(() => stop.abort());
  simulated = await startSimulatedNodes(access, { count: SIMULATED, url, home: dir, signal: stop.signal });
  users = startUsers({ ...access, url, nodes: simulated, count: 4 });
  started.defer(() => users.stop());
}, LONG);
afterAll(() => started.disposeAsync(), 120_000);

const helm = (verb: 'install' | 'upgrade', version: string) =>
  cluster.helm(
    ...[verb, 'skerry', version === FORMER ? LAST_CHART : CHART, '--namespace', NAMESPACE, '--wait', '--timeout', '5m'],
    ...['--set', `image.tag=${version}`, '--set', 'service.type=NodePort'],
  );

const lease = async () => {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/skerry-controller`;
  return (await cluster.kube.get<{ spec?: { holderIdentity?: string; renewTime?: string } }>(path))?.spec;
};
const leader = async () => (await lease())?.holderIdentity;

interface Replica {
  metadata: { name: string };
  spec: { containers: { image: string }[] };
  status: { containerStatuses?: { restartCount: number; ready: boolean; containerID: string }[] };
}
const replicas = async () => {
  const query = 'labelSelector=app.kubernetes.io/component=controller';
  return (await cluster.kube.get<{ items: Replica[] }>(`/api/v1/namespaces/${NAMESPACE}/pods?${query}`))?.items ?? [];
};

/** The most memory that the container of a pod had so far, MiB; by the file of either version of control groups. */
async function peakOf(pod: string): Promise<number> {
  const read = `const { existsSync, readFileSync } = require('fs'); const file = ['/sys/fs/cgroup/memory.peak', '/sys/fs/cgroup/memory/memory.max_usage_in_bytes'].find(existsSync); console.log(readFileSync(file, 'utf8'))`;
  const text = await cluster.kubectl('-n', NAMESPACE, 'exec', pod, '--', '/usr/bin/node', '-e', read);
  return Math.round(Number(text) / 2 ** 20);
}

/** The longest time without a leader until the signal fires, ms. A leader that has ended and is still named is none. */
async function longestWithoutLeader(signal: AbortSignal): Promise<number> {
  let longest = 0;
  let since: number | undefined;
  for (; !signal.aborted; await sleep(50)) {
    // Says nothing about the leader where it fails.
    const seen = await Promise.all([leader(), replicas()]).catch(() => undefined);
    if (!seen) continue;
    const [holder, pods] = seen;
    if (pods.some(({ metadata }) => metadata.name === holder)) since = undefined;
    else since ??= performance.now();
    if (since !== undefined) longest = Math.max(longest, performance.now() - since);
  }
  return longest;
}

const restartsOf = ({ status }: Replica) => status.containerStatuses?.map(({ restartCount }) => restartCount);

async function expectAgentsUntouched(): Promise<void> {
  const isConnected = ({ agent }: SimulatedNode) => agent.connection.state === 'OK';
  await until('every agent to be connected', async () => simulated.every(isConnected), { timeoutMs: 120_000 });
  expect(simulated.filter((node) => node.starts() !== 1)).toEqual([]);
}

/** Replaces the pods while all work, and judges what agents and the Lease noticed of it. */
async function under(change: () => Promise<unknown>, version: string): Promise<void> {
  const missedBefore = simulated.map(({ missedPolls }) => missedPolls);
  const watching = new AbortController();
  const withoutLeader = longestWithoutLeader(watching.signal);
  await change();
  await until(
    'only pods of the version to be left',
    async () => {
      const pods = await replicas();
      return pods.length === 2 && pods.every(({ spec }) => spec.containers[0]?.image.endsWith(`:${version}`));
    },
    { timeoutMs: 120_000 },
  );
  watching.abort();
  const missed = simulated.map(({ missedPolls }, index) => missedPolls - (missedBefore[index] ?? 0));
  process.stderr.write(
    `${version}: without a leader for ${Math.round(await withoutLeader)} ms; missed polls: ${missed.filter(Boolean).length} agents, at most ${Math.max(...missed)}\n`,
  );
  expect(Math.max(...missed)).toBeLessThanOrEqual(1);
  // A Lease that is not given up would be taken after 15 s.
  expect(await withoutLeader).toBeLessThan(7_000);
  await expectAgentsUntouched();
  for (const replica of await replicas()) {
    process.stderr.write(`${replica.metadata.name}: ${await peakOf(replica.metadata.name)} MiB at most\n`);
    expect(restartsOf(replica)).toEqual([0]);
  }
}

test.runIf(isNightly)(
  'helm upgrade under load restarts nothing, and each agent misses at most one poll',
  async () => {
    await under(() => helm('upgrade', packageJson.version), packageJson.version);
    expect(await cluster.kubectl('-n', NAMESPACE, 'logs', 'job/skerry-crds')).toMatch(/: updated|: unchanged/);
  },
  LONG,
);

test.runIf(isNightly)(
  'after SIGKILL of the leader under load another one leads within the time of the Lease, nothing on machines is restarted, and the replica comes back',
  async () => {
    const name = await leader();
    const killed = (await replicas()).find(({ metadata }) => metadata.name === name);
    await cluster.nodes[0]?.signal(killed?.status.containerStatuses?.[0]?.containerID ?? '', 'SIGKILL');
    const [at, began] = [Date.now(), performance.now()];
    // The program that is started again in the pod has its name, and may lead.
    const hasLeader = async () => Date.parse((await lease())?.renewTime ?? '') > at;
    await until('the Lease to be renewed', hasLeader, { timeoutMs: 120_000 });
    const waited = performance.now() - began;
    process.stderr.write(`after SIGKILL: ${name}, then ${await leader()} leads after ${Math.round(waited)} ms\n`);
    // The Lease lasts 15 s; candidates look again up to a second later.
    expect(waited).toBeLessThan(25_000);

    await access.apply(manifest('EdgeNode', { name: 'after-sigkill' }, { archId: 1 }));
    const isCared = async () => (await access.node('after-sigkill'))?.status?.uuid !== undefined;
    await until('the new leader to work', isCared, { timeoutMs: 120_000 });
    await until(
      'both replicas to be ready',
      async () => (await replicas()).filter(({ status }) => status.containerStatuses?.[0]?.ready).length === 2,
      { timeoutMs: 120_000 },
    );
    await expectAgentsUntouched();
    const restarts = (await replicas()).flatMap(restartsOf).sort();
    expect(restarts).toEqual([0, 1]);
  },
  LONG,
);

test.runIf(isNightly)(
  'helm rollback under load restarts nothing, and each agent misses at most one poll',
  async () => {
    await under(
      () => cluster.helm('rollback', 'skerry', '1', '--namespace', NAMESPACE, '--wait', '--timeout', '5m'),
      FORMER,
    );
  },
  LONG,
);

test.runIf(isNightly)(
  'no write that was answered during helm upgrade, SIGKILL of the leader and helm rollback is lost',
  () => users.finish(),
  LONG,
);

/** How many objects of ours there are, and how many of them have a finalizer. */
async function countObjects(): Promise<{ all: number; held: number }> {
  const lists = await Promise.all(
    Object.values(KINDS).map(({ definition: { plural } }) =>
      cluster.kube.get<{ items: { metadata: { finalizers?: string[] } }[] }>(
        `/apis/${API_VERSION}/namespaces/${NAMESPACE}/${plural}`,
      ),
    ),
  );
  const objects = lists.flatMap((list) => list?.items ?? []);
  return { all: objects.length, held: objects.filter(({ metadata }) => metadata.finalizers?.length).length };
}

test.runIf(isNightly)(
  'helm uninstall frees every object from finalizers, ends nothing on machines, and the namespace can be deleted',
  async () => {
    await helm('upgrade', packageJson.version);
    const before = await countObjects();
    expect(before.held).toBeGreaterThanOrEqual(SIMULATED);
    const began = performance.now();
    await cluster.helm('uninstall', 'skerry', '--namespace', NAMESPACE, '--wait', '--timeout', '5m');
    process.stderr.write(`helm uninstall: ${before.held} objects in ${Math.round(performance.now() - began)} ms\n`);
    expect(await countObjects()).toEqual({ all: before.all, held: 0 });
    await until('the replicas to be gone', async () => (await replicas()).length === 0, { timeoutMs: 120_000 });
    expect(await countObjects()).toEqual({ all: before.all, held: 0 });
    expect(simulated.filter((node) => node.running() !== 1 || node.starts() !== 1)).toEqual([]);
    await cluster.kubectl('delete', 'namespace', NAMESPACE, '--timeout=300s');
  },
  LONG,
);
