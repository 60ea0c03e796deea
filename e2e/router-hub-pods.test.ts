import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { listens } from '../agent/src/_listens.ts';
import { type Cluster, startCluster } from '../hack/cluster/cluster.ts';
import { controllerImage } from '../hack/cluster/release.ts';
import { loadImage } from '../hack/engine-api.ts';
import { saveImage } from '../hack/image.ts';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { startDaemon } from '../hack/process.ts';
import { routerImage } from '../hack/router-image.ts';
import { API_VERSION } from '../src/api/names.ts';
import type { RouterHub, Service } from '../src/api/v3/index.ts';
import { BASE } from '../src/rest/contract/base.ts';
import { ROUTER_HUB_NAMES } from '../src/subjects/routers/rules/hub-objects.ts';
import { formatJoinString } from '../src/wire/node-token.ts';
import { said, tcpClient } from '../testing/router.ts';
import { type Access, adminAccess } from './_access.ts';
import { reached, startPeer } from './_reach.ts';
import { ECHO_PORT, peerImage } from './_services.ts';
import { until } from './_stack.ts';

/**
 * The default router as a pod: the chart makes it on a cluster with kube-proxy and a name service, and Calico enforces its NetworkPolicy. A machine
 * outside has an edge router and a server in a container. `make nightly` runs it. The tests build on each other.
 */
const NAMESPACE = 'skerry';
const NODE = 'edge-1';
const IMAGES = { router: 'skerry.local/router:1', peer: 'skerry.local/peer:1' };
const LONG = 300_000;
const PATIENT = { timeoutMs: 180_000, intervalMs: 250 };
const CLIENT = { namespace: 'elsewhere', name: 'client' };
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;

const run = promisify(execFile);
const started = new AsyncDisposableStack();
let cluster: Cluster;
let access: Access;
let restUrl: string;
/** of the node of the cluster */
let address: string;

interface Pod {
  metadata: { name: string; uid: string };
  spec: { containers: { image: string }[] };
  status: { podIP: string; conditions?: { type: string; status: string }[] };
}

interface ClusterService {
  spec: { type: string; clusterIP: string; ports: { name?: string; port: number; nodePort?: number }[] };
}

const kubectl = (...args: string[]) => cluster.kubectl('--namespace', NAMESPACE, ...args);
const ours = (plural: string, name: string) => `/apis/${API_VERSION}/namespaces/${NAMESPACE}/${plural}/${name}`;
const hub = () => cluster.kube.get<RouterHub>(ours('routerhubs', 'default-router'));
const serviceOf = (name: string) =>
  cluster.kube.get<ClusterService>(`/api/v1/namespaces/${NAMESPACE}/services/${name}`);
const podsOf = async (component: string) =>
  (
    await cluster.kube.request<{ items: Pod[] }>(
      'GET',
      `/api/v1/namespaces/${NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%3D${component}`,
    )
  ).items;
const isReady = ({ status }: Pod) => status.conditions?.some((one) => one.type === 'Ready' && one.status === 'True');
const patch = (path: string, body: object) => cluster.kube.request('PATCH', path, body, 'application/merge-patch+json');

/** What the cluster says, for an error. */
async function explain(error: Error): Promise<never> {
  const parts = await Promise.all(
    [
      kubectl('get', 'pods,services,routerhub,esvc,edgenode', '--output', 'wide'),
      kubectl('get', 'routerhub,esvc,edgenode', '--output', 'yaml'),
      kubectl('get', 'events'),
      kubectl('logs', 'deployment/router', '--tail', '40'),
      kubectl('logs', 'deployment/skerry-controller', '--tail', '40'),
    ].map((part) => part.catch(String)),
  );
  throw new Error([error.message, ...parts].join('\n'));
}

/** What a client in a pod elsewhere in the cluster receives for a line. */
async function fromPod(host: string, port: number): Promise<string> {
  const program = `const socket = require('node:net').connect({ host: '${host}', port: ${port}, timeout: 3000 });
    const end = (text) => { console.log(text); process.exit(0); };
    socket.on('data', (chunk) => end(String(chunk))).on('error', ({ message }) => end(message)).on('timeout', () => end('no answer'));
    socket.write('hi');`;
  const { namespace, name } = CLIENT;
  const words = ['--namespace', namespace, 'exec', name, '--', '/usr/bin/node', '-e', program];
  return (await cluster.kubectl(...words)).trim();
}

