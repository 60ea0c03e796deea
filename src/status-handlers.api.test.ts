import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { afterAll, beforeEach, expect, inject, test } from 'vitest';
import { signToken } from '../agent/src/state/token.ts';
import { kubeFromFile } from '../hack/kube.ts';
import { testConfig } from '../testing/test-config.ts';
import { nodeKeySecret } from './agents/channel/node-key.ts';
import type { Condition } from './api/meta.ts';
import { API_VERSION, HEADERS, NODE_TOKEN_ISSUER } from './api/names.ts';
import { type Application, applicationResource, type EdgeNode } from './api/v3/index.ts';
import { connect } from './connection.ts';
import { createStatusWriter } from './controllers/status-writer.ts';
import { silentLog } from './lib/log.ts';
import { startTestCluster } from './rest/_cluster.ts';
import { conditionsOf, kstatus } from './rules/conditions.ts';
import { entryUuid } from './rules/names.ts';
import { KINDS, RESOURCES } from './subjects/kinds.ts';
import type { StatusReport } from './wire/agent.ts';
import { NODE_TOKEN } from './wire/node-token.ts';

/** Reports of nodes, on a real API server and over the agent routes: one node reports the truth, the other one invents items. */
const kube = await kubeFromFile(inject('kubeconfig'));
const cluster = await startTestCluster();
const { namespace } = cluster;
const { app, url } = await cluster.startController();
let honest: TestNode;
let liar: TestNode;

interface TestNode {
  name: string;
  uuid: string;
  key: KeyObject;
}
type Items = NonNullable<StatusReport['microserviceStatus']>;

afterAll(() => kube.close());
beforeEach(async () => {
  [honest, liar] = [await makeNode(), await makeNode()];
});

const NOW = new Date().toISOString();
const path = (plural: string, name = '') =>
  `/apis/${API_VERSION}/namespaces/${namespace}/${plural}${name && `/${name}`}`;
const application = (name: string) => kube.get<Application>(path('applications', name));
const node = ({ name }: TestNode) => kube.get<EdgeNode>(path('edgenodes', name));
const poll = <T>(read: () => Promise<T>, timeout = 20_000) => expect.poll(read, { timeout, interval: 50 });
const ready = (object: { status?: { conditions?: Condition[] } } | undefined) => {
  const condition = object?.status?.conditions?.find(({ type }) => type === 'Ready');
  return `${condition?.status} ${condition?.reason}`;
};
const name = (prefix: string) => `${prefix}-${randomUUID().slice(0, 8)}`;

async function makeNode(): Promise<TestNode> {
  const made = { name: name('node'), uuid: randomUUID() };
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const { x = '' } = publicKey.export({ format: 'jwk' });
  const body = { apiVersion: API_VERSION, kind: 'EdgeNode', metadata: { name: made.name } };
  const spec = { uuid: made.uuid, archId: 1 };
  const stored = await kube.request<EdgeNode>('POST', path('edgenodes'), { ...body, spec });
  const secret = nodeKeySecret(stored, {
    nodeUuid: made.uuid,
    publicKey: { kty: 'OKP', crv: 'Ed25519', x },
    archId: 1,
    provisionedAt: Date.now() - 60_000,
    keyExpiresAt: 0,
    keyIssuedAt: 0,
  });
  await kube.request('POST', `/api/v1/namespaces/${namespace}/secrets`, secret);
  return { ...made, key: privateKey };
}

async function makeApplication(prefix: string, at: TestNode, spec: object = {}): Promise<Application> {
  const metadata = { name: name(prefix) };
  const entry = { name: 'web', agent: { name: at.name }, images: { amd64: 'a:1' } };
  const body = { apiVersion: API_VERSION, kind: 'Application', metadata };
  const made = await kube.request<Application>('POST', path('applications'), {
    ...body,
    spec: { uuid: randomUUID(), microservices: [entry], ...spec },
  });
  await poll(async () => (await application(made.metadata.name))?.status?.observedGeneration ?? 0).toBeGreaterThan(0);
  return made;
}

