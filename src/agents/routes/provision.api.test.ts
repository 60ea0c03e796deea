import { randomUUID } from 'node:crypto';
import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, expect, inject, onTestFinished, test, vi } from 'vitest';
import { storedNode, storedSecret } from '../../../testing/stored.ts';
import { ANNOTATIONS, LABELS } from '../../api/names.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import { provisioningKeyName } from '../../datastore/provisioning-key.ts';
import { createProvisioningKeys } from '../../datastore/provisioning-keys.ts';
import { createStores, followStores } from '../../datastore/stores.ts';
import { createClient, type KubeClient, ownerReference } from '../../kube/mod.ts';
import { RESOURCES } from '../../subjects/kinds.ts';
import { makeKey, makeToken, type Replica, startReplica, type TestKey } from '../_util.ts';
import type { RecordedEvent } from '../channel/dependencies.ts';
import { readNodeKey } from '../channel/node-key.ts';

/** Two replicas over one API server, each with its own client and local views. */
const namespace = `agents-${randomUUID().slice(0, 8)}`;
const stop = new AbortController();
const all = new AsyncDisposableStack();

function connect(): KubeClient {
  const config = new KubeConfig();
  config.loadFromFile(inject('kubeconfig'));
  return all.use(createClient({ config: () => config }));
}

const views: ReturnType<typeof createStores>[] = [];

async function startOver(own: KubeClient): Promise<Replica> {
  const stores = createStores({ namespace });
  views.push(stores);
  const reflectors = followStores(stores, { client: own }, stop.signal);
  for (const reflector of reflectors) all.use(reflector);
  await Promise.all(Object.values(stores).map((store) => store.whenSynced()));
  return all.use(
    await startReplica({ client: own, stores: stores as never, namespace, limits: { guessesPerMinute: 1_000 } }),
  );
}

const client = connect();
await client.request('POST', '/api/v1/namespaces', {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: namespace },
});
const replicas: [Replica, Replica] = [await startOver(connect()), await startOver(connect())];
// Tokens count from the second after a replica started.
await new Promise((resolve) => setTimeout(resolve, 1_100));

afterAll(async () => {
  stop.abort();
  await client.request('DELETE', `/api/v1/namespaces/${namespace}`);
  await all.disposeAsync();
});

async function createNode(spec: Partial<EdgeNode['spec']> = {}): Promise<EdgeNode> {
  const { apiVersion, kind, spec: made } = storedNode('x', spec);
  const name = `node-${randomUUID().slice(0, 8)}`;
  return client.create(RESOURCES.nodes, {
    apiVersion,
    kind,
    metadata: { name, namespace },
    spec: made,
  } as EdgeNode);
}

/** A provisioning key as REST issues it. */
async function issue(node: EdgeNode, life = 20 * 60_000): Promise<string> {
  const key = randomUUID();
  const uuid = node.spec.uuid ?? '';
  const { data } = storedSecret('x', { nodeUuid: uuid, expiresAt: String(Date.now() + life) });
  await client.create(RESOURCES.secrets, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name: provisioningKeyName(key),
      namespace,
      labels: { [LABELS.provisioningKey]: uuid },
      ownerReferences: [ownerReference(node)],
    },
    type: 'Opaque',
    data,
  });
  return key;
}

const provision = (replica: Replica, key: string, agent?: TestKey, body: object = {}) =>
  replica.call('POST', '/provision', { body: { key, type: 1, ...(agent && { publicKey: agent.publicKey }), ...body } });

const configOf = (replica: Replica, node: EdgeNode, agent: TestKey) =>
  replica.call('GET', '/config', {
    headers: { authorization: `Bearer ${makeToken(node.spec.uuid ?? '', agent, Date.now())}`, 'skerry-agent': '1' },
  });

test('an agent with a key pair of its own takes the identity, and every replica accepts it at once', async () => {
  const [one, two] = replicas;
  const node = await createNode();
  const agent = makeKey();
  const answer = await provision(one, await issue(node), agent, { engine: 'engine_a' });
  expect(answer.status, answer.text).toBe(200);
  expect(answer.body).toEqual({ uuid: node.spec.uuid, namespace, name: node.metadata.name });
  expect((await configOf(two, node, agent)).status).toBe(200);
  expect((await configOf(one, node, agent)).status).toBe(200);
  const secret = await client.get(RESOURCES.secrets, { namespace, name: `node-key-${node.spec.uuid}` });
  expect(readNodeKey(secret)).toMatchObject({ archId: 1, containerEngine: 'docker', publicKey: agent.publicKey });
  expect(secret.metadata.ownerReferences).toMatchObject([{ kind: 'EdgeNode', uid: node.metadata.uid }]);
});

