import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createTestAgent, runAgent } from './_agent.ts';
import { plainView } from './_web.ts';
import type { Agent } from './app.ts';
import { relayPrefix } from './content/registries/pull.ts';
import type { AgentDependencies } from './dependencies.ts';
import { PLAIN_PLACES } from './domain/_places.ts';
import { policySchema } from './domain/policy.ts';
import { EngineError } from './engine-port/error.ts';
import { until } from './engines/_contract.ts';
import { MemoryEngine } from './engines/memory/_engine.ts';
import { FakeController, failure, type View } from './link/_fake-controller.ts';
import { fetchAuthority } from './link/trust.ts';
import { exchange, type HttpRequest } from './machine/http.ts';
import { memoryIdentity } from './state/_identity.ts';
import { memoryDatabase } from './state/database.ts';

/** The agent with everything in memory: the sync loop with a fake controller, and its effect on the containers. */

let controller: FakeController;
let engine: MemoryEngine;
let end: () => Promise<void>;
let requests: HttpRequest[];
const database = { value: memoryDatabase() };
const identity = { value: memoryIdentity() };

beforeEach(async () => {
  controller = await new FakeController().listen();
  engine = new MemoryEngine({ anyImage: true });
  end = async () => {};
  requests = [];
  database.value = memoryDatabase();
  identity.value = memoryIdentity();
});

afterEach(async () => {
  await end();
  await controller.close();
});

/** Starts an agent on the engine, the database and the identity of this test. */
function start(policy = {}, more: Partial<AgentDependencies> = {}): Agent {
  const agent = createTestAgent({
    folder: '/nowhere',
    settings: 'statusFrequency: 1\nchangeFrequency: 1',
    engine: () => engine,
    database: database.value,
    identity: identity.value,
    policy: policySchema.parse(policy),
    transport: (request, limit) => {
      requests.push(request);
      return exchange(request, limit);
    },
    ...more,
  });
  end = runAgent(agent);
  return agent;
}

async function restart(more: Partial<AgentDependencies> = {}): Promise<Agent> {
  await end();
  return start({}, more);
}

const uuid = randomUUID();
const view = (change: Partial<View> = {}): View => plainView({ uuid, ...change });

/** Provisions an agent whose node has these microservices. */
async function provision(agent: Agent, ...views: View[]): Promise<Agent> {
  controller.microservices = views;
  await agent.provision(controller.joinString);
  return agent;
}

async function running(views: View[] = [view()]): Promise<Agent> {
  const agent = await provision(start(), ...views);
  for (const one of views) await untilRunning(one.uuid);
  return agent;
}

/** What the last reports say of the microservice. */
const status = () => controller.microservice(uuid);
const untilRunning = (id: string = uuid) => until('RUNNING', () => controller.microservice(id)?.status === 'RUNNING');

/** Ends the only container. */
async function crash(): Promise<void> {
  const [container] = await engine.containers();
  engine.exit(container?.id ?? '', 1);
}

/** Takes the node away at the controller, which the agent hears, and makes it ready for another provisioning. */
async function forget(agent: Agent, change: Parameters<FakeController['change']>[0] = {}): Promise<void> {
  controller.publicKey = undefined;
  controller.change({ ...change, fault: at('/agent/changes', failure(401, 'AGENT_NODE_NOT_FOUND')) });
  await until('the refusal', () => agent.connection.state === 'UNAUTHORIZED');
  controller.fault = undefined;
  controller.key = 'key-another-0123';
}

type Fault = NonNullable<FakeController['fault']>;
const at =
  (faulty: string, answer: ReturnType<Fault>): Fault =>
  (_method, path) =>
    path === faulty ? answer : undefined;

test('runtime classes are reported as far as the engine has their runtimes, and no longer when they are gone', async () => {
  const agent = await running();
  controller.runtimeClasses = [
    { name: 'plain', handler: 'runc' },
    { name: 'sandboxed', handler: 'runsc' },
    { name: 'unreadable' },
  ];
  await until('a class', () => controller.said.runtimeClasses?.length === 1);
  expect(controller.said.runtimeClasses).toEqual([{ name: 'plain', handler: 'runc', source: 'managed' }]);
  expect(agent.connection.state).toBe('OK');
  controller.runtimeClasses = [];
  await until('none', () => controller.said.runtimeClasses?.length === 0);
});