async function request(from: TestNode, method: string, route: string, body?: unknown): Promise<Response> {
  const claims = { sub: from.uuid, iss: NODE_TOKEN_ISSUER, aud: [url], tokenUse: NODE_TOKEN.use };
  return fetch(`${url}/api/v3/agent/${route}`, {
    method,
    headers: {
      authorization: `Bearer ${signToken(from.key, claims, Math.floor(Date.now() / 1000), NODE_TOKEN.lifetime)}`,
      'content-type': 'application/json',
      [HEADERS.agent]: '1.0.0',
      [HEADERS.instance]: from.uuid,
      [HEADERS.boot]: 'b',
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

async function report(from: TestNode, microserviceStatus: Items): Promise<void> {
  const answer = await request(from, 'PUT', 'status', { daemonStatus: 'RUNNING', microserviceStatus });
  expect(answer.status, await answer.text()).toBe(204);
}

/** An item that reports an application's entry as running. */
async function running(at: TestNode, one: Application, fields: object = {}): Promise<Items[number]> {
  const uuid = entryUuid(one, { name: 'web' });
  let revision: string | undefined;
  await poll(async () => {
    const { microservices } = (await (await request(at, 'GET', 'microservices')).json()) as {
      microservices: { uuid: string; revision?: string }[];
    };
    revision = microservices.find((view) => view.uuid === uuid)?.revision;
    return revision;
  }).toBeDefined();
  return { id: uuid, status: 'RUNNING', containerId: 'c-1', startTime: Date.now(), revision, ports: [], ...fields };
}

async function makeRunning(prefix: string): Promise<Application> {
  const made = await makeApplication(prefix, honest);
  await report(honest, [await running(honest, made)]);
  await poll(async () => ready(await application(made.metadata.name))).toBe('True AllRunning');
  return made;
}

async function writesOfNodes(): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${app.addresses.metrics}/metrics`)).text();
  const counts = text.matchAll(/^skerry_apiserver_request_duration_seconds_count\{(.*edgenodes.*)\} (\d+)$/gm);
  return [...counts].reduce((sum, [, labels = '', count]) => sum + (/patch/.test(labels) ? Number(count) : 0), 0);
}

const remove = (one: Application) => kube.request('DELETE', path('applications', one.metadata.name));
const isGone = async (one: Application) => (await application(one.metadata.name)) === undefined;

test("invented items under another node's application do not change it, and its deletion does not wait for them", async () => {
  const victim = await makeRunning('victim');
  const { name: victimName } = victim.metadata;
  const claim = { application: victimName, name: 'web', status: 'RUNNING' as const, containerId: 'x' };
  await report(liar, [
    { ...claim, id: 'made-up-1' },
    { ...claim, id: 'made-up-2' },
    { ...claim, id: 'made-up-3' },
    { ...claim, id: entryUuid(victim, { name: 'web' }), status: 'FAILED', errorMessage: 'not true' },
  ]);
  await poll(async () => (await node(liar))?.status?.microservices?.length).toBe(4);
  // The next real change of the application shows only what its own node reports.
  await report(honest, [await running(honest, victim, { status: 'FAILED', errorMessage: 'no such image' })]);
  await poll(async () => ready(await application(victimName))).toBe('False MicroserviceFailed');
  expect((await application(victimName))?.status?.microservices?.map((line) => line.name)).toEqual(['web']);
  await remove(victim);
  await report(honest, []);
  await poll(() => isGone(victim), 10_000).toBe(true);
});

test('an entry that is removed before its node reported it is shown until its container is removed', async () => {
  const made = await makeApplication('quick', honest);
  const item = await running(honest, made);
  await kube.request(
    'PATCH',
    path('applications', made.metadata.name),
    { spec: { microservices: [] } },
    'application/merge-patch+json',
  );
  await poll(async () => ready(await application(made.metadata.name))).toBe('True Empty');
  await report(honest, [item]);
  await poll(async () => ready(await application(made.metadata.name))).toBe('False Removing');
  await report(honest, []);
  await poll(async () => ready(await application(made.metadata.name))).toBe('True Empty');
});

test('a status that is overwritten with kubectl is corrected at once', async () => {
  const made = await makeRunning('edited');
  const lie = [
    { type: 'Ready', status: 'False', reason: 'Lie', message: '', lastTransitionTime: new Date().toISOString() },
  ];
  for (const [plural, object, is] of [
    ['applications', made.metadata.name, 'True AllRunning'],
    ['edgenodes', honest.name, 'True AgentRunning'],
    ['registries', 'remote', 'True Usable'],
  ] as const) {
    const edited = await kube.request<Application>(
      'PATCH',
      `${path(plural, object)}/status`,
      { status: { conditions: lie } },
      'application/merge-patch+json',
    );
    expect(ready(edited)).toBe('False Lie');
    await poll(async () => ready(await kube.get<Application>(path(plural, object)))).toBe(is);
  }
});

test('a microservice is ready once it has run for minReadySeconds, also without another report', async () => {
  const entry = { name: 'web', agent: { name: honest.name }, images: { amd64: 'a:1' }, minReadySeconds: 3 };
  const made = await makeApplication('young', honest, { microservices: [entry] });
  await report(honest, [await running(honest, made)]);
  await poll(async () => ready(await application(made.metadata.name))).toBe('False Starting');
  await poll(async () => ready(await application(made.metadata.name))).toBe('True AllRunning');
});

test('a microservice that ended twice within a minute is not ready while it runs again', async () => {
  const made = await makeRunning('looping');
  await report(honest, [await running(honest, made, { restartCount: 1, lastError: 'exitCode=2' })]);
  await report(honest, [await running(honest, made, { restartCount: 2, lastError: 'exitCode=2' })]);
  await poll(async () => ready(await application(made.metadata.name))).toBe('False CrashLooping');
});

test('the status writes of a node that reports all the time are limited, and states come before texts', async () => {
  const made = await makeApplication('flooded', liar);
  const own = await running(liar, made);
  const before = await writesOfNodes();
  const say = async (round: number, status: 'RUNNING' | 'FAILED', madeUp = 1) => {
    const errorMessage = `${round} ${'x'.repeat(1000)}`;
    const rest = Array.from({ length: madeUp }, (_, index) => ({ id: `made-up-${index}`, status, errorMessage }));
    const microserviceStatus = [{ ...own, errorMessage, status }, ...rest];
    return (await request(liar, 'PUT', 'status', { daemonStatus: 'RUNNING', microserviceStatus })).status;
  };
  const answers: number[] = [];
  // as many as the rate limit of requests allows
  for (let round = 0; round < 150; round++) answers.push(await say(round, round % 2 ? 'RUNNING' : 'FAILED'));
  expect(answers.filter((status) => status === 204).length).toBeGreaterThan(100);
  await poll(() => say(150, 'FAILED', 200)).toBe(204);
  await poll(async () => ready(await application(made.metadata.name)), 10_000).toBe('False MicroserviceFailed');
  expect((await writesOfNodes()) - before).toBeLessThan(30);
  expect(JSON.stringify((await node(liar))?.status?.microservices).length).toBeLessThan(68 * 1024);
});

test('a status that the API server refuses replaces the old Ready, and is counted', async () => {
  // No controller reconciles this namespace, so that it does not correct what this test writes.
  const elsewhere = `${namespace}-b`;
  await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: elsewhere } });
  await using client = connect(testConfig(inject('kubeconfig'), namespace));
  const ref = { namespace: elsewhere, name: 'plant' };
  const created = await client.create(RESOURCES.applications, {
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: ref,
    spec: { isActivated: true },
  });
  const refused: string[] = [];
  const statuses = createStatusWriter(
    {
      client,
      events: { record: () => {} } as never,
      log: silentLog,
      metrics: { statusRefused: ({ kind }) => refused.push(kind) },
      clock: Date.now,
    },
    KINDS.applications,
  );
  const line = { name: 'web', state: 'RUNNING', ready: true };
  const conditions = conditionsOf(applicationResource, created, kstatus({ is: 'done', reason: 'AllRunning' }), NOW);
  const good = { observedGeneration: 1, conditions, microservices: [line] };
  const write = async (status: typeof good) =>
    statuses.write(await client.get(RESOURCES.applications, ref), status, AbortSignal.timeout(5_000));
  expect(await write(good)).toEqual({ refused: false });
  expect(await write({ ...good, microservices: [line, line] })).toEqual({ refused: true });
  const stored = await client.get(RESOURCES.applications, ref);
  expect(ready(stored)).toBe('Unknown StatusRefused');
  expect(stored.status?.conditions?.[0]?.message).toContain('Duplicate value');
  expect(refused).toEqual(['Application']);
});

test('the deletion of an application that was refused with NameTaken does not wait for containers of the owner of the name', async () => {
  const owner = await makeRunning('owner');
  const created = Date.parse(owner.metadata.creationTimestamp ?? '');
  // Ages are distinguished by the second.
  await poll(async () => Date.now() >= created + 1_000).toBe(true);
  const refused = await makeApplication('refused', honest, { name: owner.metadata.name });
  await poll(async () => ready(await application(refused.metadata.name))).toBe('False NameTaken');
  await remove(refused);
  await poll(() => isGone(refused), 10_000).toBe(true);
});

test('the deletion of an application that was refused with UuidTaken does not wait for containers of the owner of the uuid', async () => {
  const owner = await makeRunning('owner');
  const created = Date.parse(owner.metadata.creationTimestamp ?? '');
  await poll(async () => Date.now() >= created + 1_000).toBe(true);
  const refused = await makeApplication('refused', honest, { uuid: owner.spec.uuid });
  await poll(async () => ready(await application(refused.metadata.name))).toBe('False UuidTaken');
  await remove(refused);
  await poll(() => isGone(refused), 10_000).toBe(true);
});