/** What a client outside of the cluster receives at a port of its node. */
async function fromOutside(port: number): Promise<string> {
  try {
    const client = await tcpClient(port, address);
    return await said(client, 'hi').finally(() => client.destroy());
  } catch (error) {
    return String(error);
  }
}

const untilSays = (what: string, ask: () => Promise<string>, answer: string) =>
  until(
    `an answer ${what}`,
    async () => {
      const got = await ask();
      if (got !== answer) throw new Error(got);
      return true;
    },
    PATIENT,
  ).catch(explain);

/** Runs an agent on this machine, which joins as a node. */
async function startMachine(dir: string): Promise<void> {
  const home = join(dir, 'agent');
  mkdirSync(home);
  const config = join(home, 'config.yaml');
  const settings = {
    ...{ containerEngine: 'docker', containerEngineUrl: inject('engineUrl'), statusFrequency: 5 },
    ...{ diskDirectory: join(home, 'data'), logDirectory: join(home, 'log'), localApiPort: await freePort() },
  };
  writeFileSync(config, JSON.stringify(settings));
  const { agent } = inject('programs');
  const daemon = await startDaemon({
    ...{ name: 'agent', dir, command: process.execPath, args: [agent, 'start', '--config', config] },
  });
  started.defer(() => daemon.stop(20_000));
  await until('the agent to answer', () => listens(join(home, 'data', 'run', 'api.sock')));
  const uuid = await until('the node to have an identity', async () => (await access.node(NODE))?.status?.uuid);
  const answer = await fetch(`${restUrl}${BASE}/node/${uuid}/provisioning-key`, {
    headers: { authorization: `Bearer ${access.token}` },
  });
  const { key } = (await answer.json()) as { key: string };
  const join_ = formatJoinString({ controllerUrl: restUrl, key });
  await run(process.execPath, [agent, 'provision', join_, '--config', config]);
}

beforeAll(async () => {
  if (!isNightly) return;
  const dir = await mkdtemp(join(tmpdir(), 'skerry-router-hub-'));
  started.defer(() => rm(dir, { recursive: true, force: true }));
  const log = (text: string) => void process.stderr.write(`${text}\n`);
  const policies = process.env.SKERRY_NO_POLICIES === undefined;
  cluster = started.use(await startCluster({ dir, names: true, policies, log }));
  address = cluster.nodes[0]?.address ?? '';
  const [router, peer] = [await routerImage(), await peerImage()];
  await cluster.load(await controllerImage());
  await cluster.load(saveImage(router, IMAGES.router));
  for (const [image, name] of [
    [router, IMAGES.router],
    [peer, IMAGES.peer],
  ] as const)
    await loadImage(inject('engineUrl'), saveImage(image, name));
  await cluster.kubectl('create', 'namespace', NAMESPACE);
  await cluster.helm(
    ...['install', 'skerry', join(ROOT, 'charts/skerry'), '--namespace', NAMESPACE, '--wait', '--timeout', '5m'],
    ...['--set', 'service.type=NodePort,routers.enabled=true,routers.hub.serviceType=LoadBalancer'],
    ...['--set', `routers.hub.image=${IMAGES.router},systemImages.router.amd64=${IMAGES.router}`],
    ...['--set', 'relay.defaultRouter=true'],
  );
  access = await adminAccess(cluster.kube, NAMESPACE);
  restUrl = `http://${address}:${(await serviceOf('skerry'))?.spec.ports[0]?.nodePort}`;
  const [controller] = await podsOf('controller');
  await startPeer(cluster, controller?.spec.containers[0]?.image ?? '', CLIENT);
}, 1_800_000);
afterAll(() => started.disposeAsync(), 120_000);