test('a provisioning is an event of the audit log that names the node and never the key', async () => {
  const events: RecordedEvent[] = [];
  const audit = { record: (event: RecordedEvent) => void events.push(event), recordsAddresses: false };
  await using replica = await startReplica({ client, stores: replicas[0].stores as never, namespace, audit });
  const node = await createNode();
  const key = await issue(node);
  expect((await provision(replica, key, makeKey())).status).toBe(200);
  expect(events).toMatchObject([
    { endpointType: 'agent', actorId: node.spec.uuid, resourceId: node.spec.uuid, method: 'POST', statusCode: 200 },
  ]);
  expect(JSON.stringify(events)).not.toContain(key);
});

test('of agents that race for one key at two replicas exactly one wins; the others are refused permanently', async () => {
  for (let round = 0; round < 5; round++) {
    const node = await createNode();
    const key = await issue(node);
    const agents = Array.from({ length: 8 }, makeKey);
    const answers = await Promise.all(agents.map((agent, i) => provision(replicas[i % 2] as Replica, key, agent)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(404)]);
    expect(answers.find(({ status }) => status === 404)?.body).toMatchObject({
      code: 'INVALID_PROVISIONING_KEY',
      retryable: false,
    });
    for (const [i, agent] of agents.entries()) {
      const { status } = await configOf(replicas[(i + 1) % 2] as Replica, node, agent);
      expect(status).toBe(answers[i]?.status === 200 ? 200 : 401);
    }
  }
});

test('the same public key again gets the same response, at any replica, many at once', async () => {
  const node = await createNode();
  const key = await issue(node);
  const agent = makeKey();
  const answers = await Promise.all(
    Array.from({ length: 6 }, (_, i) => provision(replicas[i % 2] as Replica, key, agent)),
  );
  expect(new Set(answers.map(({ status, text }) => `${status} ${text}`))).toEqual(
    new Set([`200 ${JSON.stringify({ uuid: node.spec.uuid, namespace, name: node.metadata.name })}`]),
  );
});

test('a provisioning that was interrupted is completed by repeating the request', async () => {
  const node = await createNode();
  const key = await issue(node);
  const agent = makeKey();
  await provision(replicas[0], key, agent);
  const secret = `node-key-${node.spec.uuid}`;
  await client.delete(RESOURCES.secrets, { namespace, name: secret });
  // An interrupted provisioning never made it: no replica has it.
  await vi.waitFor(
    () => expect(views.map(({ secrets }) => secrets.get(namespace, secret))).toEqual([undefined, undefined]),
    30_000,
  );
  expect((await provision(replicas[1], key, agent)).status).toBe(200);
  expect((await configOf(replicas[0], node, agent)).status).toBe(200);
});

test('a third-party agent gets a key pair, once', async () => {
  const node = await createNode();
  const key = await issue(node);
  const answer = await provision(replicas[0], key);
  const jwk = JSON.parse(Buffer.from(answer.body.privateKey, 'base64').toString());
  expect(jwk).toEqual({ kty: 'OKP', crv: 'Ed25519', x: expect.any(String), d: expect.any(String) });
  const { createPrivateKey } = await import('node:crypto');
  const agent = { publicKey: jwk, privateKey: createPrivateKey({ key: jwk, format: 'jwk' }) };
  expect((await configOf(replicas[1], node, agent)).status).toBe(200);
  expect((await provision(replicas[0], key)).status).toBe(404);
  const secrets = await client.list(RESOURCES.secrets, { namespace });
  expect(JSON.stringify(secrets.items)).not.toContain(Buffer.from(jwk.d).toString('base64'));
});

test('a new agent replaces the former one, whose key again does not take the identity back', async () => {
  const node = await createNode();
  const former = { key: await issue(node, 60_000), agent: makeKey() };
  await provision(replicas[0], former.key, former.agent);
  const agent = makeKey();
  expect((await provision(replicas[1], await issue(node), agent)).status).toBe(200);
  expect((await configOf(replicas[1], node, former.agent)).body.code).toBe('AGENT_JWT_SIGNATURE_INVALID');
  expect((await provision(replicas[0], former.key, former.agent)).status).toBe(404);
  expect((await configOf(replicas[0], node, agent)).status).toBe(200);
});

