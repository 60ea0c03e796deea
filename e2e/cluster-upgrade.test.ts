import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Cluster, startCluster } from '../hack/cluster/cluster.ts';
import { controllerImage } from '../hack/cluster/release.ts';
import { unpackLastRelease } from '../hack/last-release.ts';
import { ROOT } from '../hack/paths.ts';
import packageJson from '../package.json' with { type: 'json' };
import { adminAccess } from './_access.ts';
import { type SimulatedNode, startSimulatedNodes } from './_simulated-nodes.ts';
import { until } from './_stack.ts';
import { startUsers, type Users } from './_users.ts';

/**
 * `helm upgrade` and `helm rollback` on a cluster with pods, from the last release to this version and back, under load. Part of
 * `make nightly`; e2e/upgrade.test.ts does the same with processes, by day.
 */
const NAMESPACE = 'skerry';
const CHART = join(ROOT, 'charts/skerry');
/** The last release has a lower version here, so that its CRDs are older, too. */
const FORMER = '0.0.9';
const SIMULATED = Number(process.env.SKERRY_NODES ?? 200);
const LONG = 600_000;
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;

const started = new AsyncDisposableStack();
const stop = new AbortController();
let cluster: Cluster;
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
  const access = await adminAccess(cluster.kube, NAMESPACE);
  started.defer(() => stop.abort());
  simulated = await startSimulatedNodes(access, { count: SIMULATED, url, home: dir, signal: stop.signal });
  users = startUsers({ ...access, url, nodes: simulated, count: 4 });
  started.defer(() => users.stop());
}, LONG);
afterAll(() => started.disposeAsync(), 120_000);

const helm = (verb: 'install' | 'upgrade', version: string) =>
  cluster.helm(
    ...[verb, 'skerry', CHART, '--namespace', NAMESPACE, '--wait', '--timeout', '5m'],
    ...['--set', `image.tag=${version}`, '--set', 'service.type=NodePort'],
  );

const leader = async () => {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/skerry-controller`;
  return (await cluster.kube.get<{ spec?: { holderIdentity?: string } }>(path))?.spec?.holderIdentity;
};

interface Replica {
  metadata: { name: string };
  spec: { containers: { image: string }[] };
  status: { containerStatuses?: { restartCount: number }[] };
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

/** The longest time without a leader until the signal fires, ms. */
async function longestWithoutLeader(signal: AbortSignal): Promise<number> {
  let longest = 0;
  let since: number | undefined;
  while (!signal.aborted) {
    if (await leader()) since = undefined;
    else since ??= performance.now();
    if (since !== undefined) longest = Math.max(longest, performance.now() - since);
    await sleep(50);
  }
  return longest;
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
  await until('every agent to be connected', async () =>
    simulated.every(({ agent }) => agent.connection.state === 'OK'),
  );
  expect(simulated.filter((node) => node.starts() !== 1)).toEqual([]);
  for (const { metadata, status } of await replicas()) {
    process.stderr.write(`${metadata.name}: ${await peakOf(metadata.name)} MiB at most\n`);
    expect(status.containerStatuses?.map(({ restartCount }) => restartCount)).toEqual([0]);
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
  'no write that was answered during helm upgrade and rollback is lost',
  () => users.finish(),
  LONG,
);