describe.runIf(isNightly)('the default router as a pod', () => {
  test(
    'is ready by its probes, and has the address that its load balancer gets late',
    async () => {
      await until('the pod of the default router', async () => (await podsOf('router')).some(isReady), PATIENT).catch(
        explain,
      );
      const service = `/api/v1/namespaces/${NAMESPACE}/services/${ROUTER_HUB_NAMES.service}`;
      await patch(`${service}/status`, { status: { loadBalancer: { ingress: [{ ip: address }] } } });
      await until('the address', async () => (await hub())?.status?.host === address, PATIENT).catch(explain);
      await until(
        'the default router to be current',
        async () =>
          (await hub())?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True'),
        PATIENT,
      ).catch(explain);
    },
    LONG,
  );

  test(
    'leads pods by ClusterIP and name, and others by NodePort, to a server in a container on a machine outside',
    async () => {
      await access.apply({
        ...{ apiVersion: API_VERSION, kind: 'EdgeNode', metadata: { name: NODE } },
        spec: { routerMode: 'edge', messagingPort: await freePort(), watchdogEnabled: false, statusFrequency: 5 },
      });
      const dir = await mkdtemp(join(tmpdir(), 'skerry-machine-'));
      started.defer(() => rm(dir, { recursive: true, force: true }));
      await startMachine(dir);
      const entry = {
        ...{ name: 'echo', agent: { name: NODE }, images: { amd64: IMAGES.peer, arm64: IMAGES.peer } },
        container: {
          env: Object.entries({ NAME: 'echo', ECHO_PORT: `${ECHO_PORT}` }).map(([key, value]) => ({ key, value })),
        },
      };
      await access.apply({
        ...{ apiVersion: API_VERSION, kind: 'Application', metadata: { name: 'plant' } },
        spec: { microservices: [entry] },
      });
      for (const [name, clusterType] of [
        ['inside', 'ClusterIP'],
        ['outside', 'NodePort'],
      ] as const)
        await access.apply({
          ...{ apiVersion: API_VERSION, kind: 'Service', metadata: { name } },
          spec: { type: 'microservice', resource: 'plant/echo', targetPort: ECHO_PORT, servicePort: 8080, clusterType },
        });
      await until(
        'the Services of the cluster',
        async () => (await serviceOf('inside')) && (await serviceOf('outside')),
        PATIENT,
      ).catch(explain);
      const { clusterIP } = (await serviceOf('inside'))?.spec ?? {};
      const [{ nodePort } = {}] = (await serviceOf('outside'))?.spec.ports ?? [];
      await untilSays('by name', () => fromPod(`inside.${NAMESPACE}.svc`, 8080), 'echo: hi');
      await untilSays('by ClusterIP', () => fromPod(clusterIP ?? '', 8080), 'echo: hi');
      await untilSays('by NodePort', () => fromOutside(nodePort ?? 0), 'echo: hi');
      for (const name of ['inside', 'outside']) {
        const conditions = async () =>
          Object.fromEntries(
            ((await cluster.kube.get<Service>(ours('services', name)))?.status?.conditions ?? []).map(
              ({ type, status }) => [type, status],
            ),
          );
        await expect
          .poll(conditions, { timeout: 60_000 })
          .toMatchObject({ Ready: 'True', Connected: 'True', Listening: 'True' });
      }
    },
    LONG * 2,
  );

  test(
    'has every service again after its pod is deleted, and is one pod alone meanwhile',
    async () => {
      const [before] = await podsOf('router');
      let most = 0;
      await kubectl('delete', 'pod', before?.metadata.name ?? '', '--wait=false');
      await until(
        'another pod',
        async () => {
          const pods = await podsOf('router');
          most = Math.max(most, pods.filter(isReady).length);
          return pods.some((pod) => pod.metadata.uid !== before?.metadata.uid && isReady(pod));
        },
        PATIENT,
      ).catch(explain);
      expect(most).toBe(1);
      await untilSays('by name', () => fromPod(`inside.${NAMESPACE}.svc`, 8080), 'echo: hi');
    },
    LONG,
  );

  test.skipIf(process.env.SKERRY_NO_POLICIES)(
    'lets pods reach the ports of routers and of services, and no port of probes',
    async () => {
      const [pod] = (await podsOf('router')).filter(isReady);
      const bridgePort = (await cluster.kube.get<Service>(ours('services', 'inside')))?.status?.bridgePort ?? 0;
      const ports = { clients: 5671, edge: 45671, interior: 55671, service: bridgePort, probes: 9090 };
      await expect
        .poll(() => reached(cluster, CLIENT, pod?.status.podIP ?? '', ports), { timeout: 180_000, interval: 1_000 })
        .toEqual(['clients', 'edge', 'interior', 'service']);
    },
    LONG,
  );
});