test('the response to an unusable key names the reason', async () => {
  const node = await createNode();
  const agent = makeKey();
  expect(await provision(replicas[0], randomUUID(), agent)).toMatchObject({ status: 404 });
  const expired = await provision(replicas[0], await issue(node, -1), agent);
  expect(expired).toMatchObject({ status: 401, body: { code: 'EXPIRED_PROVISION_KEY', retryable: false } });
  const replaced = await issue(node);
  await client.delete(RESOURCES.secrets, { namespace, name: provisioningKeyName(replaced) });
  expect(await provision(replicas[0], replaced, agent)).toMatchObject({ status: 404 });
  const orphan = await createNode();
  const orphaned = await issue(orphan);
  await client.delete(RESOURCES.nodes, { namespace, name: orphan.metadata.name });
  // A replica may take a moment to hear of it; what it gives away meanwhile is worth nothing.
  await expect.poll(async () => (await provision(replicas[0], orphaned, agent)).status).toBe(404);
});

test('an invalid request does not use up the key', async () => {
  const node = await createNode({ archId: 0 });
  const key = await issue(node);
  const agent = makeKey();
  expect(await provision(replicas[0], key, agent, { type: 0 })).toMatchObject({
    status: 400,
    body: { code: 'VALIDATION_ERROR' },
  });
  expect((await provision(replicas[0], key, agent, { type: 5 })).status).toBe(400);
  expect((await provision(replicas[0], key, agent, { publicKey: { kty: 'OKP' } })).status).toBe(400);
  const engine = await provision(replicas[0], key, agent, { type: 2, engine: 'lxc' });
  expect(engine).toMatchObject({ status: 400, body: { message: expect.stringContaining('engine: "lxc" is unknown') } });
  expect((await provision(replicas[0], key, agent, { type: 2 })).status).toBe(200);
  // No status has the architecture yet.
  expect((await provision(replicas[0], await issue(node), makeKey(), { type: 0 })).status).toBe(200);
  const known = await createNode({ archId: 2 });
  expect((await provision(replicas[0], await issue(known), makeKey(), { type: 0 })).status).toBe(200);
});

/** A node for which a version is requested, provisioned with `agent`, at a replica that issues keys. */
async function startRequested() {
  const { stores } = replicas[0];
  const keys = createProvisioningKeys({ client, namespace, secrets: stores.secrets as never });
  const replica = await startReplica({ client, stores, namespace, versionKeys: keys });
  onTestFinished(() => replica[Symbol.asyncDispose]());
  const made = await createNode();
  const node = await client.replace(RESOURCES.nodes, {
    ...made,
    metadata: { ...made.metadata, annotations: { [ANNOTATIONS.version]: '{"count":1,"command":"upgrade"}' } },
  });
  stores.nodes.observe(node);
  const agent = makeKey();
  await provision(replicas[1], await issue(node), agent);
  // The API server dates keys in whole seconds, and one for a version gives an identity only when it is later than the present one.
  const second = Math.floor(Date.now() / 1000);
  await expect.poll(() => Math.floor(Date.now() / 1000)).toBeGreaterThan(second);
  const read = (as: TestKey) => replica.as(node, as, 'GET', '/version', { thirdParty: true });
  /** The key that the node is offered. Tokens count from the second after a replica started. */
  const offered = async (as: TestKey): Promise<string> => {
    await expect.poll(async () => (await read(as)).status, { timeout: 5_000 }).toBe(200);
    return (await read(as)).body.provisionKey;
  };
  return { replica, keys, node, agent, read, offered };
}

/** As a person: with a key that is issued over REST. */
async function issueOverRest(keys: ReturnType<typeof createProvisioningKeys>, node: EdgeNode): Promise<string> {
  const key = randomUUID();
  await keys.issue(node, { key, expiresAt: Date.now() + 20 * 60_000 }, AbortSignal.timeout(5_000));
  return key;
}

test('each read of a requested version gives a key that was never used, and ends the key of the read before it', async () => {
  const { agent, offered } = await startRequested();
  const former = await offered(agent);
  const first = await offered(agent);
  expect(first).not.toBe(former);
  expect((await provision(replicas[1], former, makeKey())).status).toBe(404);
  const next = makeKey();
  expect((await provision(replicas[1], first, next)).status).toBe(200);
  const second = await offered(next);
  expect(second).not.toBe(first);
  expect((await provision(replicas[1], second, makeKey())).status).toBe(200);
});

test.each([
  ['REST', issueOverRest],
  ['kubectl', (_: unknown, node: EdgeNode) => issue(node)],
])('whoever polls for the key of a requested version cannot replace a key that was issued over %s', async (_, make) => {
  const { keys, node, agent, read, offered } = await startRequested();
  const stolen = await offered(agent);
  const key = await make(keys, node);
  for (let i = 0; i < 3; i++)
    expect(await read(agent)).toMatchObject({
      status: 409,
      body: { code: 'PROVISIONING_KEY_WAITS', retryable: false },
    });
  const machine = makeKey();
  expect((await provision(replicas[1], key, machine)).status).toBe(200);
  expect((await provision(replicas[0], stolen, makeKey())).status).toBe(404);
  expect((await configOf(replicas[1], node, agent)).status).toBe(401);
  await expect.poll(async () => (await configOf(replicas[0], node, machine)).status).toBe(200);
});

