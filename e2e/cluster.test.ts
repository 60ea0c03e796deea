import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeCertificate } from '../hack/certificate.ts';
import { type Cluster, startCluster } from '../hack/cluster/cluster.ts';
import { agentReleases, controllerImage } from '../hack/cluster/release.ts';
import { KubeError } from '../hack/kube.ts';
import { ROOT } from '../hack/paths.ts';
import { startClock } from '../hack/progress.ts';
import { KINDS } from '../src/kinds/index.ts';
import { until } from './_stack.ts';

/**
 * The chart on a whole cluster of two nodes: the image as a release has it, with the service accounts of its pods, behind a NodePort
 * with TLS. There is no name service, and nothing enforces NetworkPolicies.
 */
const NAMESPACE = 'skerry';
const NODE_PORT = 30_121;
/** Containers start at once here; a slow machine takes longer to see it. */
const PATIENT = { timeoutMs: 180_000 };
let dir: string;
let cluster: Cluster;

interface Pod {
  metadata: { name: string; uid: string; deletionTimestamp?: string };
  spec: { nodeName: string };
  status: {
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
  dir = await mkdtemp(join(tmpdir(), 'skerry-cluster-'));
  const releases = join(dir, 'releases');
  mkdirSync(releases);
  const made = Promise.all([controllerImage(), agentReleases(releases)]);
  cluster = await startCluster({ dir, nodes: 2, log });
  log('The cluster is ready');
  const [image] = await made;
  await cluster.load(image);
  log('The image is loaded');

  const address = cluster.nodes[0]?.address ?? '';
  const certificate = makeCertificate(join(dir, 'tls'), [address]);
  await cluster.kubectl('create', 'namespace', NAMESPACE);
  await kubectl('create', 'secret', 'tls', 'public', '--cert', certificate.cert, '--key', certificate.key);
  const values = {
    publicUrl: `https://${address}:${NODE_PORT}`,
    service: { type: 'NodePort', nodePort: NODE_PORT },
    tls: { secretName: 'public' },
    releasesVolume: { hostPath: { path: releases } },
  };
  writeFileSync(join(dir, 'values.yaml'), JSON.stringify(values));
  // Without CRDs of its own: all of them come from the job.
  const args = ['--namespace', NAMESPACE, '--values', join(dir, 'values.yaml'), '--skip-crds', '--wait'];
  await cluster.helm('install', 'skerry', join(ROOT, 'charts/skerry'), ...args, '--timeout', '5m').catch(explain);
  log('The chart is installed');
}, 900_000);
afterAll(async () => {
  await cluster?.stop();
  if (dir && !process.env.SKERRY_KEEP) await rm(dir, { recursive: true, force: true });
}, 120_000);

/** An installation that fails says only that it took too long. */
async function explain(error: Error): Promise<never> {
  const pods = await kubectl('get', 'pods', '--output', 'wide');
  const events = await kubectl('get', 'events', '--output', 'custom-columns=OF:.regarding.name,WHAT:.note');
  throw new Error(`${error.message}\n${pods}\n${events}`);
}

describe('the chart on a cluster', () => {
  test('its job makes the CRDs and says so', async () => {
    const said = await kubectl('logs', 'job/skerry-crds');
    for (const { definition } of Object.values(KINDS))
      expect(said).toContain(`${definition.plural}.skerry.dev: created`);
  });

  test('helm test finds a replica that answers through the Service', async () => {
    expect(await cluster.helm('test', 'skerry', '--namespace', NAMESPACE)).toMatch(/Phase:\s+Succeeded/);
  }, 180_000);

  test('replicas run on different nodes', async () => {
    const pods = await untilBothReady();
    expect(new Set(pods.map(({ spec }) => spec.nodeName)).size).toBe(2);
  });

  test('a replica is not root, has no capabilities, and can write nowhere', async () => {
    const [pod] = await untilBothReady();
    const program = `const fs = require('node:fs');
      const status = Object.fromEntries(fs.readFileSync('/proc/1/status', 'utf8').split('\\n').map((line) => line.split(/:\\s*/)));
      const write = (path) => { try { fs.writeFileSync(path, ''); return 'written'; } catch (error) { return error.code; } };
      console.log(JSON.stringify({ uid: process.getuid(), capabilities: status.CapBnd, privileges: status.NoNewPrivs,
        seccomp: status.Seccomp, written: ['/x', '/tmp/x', '/opt/skerry/x', '/tls/x', '/releases/x'].map(write), memory: process.constrainedMemory() }));`;
    expect(JSON.parse(await inPod(pod as Pod, program))).toEqual({
      ...{ uid: 65532, capabilities: '0000000000000000', privileges: '1', seccomp: '2' },
      written: ['EROFS', 'EROFS', 'EROFS', 'EROFS', 'EROFS'],
      memory: 2 ** 30,
    });
  });

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

  test('a replica whose process hangs is started again', async () => {
    const [pod] = (await untilBothReady()) as [Pod, Pod];
    const node = cluster.nodes.find(({ name }) => name === pod.spec.nodeName);
    const id = pod.status.containerStatuses?.[0]?.containerID.replace('containerd://', '') ?? '';
    const task = (await node?.run('ctr', '--namespace', 'k8s.io', 'tasks', 'list'))?.stdout.match(
      `${id}\\s+(\\d+)`,
    )?.[1];
    const before = pod.status.containerStatuses?.[0]?.restartCount ?? 0;
    await node?.run('kill', '-STOP', task ?? '');
    await until(
      'the container to be started again',
      async () => {
        const now = (await replicas()).find(({ metadata }) => metadata.name === pod.metadata.name);
        return now && (now.status.containerStatuses?.[0]?.restartCount ?? 0) > before && isReady(now);
      },
      PATIENT,
    );
  }, 240_000);
});