describe('CDI devices', () => {
  /** An agent on an engine with CDI, on a machine with these devices. */
  async function withDevices(devices: () => readonly string[]): Promise<void> {
    const facts = await engine.connect();
    engine.connect = async () => ({ ...facts, cdi: true, cdiDirectories: ['/srv/cdi'] });
    const asked = (directories: readonly string[] = []) => (directories.includes('/srv/cdi') ? devices() : []);
    await provision(start({}, { cdiDevices: asked }), view({ cdiDevices: ['v/gpu=1'] }));
  }

  test('of the machine are reported', async () => {
    await withDevices(() => ['v/gpu=0', 'v/gpu=1']);
    await untilRunning();
    await until('the devices', () => controller.said.availableCdiDevices?.length === 2);
    expect(controller.said).toMatchObject({
      availableCdiDevices: ['v/gpu=0', 'v/gpu=1'],
      availableRuntimes: ['runc'],
    });
  });

  test('that are not there keep a microservice from starting, which says so, until it asks for one that is there', async () => {
    await withDevices(() => ['v/gpu=0']);
    await until('a reason', () => /names v\/gpu=1; it has v\/gpu=0/.test(status()?.errorMessage ?? ''));
    expect(status()?.status).toBe('FAILED');
    controller.microservices = [view({ cdiDevices: ['v/gpu=0'], revision: 'r2' })];
    await untilRunning();
  });
});

