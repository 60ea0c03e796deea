import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { startControlPlane } from '../hack/control-plane.ts';
import { type LastRelease, unpackLastRelease } from '../hack/last-release.ts';
import { freePort } from '../hack/ports.ts';
import { API_VERSION, LABELS } from '../src/api/names.ts';
import { manifest } from '../testing/manifest.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { type SimulatedNode, startSimulatedNodes } from './_simulated-nodes.ts';
import {
  type AgentProcess,
  type ControllerProcess,
  createStack,
  get,
  readyOf,
  type Stack,
  until,
  untilReady,
} from './_stack.ts';
import { send, startUsers, type Users } from './_users.ts';
import { startLink, type TcpLink } from './history/tcp-link.ts';

/**
 * The last release (hack/last-release.ts) is upgraded to this version and back, one side after the other: two replicas of the
 * controller as a Deployment replaces them, the CRDs, and an agent with containers, while users edit and further agents
 * poll. The tests build on each other.
 */
const SIMULATED = process.env.SKERRY_NIGHTLY ? 200 : 20;
const USERS = 4;
const NODE = 'gw-up';

const run = promisify(execFile);
const started = new AsyncDisposableStack();
const stop = new AbortController();
let stack: Stack;
let adminKubeconfig: string;
let last: LastRelease;
let link: TcpLink;
let url: string;
let agent: AgentProcess;
let simulated: SimulatedNode[];
let users: Users;

interface Replica {
  name: string;
  isPresent: boolean;
  controller: ControllerProcess;
}
let serving: Replica[] = [];
let replicaCount = 0;
const dir = temporaryFolder();

beforeAll(async () => {
  last = unpackLastRelease(join(dir, 'last-release'));
  const cluster = started.use(await startControlPlane({ dir: join(dir, 'cluster') }));
  adminKubeconfig = cluster.kubeconfig;
  await applyCrds(last.controller);
  stack = started.use(await createStack({ kubeconfig: adminKubeconfig }));
  link = started.use(await startLink(() => serving.map(({ controller }) => Number(new URL(controller.url).port))));
  url = `http://127.0.0.1:${link.port}`;
  for (let i = 0; i < 2; i++) serving.push(await startReplica(last.controller));
  agent = await stack.startAgent(NODE, serving[0]?.controller as ControllerProcess, { url, bundle: last.agent });
  started.defer(() => stop.abort());
  // Its mode was stored without an effect.
  const spec = { routerMode: 'edge', host: 'gw-up.example' };
  await stack.kube.request('PATCH', nodePath(NODE), { spec }, 'application/merge-patch+json');
  simulated = await startSimulatedNodes(stack, { count: SIMULATED, url, home: dir, signal: stop.signal });
  await startSteady();
  users = startUsers({
    ...{ url, token: stack.token, kube: stack.kube, namespace: stack.namespace },
    ...{ nodes: simulated, count: USERS },
  });
  started.defer(() => users.stop());
}, 600_000);
afterAll(() => started.disposeAsync(), 120_000);

async function applyCrds(bundle: string): Promise<string> {
  const env = { ...process.env, KUBECONFIG: adminKubeconfig };
  return (await run(process.execPath, [bundle, 'apply-crds'], { env })).stdout;
}

async function startReplica(bundle: string): Promise<Replica> {
  const name = `replica-${++replicaCount}`;
  // The last release took the name of a replica from CONTROLLER_NAME; what sets it still, works.
  const env = { POD_NAME: name, CONTROLLER_NAME: name, LOG_LEVEL: 'info' };
  const controller = await stack.startController({ bundle, env });
  return { name, isPresent: bundle !== last.controller, controller };
}