test("a person's key gives the identity although a key for a version was issued later and used first", async () => {
  const { node } = await startRequested();
  const key = await issue(node);
  // As a replica does that looked for awaited keys before this one existed.
  const blind = createProvisioningKeys({
    client: { ...client, list: async () => ({ items: [], resourceVersion: '1' }) } as never,
    namespace,
    secrets: replicas[0].stores.secrets as never,
  });
  const thief = makeKey();
  const stolen = randomUUID();
  await blind.issueForVersion(node, { key: stolen, expiresAt: Date.now() + 40 * 60_000 }, AbortSignal.timeout(5_000));
  expect((await provision(replicas[0], stolen, thief)).status).toBe(200);
  const machine = makeKey();
  expect((await provision(replicas[1], key, machine)).status).toBe(200);
  await expect.poll(async () => (await configOf(replicas[0], node, machine)).status).toBe(200);
  expect((await configOf(replicas[1], node, thief)).status).toBe(401);
  expect((await provision(replicas[0], stolen, thief)).status).toBe(404);
});

test('a third-party agent gets all sections flagged after its provisioning, also at a replica that another agent of the node has read them from', async () => {
  const node = await createNode();
  const poll = (as: TestKey) => replicas[0].as(node, as, 'GET', '/changes', { thirdParty: true });
  const former = makeKey();
  await provision(replicas[0], await issue(node), former);
  const flags = { config: true, microserviceList: true, microserviceConfig: true, registries: true };
  const first = (await poll(former)).body;
  expect(first).toMatchObject(flags);
  const body = { lastUpdated: first.lastUpdated };
  await replicas[0].as(node, former, 'PATCH', '/changes', { thirdParty: true, body });
  expect((await poll(former)).body).toMatchObject({ config: false, microserviceList: false });
  const next = makeKey();
  await provision(replicas[1], await issue(node), next);
  await expect.poll(async () => (await poll(next)).status).toBe(200);
  expect((await poll(next)).body).toMatchObject(flags);
});

test('after deprovisioning the identity is gone everywhere', async () => {
  const node = await createNode();
  const agent = makeKey();
  await provision(replicas[0], await issue(node), agent);
  const answer = await replicas[0].as(node, agent, 'POST', '/deprovision', { body: { microserviceUuids: [] } });
  expect(answer.status).toBe(204);
  expect((await configOf(replicas[0], node, agent)).body.code).toBe('AGENT_PUBLIC_KEY_NOT_FOUND');
  await expect.poll(async () => (await configOf(replicas[1], node, agent)).status).toBe(401);
});

test('the key of a node deletes no node, protected or not: its agent has only left it', async () => {
  const node = await createNode();
  const agent = makeKey();
  await provision(replicas[0], await issue(node), agent);
  expect((await replicas[1].as(node, agent, 'DELETE', '/delete-node')).status).toBe(204);
  const kept = await client.find(RESOURCES.nodes, { namespace, name: node.metadata.name });
  expect(kept?.metadata).toMatchObject({ uid: node.metadata.uid });
  expect(kept?.metadata).not.toHaveProperty('deletionTimestamp');
  expect((await configOf(replicas[1], node, agent)).body.code).toBe('AGENT_PUBLIC_KEY_NOT_FOUND');
});

test('two hundred nodes at once are all provisioned', async () => {
  const nodes = await Promise.all(Array.from({ length: 200 }, () => createNode()));
  const keys = await Promise.all(nodes.map((node) => issue(node)));
  const answers = await Promise.all(keys.map((key, i) => provision(replicas[i % 2] as Replica, key, makeKey())));
  expect(answers.every(({ status }) => status === 200)).toBe(true);
});

test('an address that guesses keys gets 429, other addresses do not', async () => {
  await using limited = await startReplica({
    client,
    stores: replicas[0].stores,
    namespace,
    limits: { guessesPerMinute: 5 },
  });
  const statuses = [];
  for (let i = 0; i < 8; i++) statuses.push((await provision(limited, randomUUID(), makeKey())).status);
  expect(statuses).toEqual([404, 404, 404, 404, 404, 429, 429, 429]);
  const node = await createNode();
  expect((await provision(replicas[0], await issue(node), makeKey())).status).toBe(200);
});