describe('provisioning', () => {
  test('saves the key pair before the first request', async () => {
    const agent = start();
    let savedBefore: unknown;
    controller.fault = (method, path) => {
      if (`${method} ${path}` === 'POST /agent/provision') savedBefore = identity.value.load()?.nodeKey?.x;
      return undefined;
    };
    const node = await agent.provision(controller.joinString);
    expect(node).toMatchObject({ uuid: controller.nodeUuid, namespace: 'skerry', name: 'fake' });
    expect(savedBefore).toBe(controller.publicKey?.x);
    expect(savedBefore).toMatch(/./);
  });

  test('sends the same public key again when the first response was lost', async () => {
    const agent = start();
    let lost = true;
    controller.fault = (_method, path) => {
      if (path !== '/agent/provision' || !lost) return undefined;
      lost = false;
      controller.publicKey = identity.value.load()?.nodeKey;
      return 'cut';
    };
    await expect(agent.provision(controller.joinString)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(await agent.provision(controller.joinString)).toMatchObject({ uuid: controller.nodeUuid });
  });

  const refusals: Record<
    string,
    { text: string; code: string; says: RegExp; fault?: { status: number; body: unknown } }
  > = {
    'the controller does not know the key': {
      text: 'skerry://HOST/key-9999999999',
      code: 'INVALID_ARGUMENT',
      says: /does not know this key/,
    },
    'the text is not a join string': { text: 'hello', code: 'INVALID_ARGUMENT', says: /not a URL/ },
    'the controller does not answer': {
      text: 'skerry://127.0.0.1:1/key-9999999999',
      code: 'UNAVAILABLE',
      says: /does not answer/,
    },
    'another program answers at the address': {
      text: 'skerry://HOST/key-9999999999',
      code: 'INVALID_ARGUMENT',
      says: /^another program than a controller answers at http:.*: 404; check the address/,
      fault: { status: 404, body: '<h1>no such page</h1>' },
    },
    'another program with errors in JSON answers at the address': {
      text: 'skerry://HOST/key-9999999999',
      code: 'INVALID_ARGUMENT',
      says: /^another program than a controller answers at http:.*: 404; check the address/,
      fault: { status: 404, body: { error: 'Not Found', message: 'Route POST:/api/v3/agent/provision not found' } },
    },
    'another program takes whatever it gets': {
      text: 'skerry://HOST/key-9999999999',
      code: 'INVALID_ARGUMENT',
      says: /or another program answers at its address; check the address/,
      fault: { status: 200, body: '<h1>hello</h1>' },
    },
    'a join string with TLS names a port without TLS': {
      text: 'skerry://HOST/key-9999999999?tls=1',
      code: 'INVALID_ARGUMENT',
      says: /^https:\S+ does not speak TLS; the same address may do with http, which is a join string without tls=1/,
    },
    'a join string with an authority names a port without TLS': {
      text: `skerry://HOST/key-9999999999?tls=1&ca=sha256:${'a'.repeat(64)}`,
      code: 'INVALID_ARGUMENT',
      says: /^https:\S+ does not speak TLS; a join string for plain HTTP has neither/,
    },
  };
  for (const [name, { text, code, says, fault }] of Object.entries(refusals))
    test(`is refused when ${name}`, async () => {
      const agent = start({}, { fetchAuthority });
      controller.fault = fault && (() => fault);
      const error = await agent.provision(text.replace('HOST', new URL(controller.url).host)).catch((e: unknown) => e);
      expect(error).toMatchObject({ code, message: expect.stringMatching(says) });
      expect(String((error as Error).message)).not.toContain('key-9999999999');
      expect(agent.identity.node).toBeUndefined();
    });

  test('while the engine does not answer adopts the containers of an earlier installation at the next connection', async () => {
    const agent = start();
    await until('a connection', () => agent.supervisor.engine.state === 'connected');
    const instance = 'a'.repeat(32);
    let asked = 0;
    engine.containersOfOtherAgents = async () => {
      if (asked++ === 0) throw new EngineError('Unavailable', 'the engine does not answer');
      const names = { id: '1'.repeat(64), name: 'skerry-web', application: 'shop', microservice: 'web' };
      return agent.identity.instance === instance
        ? []
        : [{ ...names, instance, nodeUuid: controller.nodeUuid, running: true }];
    };
    await agent.provision(controller.joinString);
    await until('the adoption', () => agent.identity.instance === instance);
    expect(database.value.value('instance')).toBe(instance);
  });

  test('is refused for a node that is provisioned already', async () => {
    const agent = await running();
    await expect(agent.provision(controller.joinString)).rejects.toMatchObject({ code: 'CONFLICT' });
  });
});

describe('every request', () => {
  test('has its own token and names the agent, the instance and the boot', async () => {
    await running();
    const signed = requests.filter(({ headers }) => headers?.authorization);
    expect(new Set(signed.map(({ headers }) => headers?.authorization)).size).toBe(signed.length);
    for (const { headers } of requests)
      expect(headers).toMatchObject({
        'skerry-agent': '0.1.0',
        'skerry-instance': expect.stringMatching(/^[0-9a-f]{32}$/),
        'skerry-boot': expect.stringMatching(/^[0-9a-f-]{36}$/),
      });
  });

  test("is signed with the controller's time", async () => {
    const hour = 3600_000;
    const body = { status: 'online', timestamp: Date.now() - hour, uptimeSec: 1 };
    controller.fault = at('/status', { status: 200, body });
    await provision(start());
    await until('a signed request', () => requests.some(({ headers }) => headers?.authorization));
    const token = requests.find(({ headers }) => headers?.authorization)?.headers?.authorization?.split('.')[1] ?? '';
    const { iat } = JSON.parse(Buffer.from(token, 'base64url').toString()) as { iat: number };
    expect(Math.abs(iat * 1000 - (Date.now() - hour))).toBeLessThan(5000);
  });
});

describe('a saved response', () => {
  test('is named in each poll and is not fetched again after a restart', async () => {
    await running();
    await until('a poll that says so', () =>
      controller.requests.some(({ have }) => have?.includes('microserviceList')),
    );
    controller.requests.length = 0;
    controller.said = {};
    await restart();
    await untilRunning();
    expect(controller.requests.map(({ path }) => path)).not.toContain('/agent/microservices');
    expect(controller.requests.find(({ have }) => have)?.have).toContain('microserviceList');
  });

  test('has its Skerry-Not-Older-Than, which is sent also after a restart, and never to the next controller', async () => {
    controller.notOlderThan = 'a:1.2';
    await running();
    controller.requests.length = 0;
    const agent = await restart();
    const polls = () => controller.requests.filter(({ path }) => path === '/agent/changes');
    await until('a poll', () => polls().length > 0);
    expect(polls()[0]?.notOlderThan).toBe('a:1.2');
    controller.notOlderThan = 'a:1.3';
    controller.change({ microservices: [view({ revision: 'r2' })] });
    await until('a poll with the newer bound', () => polls().at(-1)?.notOlderThan === 'a:1.3');

    await agent.deprovision();
    controller.notOlderThan = undefined;
    controller.requests.length = 0;
    await agent.provision(controller.joinString);
    await until('a poll', () => polls().length > 0);
    expect(controller.requests.map(({ notOlderThan }) => notOlderThan).filter(Boolean)).toEqual([]);
  });

  test('that could not be saved is not named in a poll', async () => {
    const full = database.value;
    database.value = {
      ...full,
      saveResponses: () => {
        throw new Error('database or disk is full');
      },
    };
    const agent = await provision(start(), view());
    await until('two polls', () => controller.requests.filter(({ path }) => path === '/agent/changes').length > 1);
    expect(controller.requests.every(({ have }) => !have?.includes('microserviceList'))).toBe(true);
    expect(agent.connection.state).toBe('OK');
    expect(engine.running().size).toBe(0);
  });

  test('is not needed for a section that this version ignores: the agent does not poll in a busy loop', async () => {
    controller.flags = { volumeMounts: 'abc1', execSessions: 'abc2', routerChanged: 'abc3' };
    await running();
    await until('a poll that passes them', () =>
      controller.requests.some(({ have }) => have?.includes('execSessions:abc2')),
    );
    const polls = () => controller.requests.filter(({ path }) => path === '/agent/changes').length;
    const before = polls();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(polls() - before).toBeLessThanOrEqual(1);
  });
});

describe('a problem with the controller', () => {
  const problems: Record<string, { fault: NonNullable<FakeController['fault']>; connection: string }> = {
    '401': { fault: () => failure(401, 'AGENT_NODE_NOT_FOUND'), connection: 'UNAUTHORIZED' },
    '404': { fault: () => failure(404, 'NOT_FOUND'), connection: 'NOT_FOUND' },
    '500': { fault: () => failure(500, 'OOPS'), connection: 'INTERNAL_ERROR' },
    '503': { fault: () => failure(503, 'CONTROLLER_NOT_READY', { 'retry-after': '0' }), connection: 'NOT_CONNECTED' },
    'a broken connection': { fault: () => 'cut', connection: 'NOT_CONNECTED' },
    'a response that is not JSON': { fault: () => ({ status: 200, body: undefined }), connection: 'INTERNAL_ERROR' },
  };
  for (const [name, { fault, connection }] of Object.entries(problems))
    test(`${name} gives the connection ${connection}, and every container keeps running`, async () => {
      const agent = await running();
      const before = await engine.containers();
      controller.change({ fault, microservices: [] });
      await until(connection, () => agent.connection.state === connection);
      expect(await engine.containers()).toEqual(before);
      expect(agent.identity.node?.uuid).toBe(controller.nodeUuid);
      await restart();
      await until('a running container', () => engine.running().size === 1);
    });

  test('503 with Retry-After makes the agent retry after that time', async () => {
    const agent = start();
    let refused = 0;
    controller.fault = (_method, path) =>
      path === '/agent/changes' && refused++ < 2
        ? failure(503, 'CONTROLLER_NOT_READY', { 'retry-after': '0' })
        : undefined;
    await agent.provision(controller.joinString);
    await until('OK', () => agent.connection.state === 'OK');
    expect(refused).toBeGreaterThan(2);
  });

  test('a response that is larger than the limit is not read', async () => {
    const agent = await running();
    controller.change({
      microservices: [view({ revision: 'r2' })],
      fault: at('/agent/microservices', { status: 200, body: 'x'.repeat(33 * 1024 * 1024) }),
    });
    await until('the problem', () => agent.connection.state === 'NOT_CONNECTED');
    expect(agent.connection.error).toContain('larger than');
    expect(engine.running().size).toBe(1);
  });

  test('an edit whose list another program answers with 404, such as a proxy without its routes, is read afterwards', async () => {
    const agent = await running();
    controller.change({
      microservices: [view({ revision: 'r2' })],
      fault: at('/agent/microservices', { status: 404, body: '404 page not found' }),
    });
    await until('the problem', () => agent.connection.state === 'NOT_FOUND');
    expect(engine.running().size).toBe(1);
    controller.fault = undefined;
    await until('the new revision', () => status()?.revision === 'r2');
  });

  test('429 of a proxy is no other program, and its Retry-After counts', async () => {
    const agent = await running();
    controller.change({ fault: () => ({ status: 429, body: 'slow down', headers: { 'retry-after': '300' } }) });
    await until('the problem', () => agent.connection.state === 'NOT_CONNECTED');
    expect(agent.connection.error).not.toContain('another program');
  });

  test('a list that cannot be parsed removes nothing and does not replace the last one', async () => {
    const agent = await running();
    controller.change({
      microservices: [view({ revision: 'r2' })],
      fault: at('/agent/microservices', { status: 200, body: { microservices: 'none' } }),
    });
    await until('the problem', () => agent.connection.state === 'INTERNAL_ERROR');
    expect(engine.running().size).toBe(1);
    expect((await restart()).view(uuid)).toMatchObject({ revision: 'r1' });
    controller.fault = undefined;
    await until('the new revision', () => status()?.revision === 'r2');
  });
});

describe('reports', () => {
  test('a change is sent at once, without the measurements', async () => {
    await running();
    await until('quiet', () => controller.reports.length > 0);
    const [container] = await engine.containers();
    controller.reports.length = 0;
    engine.exit(container?.id ?? '', 1);
    await until('the crash', () => status()?.lastError !== undefined);
    const sent = controller.reports.find(({ microserviceStatus }) => microserviceStatus);
    expect(Object.keys(sent ?? {})).not.toContain('systemOs');
    expect(status()).toMatchObject({
      status: 'RESTARTING',
      reason: 'Crashed',
      lastError: 'exitCode=1 oomKilled=false',
    });
  });

  test('are complete again when the controller does not know the last report', async () => {
    await running();
    await until('quiet', () => controller.said.systemCpus === 2);
    controller.reports.length = 0;
    controller.forgetful = true;
    await crash();
    await until('a complete report', () =>
      controller.reports.some((report) => report.systemCpus === 2 && report.version),
    );
    expect(controller.reports[0]?.version).toBeUndefined();
  });

  test('contain either all microservices or none', async () => {
    const other = view({ uuid: randomUUID(), name: 'db' });
    await running([view(), other]);
    for (const { microserviceStatus } of controller.reports)
      if (microserviceStatus && microserviceStatus.length > 0) expect(microserviceStatus.length).toBe(2);
    controller.change({ microservices: [view()] });
    await until('STOPPED', () =>
      controller.reports.some((r) => r.microserviceStatus?.some((m) => m.id === other.uuid && m.status === 'STOPPED')),
    );
    await until('one left', () => controller.said.microserviceStatus?.length === 1);
  });

  test('contain the settings of the controller in use, and refuse those that only the machine sets', async () => {
    await running();
    controller.change({
      config: {
        statusFrequency: 7,
        containerEngineUrl: 'unix:///elsewhere',
        watchdogEnabled: true,
        logLevel: 'info',
      },
    });
    await until('the report', () => controller.said.config?.statusFrequency === 7);
    expect(controller.said.config).toMatchObject({ containerEngineUrl: 'memory:', watchdogEnabled: false });
    expect(controller.said.refusedSettings?.map(({ field }) => field)).toEqual([
      'containerEngineUrl',
      'watchdogEnabled',
    ]);
  });

  test('echo an action, which the agent performs once', async () => {
    const agent = await running();
    engine.images.set('old/image:1', 'sha256:old');
    agent.database.saveImage('sha256:old', 'old/image:1');
    engine.images.set('users/own:1', 'sha256:users');
    controller.change({ flags: { prune: 'aa01' }, actions: { prune: 4 } });
    await until('the echo', () => controller.said.actions?.prune === 4);
    await until('the image to go', () => !engine.images.has('old/image:1'));
    expect(engine.images.has('users/own:1')).toBe(true);
    expect(engine.images.has('example/app:1')).toBe(true);
    // The controller knows it as done; another image would be removed by another pruning.
    engine.images.set('old/image:2', 'sha256:older');
    agent.database.saveImage('sha256:older', 'old/image:2');
    controller.change({ flags: {} });
    await until(
      'a poll that no longer has it',
      () => !controller.requests.findLast(({ have }) => have)?.have?.includes('prune:'),
    );
    expect(engine.images.has('old/image:2')).toBe(true);
    expect(agent.database.value('actions')).toBe('{"prune":{"digest":"","count":4}}');
  });

  test.each([
    { node: 'another node', end: 'forgotten' },
    { node: 'the same node', end: 'kept' },
  ])('actions of an agent that was refused and is provisioned as $node are $end', async ({ end }) => {
    const agent = await running();
    controller.change({ flags: { prune: 'aa01' }, actions: { prune: 4 } });
    await until('the echo', () => controller.said.actions?.prune === 4);
    await forget(agent, { flags: {}, actions: {} });
    if (end === 'forgotten') controller.nodeUuid = randomUUID();
    controller.said = {};
    await agent.provision(controller.joinString);
    await until('a report', () => controller.said.version !== undefined);
    expect(controller.said.actions?.prune).toBe(end === 'forgotten' ? undefined : 4);
  });

  test('echo a reboot after the agent was started again, and its containers run on', async () => {
    let restarts = 0;
    const restartable = { restart: () => void restarts++ };
    const before = start({}, restartable);
    await provision(before, view());
    await untilRunning();
    const [container] = await engine.containers();
    controller.change({ flags: { reboot: 'bb01' }, actions: { reboot: 1 } });
    await until('the restart', () => restarts === 1);
    expect((await before.report(false)).actions).toBeUndefined();
    await restart(restartable);
    await until('the echo', () => controller.said.actions?.reboot === 1);
    expect(restarts).toBe(1);
    expect((await engine.containers()).map(({ id }) => id)).toEqual([container?.id]);
  });
});

test('when the database cannot be written, supervision continues from memory and the report has a warning', async () => {
  const full = database.value;
  const agent = await running();
  full.saveRecords = () => {
    throw new Error('database or disk is full');
  };
  await crash();
  await until('the warning', () => controller.said.warningMessage?.includes('database or disk is full'));
  expect(controller.said.daemonStatus).toBe('WARNING');
  agent.supervisor.local.start(uuid);
  await until('RUNNING', () => engine.running().size === 1);
});

describe('entries that may not run', () => {
  test('a hold leaves the container running, and the report has its reason', async () => {
    await running();
    const before = await engine.containers();
    controller.change({
      microservices: [{ uuid, hold: true, reason: 'RegistryNotFound', message: 'registry 7 is gone' }],
    });
    await until('the reason', () => status()?.reason === 'RegistryNotFound');
    expect(status()).toMatchObject({
      status: 'RUNNING',
      revision: 'r1',
      errorMessage: 'registry 7 is gone',
    });
    expect(await engine.containers()).toEqual(before);
  });

  test('an entry that the policy refuses fails with the reason, and the others run', async () => {
    const agent = start({ privileged: false });
    const other = randomUUID();
    await provision(agent, view({ isPrivileged: true }), view({ uuid: other, name: 'db' }));
    await until('the other', () => controller.microservice(other)?.status === 'RUNNING');
    expect(status()).toMatchObject({ status: 'FAILED', reason: 'PolicyRefused' });
    expect(status()?.errorMessage).toContain('privileged');
    expect(engine.running().size).toBe(1);
  });

  test('an entry that the policy or the controller refuses has its name, by which it can be inspected', async () => {
    const agent = start({ privileged: false });
    const held = { uuid: randomUUID(), hold: true, reason: 'PortTaken', message: 'port 80 is taken' } as const;
    const unreadable = { ...view({ uuid: randomUUID(), name: 'odd' }), imageId: 7 } as unknown as View;
    await provision(agent, view({ isPrivileged: true }), { ...held, application: 'shop', name: 'db' }, unreadable);
    await until('all', () => agent.microservices()?.length === 3);
    const named = agent.microservices()?.map(({ application, name, reason }) => [application, name, reason]);
    expect(named?.toSorted()).toEqual([
      ['shop', 'db', 'PortTaken'],
      ['shop', 'odd', 'NotUnderstood'],
      ['shop', 'web', 'PolicyRefused'],
    ]);
  });

  test('a policy that is tightened is reported of the microservice that runs, which runs on', async () => {
    const agent = await running([view({ isPrivileged: true })]);
    agent.setPolicy(policySchema.parse({ privileged: false }));
    await until('the reason', () => status()?.reason === 'PolicyRefused');
    expect(status()).toMatchObject({
      status: 'RUNNING',
      revision: 'r1',
      errorMessage: expect.stringContaining('privileged'),
    });
    agent.setPolicy(policySchema.parse({}));
    await until('no reason', () => status()?.reason === undefined);
  });

  const TARGETS: Record<string, [string, Record<string, unknown>, 'RUNNING' | 'FAILED']> = {
    'starts again when the directory is now a link to an allowed place': ['/mnt/large', {}, 'RUNNING'],
    'does not start when the directory is now a link into the data of the agent': ['/nowhere/volumes', {}, 'FAILED'],
    'does not start when the directory is now a link to a place that the policy does not allow': [
      '/mnt/large',
      { bindPrefixes: ['/srv'] },
      'FAILED',
    ],
    'does not start when the directory is now a link and the policy restricts binds to prefixes': [
      '/srv/large',
      { bindPrefixes: ['/srv'] },
      'FAILED',
    ],
  };
  for (const [name, [target, policy, state]] of Object.entries(TARGETS))
    test(`a container with a bind mount ${name}`, async () => {
      let moved = false;
      const follow = (path: string) => (moved && path === '/srv/data' ? target : path);
      const agent = start(policy, { protectedPaths: ['/nowhere'], places: { ...PLAIN_PLACES, follow } });
      const bind = { type: 'bind', hostDestination: '/srv/data', containerDestination: '/data' } as const;
      await provision(agent, view({ volumeMappings: [{ ...bind, accessMode: 'rw', scope: 'private' }] }));
      await untilRunning();
      moved = true;
      await crash();
      await until('the end', () => status()?.status !== 'RUNNING');
      agent.supervisor.local.start(uuid);
      await until(state, () => status()?.status === state);
    });

  test('an entry that cannot be parsed does not affect the others', async () => {
    const agent = start();
    const bad = { uuid: randomUUID(), name: 7 } as unknown as View;
    await provision(agent, bad, view());
    await until('the good one', () => status()?.status === 'RUNNING');
    expect(controller.microservice(bad.uuid)).toMatchObject({ reason: 'NotUnderstood' });
  });
});

describe('a restored datastore', () => {
  const retainUnlisted = { reason: 'DatastoreRestored', acceptEpoch: '2.bbbbbbbb', position: '2.bbbbbbbb.0' };
  const a = view({ uuid: randomUUID(), name: 'a' });
  const b = view({ uuid: randomUUID(), name: 'b' });
  const containerOf = async ({ uuid }: { uuid: string }) =>
    (await engine.containers()).find((container) => container.uuid === uuid)?.id;

  test('a microservice that the list does not name keeps running, also after a restart, until the list is complete', async () => {
    controller.epochPosition = '1.aaaaaaaa.3';
    await running([a, b]);
    await until('the position to be saved', () => database.value.value('epochPosition') === '1.aaaaaaaa.3');
    const before = await containerOf(b);
    controller.change({ retainUnlisted, microservices: [a] });
    await until('a hold', () => controller.microservice(b.uuid)?.reason === 'DatastoreRestored');
    expect(requests.at(-1)?.headers?.['skerry-epoch-position']).toBe('1.aaaaaaaa.3');
    const polls = () => controller.requests.filter(({ path }) => path === '/agent/changes').length;
    const earlier = polls();
    await restart();
    await until('a poll', () => polls() > earlier);
    expect(await containerOf(b)).toBe(before);
    expect(database.value.value('epochPosition')).toBe('1.aaaaaaaa.3');
    controller.change({ retainUnlisted: undefined, epochPosition: '2.bbbbbbbb.5' });
    await until('the container to be gone', async () => (await containerOf(b)) === undefined);
    expect(await containerOf(a)).toBeDefined();
    expect(database.value.value('epochPosition')).toBe('2.bbbbbbbb.5');
  });

  test('the agent saves the new position when there is nothing to retain', async () => {
    controller.epochPosition = '1.aaaaaaaa.3';
    await running([a]);
    controller.change({ retainUnlisted });
    await until('the position to be saved', () => database.value.value('epochPosition') === retainUnlisted.position);
  });

  test('the containers are retained when the node is provisioned again in an emptied datastore', async () => {
    const agent = await running([a]);
    const before = await containerOf(a);
    const { publicKey } = controller;
    await forget(agent);
    controller.retainUnlisted = retainUnlisted;
    await provision(agent);
    expect(controller.publicKey).not.toEqual(publicKey);
    await until('a hold', () => controller.microservice(a.uuid)?.reason === 'DatastoreRestored');
    expect(await containerOf(a)).toBe(before);
  });
});

test('a node whose controller moves to another address continues there with its identity, and nothing restarts', async () => {
  const agent = await running();
  const before = (await engine.containers()).map(({ id, startedAt }) => [id, startedAt]);
  await controller.close();
  await controller.listen(0);
  agent.moveController(`${controller.url}/api/v3`);
  expect(agent.identity.node).toMatchObject({ uuid: controller.nodeUuid, controllerUrl: controller.url });
  controller.said = {};
  await until('a report at the new address', () => status()?.status === 'RUNNING');
  await restart();
  await until('another', () => controller.reports.length > 1);
  expect((await engine.containers()).map(({ id, startedAt }) => [id, startedAt])).toEqual(before);
});

test('a deletion of the node whose response was lost does not end a later membership', async () => {
  const agent = await running();
  database.value.saveValue('ending', 'deleteNode');
  await forget(agent);
  await agent.provision(controller.joinString);
  const again = await restart();
  await until('to be connected', () => again.connection.state === 'OK');
  expect(again.identity.node).toBeDefined();
  expect(engine.running().size).toBe(1);
});

test('an image name of the relay that another pull restored is removed when the last pull has ended', async () => {
  const agent = start();
  const stray = `127.0.0.1:9/${relayPrefix(agent.identity.instance)}0123/example/app:1`;
  engine.faults.before = (operation) => {
    if (operation === 'pull') engine.images.set(stray, 'sha256:of-another-pull');
  };
  controller.registries = [{ id: 7, url: 'http://registry.example', isPublic: true, insecure: true }];
  controller.microservices = [view({ registryId: 7 })];
  await agent.provision(controller.joinString);
  await untilRunning();
  await until('the name to be gone', () => !engine.images.has(stray));
  expect([...engine.images.keys()]).toEqual(['registry.example/example/app:1']);
});

test('another registry, and another URL of a registry, lead to a new container; until it runs, the old revision is reported', async () => {
  controller.registries = [7, 8].map((id) => ({ id, url: `http://${id}.example`, isPublic: true }));
  await running([view({ registryId: 7 })]);
  const first = status()?.containerId;
  engine.faults.before = (operation) => {
    if (operation === 'pull') throw new EngineError('ImagePullFailed', '8.example is down');
  };
  controller.microservices = [view({ registryId: 8, revision: 'r2' })];
  await until('the reason', () => status()?.errorMessage === '8.example is down');
  expect(status()).toMatchObject({ status: 'RUNNING', containerId: first, revision: 'r1' });

  engine.faults.before = undefined;
  const isAt = (url: string) => {
    controller.registries = [{ id: 8, url, isPublic: true }];
  };
  isAt('http://moved.example');
  await until('the new revision', () => status()?.revision === 'r2' && status()?.status === 'RUNNING');
  const second = status()?.containerId;
  expect(second).not.toBe(first);
  isAt('http://further.example');
  await until('another container', () => status()?.containerId !== second && status()?.status === 'RUNNING');
  expect([...engine.images.keys()]).toEqual(['7', 'moved', 'further'].map((host) => `${host}.example/example/app:1`));
  const third = status()?.containerId;
  engine.history.length = 0;
  const again = await restart();
  await until('a look', () => again.supervisor.hasLooked && again.connection.state === 'OK');
  expect(again.supervisor.containers.map(({ id }) => id)).toEqual([third]);
  expect(engine.history).toEqual([]);
});

describe('exec and log sessions', () => {
  const asked = (path: string) => controller.requests.filter((request) => request.path === path).length;

  test('are asked for once where the controller has none, though it says that they changed', async () => {
    await running();
    for (const digest of ['ab', 'cd']) {
      controller.change({ flags: { execSessions: digest } });
      await until('the digest', () => controller.requests.some(({ have }) => have?.includes(`execSessions:${digest}`)));
    }
    await until('the lists', () => asked('/agent/logs/sessions') === 1);
    expect(asked('/agent/exec/sessions')).toBe(1);
  });

  test('whose list does not come delay no change of the desired state', async () => {
    await running();
    controller.fault = (_method, path) => (path.endsWith('/sessions') ? 'hang' : undefined);
    controller.change({ flags: { execSessions: 'ab' } });
    await until('the request', () => asked('/agent/exec/sessions') > 0);
    const another = randomUUID();
    controller.change({ microservices: [view(), view({ uuid: another, name: 'db' })] });
    await untilRunning(another);
  });
});

describe('the end of the membership', () => {
  test('deleteNode is confirmed to the controller and removes the containers and the node from the identity', async () => {
    const agent = await running();
    controller.change({ flags: { deleteNode: 'ff' } });
    await until('no containers', async () => (await engine.containers()).length === 0);
    expect(controller.deleted).toBe(true);
    await until('the end of the membership', () => agent.identity.node === undefined);
    expect(identity.value.load()).toMatchObject({ instance: agent.identity.instance });
    expect(agent.connection.state).toBe('NOT_PROVISIONED');
  });

  test('deprovisioning works while the controller is down', async () => {
    const agent = await running();
    await controller.close();
    expect(await agent.deprovision()).toEqual({ controllerTold: false });
    await until('no containers', async () => (await engine.containers()).length === 0);
    await controller.listen();
  });

  test('a restart in the middle of the removal continues it', async () => {
    const agent = await running();
    engine.faults.before = (operation) => {
      if (operation === 'stop') throw new Error('not now');
    };
    await agent.deprovision();
    expect(engine.running().size).toBe(1);
    engine.faults.before = undefined;
    await restart();
    await until('no containers', async () => (await engine.containers()).length === 0);
  });
});