const leader = async () => {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${stack.namespace}/leases/skerry-controller`;
  return (await stack.kube.get<{ spec?: { holderIdentity?: string } }>(path))?.spec?.holderIdentity;
};

/** Replaces the replicas as a Deployment does: a new one starts, and once it is ready, an old one is stopped. */
async function roll(bundle: string, mostMissed = 1): Promise<void> {
  const missedBefore = simulated.map(({ missedPolls }) => missedPolls);
  for (const old of [...serving]) {
    serving.push(await startReplica(bundle));
    const led = (await leader()) === old.name;
    serving = serving.filter((replica) => replica !== old);
    await old.controller.stop();
    if (!led) continue;
    // It has ended, and has given its Lease up before that; the last release did so unless a renewal was under way.
    if (old.isPresent) expect(await leader()).not.toBe(old.name);
    await until('another replica to lead', async () => ![undefined, '', old.name].includes(await leader()));
  }
  const missed = simulated.map(({ missedPolls }, index) => missedPolls - (missedBefore[index] ?? 0));
  expect(Math.max(...missed), `missed polls: ${missed}`).toBeLessThanOrEqual(mostMissed);
}

interface Run {
  id: string;
  startedAt: string;
  restarts: number;
}
let before: Record<string, Run>;
let probePort: number;
let edits = 0;

const entry = (name: string, image: string, container: object, more: object = {}) => ({
  name,
  agent: { name: NODE },
  images: { amd64: image, arm64: image },
  container,
  ...more,
});

/** An application that nothing but an edit may restart, with what containers get in many ways, and an application that is edited. */
async function startSteady(): Promise<void> {
  const image = await stack.image('steady');
  const { kube, namespace } = stack;
  const secret = { name: 'db', namespace, labels: { [LABELS.shareable]: 'true' } };
  await kube.apply({ apiVersion: 'v1', kind: 'Secret', metadata: secret, stringData: { pass: 'one' } } as never);
  await send(url, stack.token, 'POST', '/volumeMounts', { name: 'db-mount', secretName: 'db' });
  const ports = async () => [{ internal: 8080, external: await freePort() }];
  await stack.apply({
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: { name: 'steady' },
    spec: {
      microservices: [
        entry('plain', image, { ports: await ports(), env: [{ key: 'A', value: 'b' }] }, { config: { rate: 5 } }),
        entry('with-secret', image, { env: [{ key: 'PASS', valueFromSecret: 'db/pass' }] }),
        entry('with-files', image, {
          volumes: [
            { hostDestination: 'kept', containerDestination: '/kept', accessMode: 'rw', type: 'volume' },
            { hostDestination: 'db-mount', containerDestination: '/etc/db', accessMode: 'ro', type: 'volumeMount' },
          ],
        }),
        entry('limited', image, {
          cpus: 0.5,
          memoryLimit: 64,
          capDrop: ['ALL'],
          tmpfs: [{ containerPath: '/tmp', size: 5, mode: '1777' }],
          extraHosts: [{ name: 'db', address: '192.0.2.7' }],
          annotations: { team: 'shore' },
          logSize: 3,
          healthCheck: { test: ['CMD', '/sample', 'check', 'http://127.0.0.1:8080/healthz'], interval: 1, retries: 2 },
        }),
        entry('stopped', image, {}),
      ],
    },
  });
  probePort = await freePort();
  await edit();
  const { status } = await untilReady(stack, 'steady', 240_000);
  const stopped = status?.microservices?.find(({ name }) => name === 'stopped')?.uuid ?? '';
  expect(await agent.cli('ms', 'stop', stopped)).toMatchObject({ code: 0 });
  await until('the local stop to be reported', async () => (await stateOf('stopped')) === 'STOPPED');
  before = await runs();
  expect(Object.keys(before).sort()).toEqual(['limited', 'plain', 'with-files', 'with-secret']);
}

const nodePath = (name: string) => `/apis/${API_VERSION}/namespaces/${stack.namespace}/edgenodes/${name}`;

/** Names of the Secrets with keys of nodes. */
async function platformSecrets(): Promise<readonly string[]> {
  const path = `/api/v1/namespaces/${stack.namespace}/secrets`;
  const { items } = await stack.kube.request<{ items: { metadata: { name: string } }[] }>('GET', path);
  return items.map(({ metadata }) => metadata.name).filter((name) => name.startsWith('skerry-platform-'));
}

const stateOf = async (name: string) =>
  (await stack.application('steady'))?.status?.microservices?.find((one) => one.name === name)?.state as string;

/** The running containers of the application that nothing may restart. */
async function runs(): Promise<Record<string, Run>> {
  const all = await stack.containers();
  const result: Record<string, Run> = {};
  for (const { name, uuid } of (await stack.application('steady'))?.status?.microservices ?? []) {
    const found = all.find((one) => uuid !== undefined && one.state === 'running' && one.name.includes(uuid));
    if (!found) continue;
    const { State, RestartCount } = await stack.inspect(found.id);
    result[name] = { id: found.id, startedAt: State.StartedAt, restarts: RestartCount };
  }
  return result;
}

async function edit(): Promise<string> {
  const value = String(++edits);
  const image = await stack.image('probe');
  const env = [{ key: 'EDIT', value }];
  const microservices = [entry('web', image, { ports: [{ internal: 8080, external: probePort }], env })];
  await stack.apply(manifest('Application', { name: 'probe' }, { microservices }));
  return value;
}

/** That both sides work together, and that nothing was restarted on the way. */
async function expectWorking(): Promise<void> {
  const value = await edit();
  const shown = async () => JSON.parse((await get(`http://127.0.0.1:${probePort}/env`)) ?? '{}').EDIT;
  await until('an edit to run', async () => (await shown()) === value, { timeoutMs: 120_000 });
  await untilReady(stack, 'probe', 120_000);
  await until('the node to be ready', async () => readyOf(await stack.node(NODE))?.status === 'True');
  expect(await runs()).toEqual(before);
  expect(await stateOf('stopped')).toBe('STOPPED');
  const steady = (await stack.application('steady'))?.status?.microservices ?? [];
  expect(steady.filter(({ state }) => state === 'RUNNING')).toHaveLength(4);
  expect(simulated.filter((node) => node.starts() !== 1)).toEqual([]);
}

test('an agent of the last release works with it before the upgrade', () => expectWorking(), 240_000);

test('the controller is upgraded before the CRDs, and an agent of the last release works on, with nothing restarted', async () => {
  await roll(inject('programs').controller);
  await expectWorking();
}, 480_000);

test('apply-crds brings the CRDs of the last release to this version, with nothing restarted', async () => {
  const said = await applyCrds(inject('programs').controller);
  expect(
    said
      .trim()
      .split('\n')
      .every((line) => /^\S+\.skerry\.dev: (updated|unchanged|created)$/.test(line)),
  ).toBe(true);
  await expectWorking();
}, 240_000);

test('a node whose mode the last release stored gets certificates, with nothing restarted, and nodes without a mode get nothing', async () => {
  const uuid = (await stack.node(NODE))?.status?.uuid;
  await until('the keys of the node', async () => (await platformSecrets()).length > 0);
  await expectWorking();
  expect(await platformSecrets()).toEqual([`skerry-platform-${uuid}`]);
}, 240_000);

test('the agent is upgraded over its data, with nothing restarted', async () => {
  await agent.stop();
  await agent.start(inject('programs').agent);
  await expectWorking();
  const conditions = async () => (await stack.node(NODE))?.status?.conditions ?? [];
  await until('the machine to have its certificates', async () =>
    (await conditions()).some(({ type, status }) => type === 'CertificatesReady' && status === 'True'),
  );
}, 240_000);

test('the controller is rolled back below newer CRDs, and a newer agent works on, with nothing restarted', async () => {
  // A replica of the last release refuses tokens of the second in which it began, which may be once for each replica.
  await roll(last.controller, serving.length);
  await expectWorking();
}, 480_000);

test('the agent is downgraded over its data, with nothing restarted', async () => {
  await agent.stop();
  await agent.start(last.agent);
  await expectWorking();
}, 240_000);

test('no write that was answered during the upgrades is lost, and all of them reach the agents', async () => {
  await users.finish();
  expect(simulated.filter((node) => node.starts() !== 1)).toEqual([]);
}, 240_000);
