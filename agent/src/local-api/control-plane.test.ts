import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { isControlPlaneUuid, newControlPlaneUuid } from '../domain/local-uuid.ts';
import { EngineError } from '../engine-port/error.ts';
import { until } from '../engines/_contract.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { FakeController } from '../link/_fake-controller.ts';
import { controlPlaneManifest, SECRETS } from '../local/_control-plane.ts';
import { manifestOf } from '../local/_manifest.ts';
import type { LocalRow } from '../local/row.ts';
import { memoryRows } from '../state/_rows.ts';
import { type Asked, LocalAgent } from './_local-agent.ts';

/** The control plane of a machine, over its local API, on an engine in memory. */

let local: LocalAgent;
let engine: MemoryEngine;
let controller: FakeController;
let rows: ReturnType<typeof memoryRows<LocalRow>>;
/** whether the disk takes no writes */
let isFull: boolean;
let folder: string;

beforeEach(async () => {
  folder = temporaryFolder();
  engine = new MemoryEngine({ anyImage: true });
  controller = await new FakeController().listen();
  isFull = false;
  const inMemory = memoryRows<LocalRow>();
  const refuse = () => {
    if (isFull) throw new Error('ENOSPC: no space left on device');
  };
  rows = {
    ...inMemory,
    save: (id, row) => {
      refuse();
      inMemory.save(id, row);
    },
    remove: (id) => {
      refuse();
      inMemory.remove(id);
    },
  };
  await begin();
  return async () => {
    await local[Symbol.asyncDispose]();
    await controller.close();
  };
});

async function begin(): Promise<void> {
  local = await LocalAgent.start({ folder, engine, controller, deps: { ownMicroservices: rows } });
  await until('a look', () => local.agent.supervisor.hasLooked);
}

const APPLY = '/v1/deploy/controlplane:apply';
const apply = (spec: object = {}, metadata: object = {}, fields: Record<string, string> = {}) =>
  local.upload(APPLY, controlPlaneManifest(spec, metadata), fields);
const image = (tag: string) => ({ controller: { image: `example/control-plane:${tag}`, registry: 1 } });

async function ended(begun: Asked): Promise<Record<string, unknown>> {
  const { operationId } = begun.body.data ?? {};
  let operation: Record<string, unknown> = {};
  await until('the end of the operation', async () => {
    operation = (await local.ask('GET', `${APPLY}/${operationId}`)).body.data ?? {};
    return operation.status !== 'running';
  });
  return operation;
}

const only = () => [...rows.all.values()][0] as LocalRow;
const status = async () => (await local.ask('GET', '/v1/system/controlplane')).body;
/** The health check of the container says that it is ready. */
async function become(health: 'healthy' | 'unhealthy'): Promise<void> {
  await until('a container', async () => (await running()).length === 1);
  for (const { id } of await running()) engine.setHealth(id, health);
}
const running = async () => (await engine.containers()).filter(({ state }) => state === 'running');

async function deploy(spec: object = {}): Promise<Record<string, unknown>> {
  const begun = await apply(spec);
  expect(begun.status).toBe(202);
  await become('healthy');
  return ended(begun);
}

test('a control plane that is deployed has succeeded once it is healthy, and its status says what it is', async () => {
  expect(await deploy()).toMatchObject({
    status: 'succeeded',
    stage: 'done',
    mode: 'create',
    name: 'hub',
    namespace: 'default',
  });
  expect(await status()).toMatchObject({
    ...{ name: 'hub', namespace: 'default', source: 'controlplane', type: 'controlplane', generation: 1 },
    ...{ state: 'running', desiredState: 'running', observedGeneration: 1, image: 'example/control-plane:1' },
  });
  expect((await local.ask('GET', '/v1/system/controller')).body).toMatchObject({ name: 'hub' });
  expect(isControlPlaneUuid(only().uuid)).toBe(true);
  expect((await local.ask('GET', '/v1/ms?source=controlplane')).body.items).toMatchObject([
    { name: 'controller', application: 'skerry-agent', type: 'controller' },
  ]);
});

test('a second apply in the same tick is refused, and names the first one', async () => {
  for (let round = 0; round < 20; round++) {
    const answers = await Promise.all(['a', 'b'].map((which) => apply(image(`${round}${which}`))));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([202, 409]);
    const [taken, refused] = answers.toSorted((a, b) => a.status - b.status) as [Asked, Asked];
    expect(refused.body.error).toMatchObject({
      code: 'APPLY_IN_PROGRESS',
      details: { activeOperationId: taken.body.data?.operationId },
    });
    expect((await local.ask('POST', '/v1/system/controlplane/restart')).body.error?.code).toBe('APPLY_IN_PROGRESS');
    expect((await local.ask('DELETE', '/v1/system/controlplane')).body.error?.code).toBe('APPLY_IN_PROGRESS');
    await become('healthy');
    await ended(taken);
  }
});

test('a dry run judges, changes nothing and waits for no apply', async () => {
  await apply();
  const { status, body } = await apply(image('2'), {}, { dryRun: 'true' });
  expect([status, body.data]).toEqual([
    200,
    expect.objectContaining({ valid: true, dryRun: true, kind: 'ControlPlane' }),
  ]);
  expect(only().view?.imageId).toBe('example/control-plane:1');
  expect((await local.upload('/v1/deploy/controlplane:validate', controlPlaneManifest({ vault: {} }))).status).toBe(
    400,
  );
});

const refusePulls = (): void => {
  engine.faults.before = (operation) => {
    if (operation === 'pull') throw new EngineError('NotFound', 'no such image');
  };
};

describe('an apply that fails', () => {
  test('leaves what ran', async () => {
    await deploy(image('1'));
    refusePulls();
    expect(await ended(await apply(image('2')))).toMatchObject({
      status: 'failed',
      error: { message: expect.stringContaining('What ran before runs again') },
    });
    expect(only()).toMatchObject({
      view: { imageId: 'example/control-plane:1' },
      manifest: expect.stringContaining(':1'),
    });
    await until('the former one to run', async () => (await status()).observedGeneration === only().generation);
    expect((await engine.containers()).map(({ state }) => state)).toEqual(['running']);
  });

  test('brings back what ran where the other one does not become healthy', async () => {
    await deploy(image('1'));
    const begun = await apply(image('2'));
    await until('the other one', async () => (await status()).observedGeneration === 2);
    await become('unhealthy');
    expect(await ended(begun)).toMatchObject({ status: 'failed' });
    await until('the former one', async () => (await status()).observedGeneration === 3);
    expect(only().view?.imageId).toBe('example/control-plane:1');
  });

  test('leaves what ran also where that became ready after its own apply had failed', async () => {
    refusePulls();
    expect(await ended(await apply(image('1')))).toMatchObject({ status: 'failed' });
    engine.faults.before = undefined;
    await local.ask('POST', `/v1/ms/${only().uuid}/start`);
    await become('healthy');
    await until('the end of the apply', () => only().controlPlane?.isApplying === undefined);
    refusePulls();
    expect(await ended(await apply(image('2')))).toMatchObject({ status: 'failed' });
    expect(only().view?.imageId).toBe('example/control-plane:1');
  });
});

describe('the end of an apply that cannot be saved is saved once the disk takes it', () => {
  const begunOnDiskThatFills = async (health: 'healthy' | 'unhealthy') => {
    await deploy(image('1'));
    const begun = await apply(image('2'));
    await until('the other one', async () => (await status()).observedGeneration === 2);
    await until('the end of the former one', async () => (await engine.containers()).length === 1);
    isFull = true;
    await become(health);
    expect(await ended(begun)).toMatchObject({
      status: 'failed',
      error: { message: expect.stringContaining('ENOSPC') },
    });
    expect(only().controlPlane?.isApplying).toBe(true);
    isFull = false;
    // The next look of the agent.
    await become(health);
  };

  test('where it failed: what ran before it runs again', async () => {
    await begunOnDiskThatFills('unhealthy');
    await until('the former one', async () => (await status()).observedGeneration === 3);
    expect(only()).toMatchObject({ view: { imageId: 'example/control-plane:1' }, controlPlane: { name: 'hub' } });
  });

  test('where it succeeded', async () => {
    await begunOnDiskThatFills('healthy');
    await until('the end', () => only().controlPlane?.isApplying === undefined);
    expect(only().view?.imageId).toBe('example/control-plane:2');
  });
});

test('a prune in an apply leaves the image of what ran', async () => {
  await deploy(image('1'));
  await apply(image('2'));
  await until('the other one', async () => (await status()).observedGeneration === 2);
  await until('the end of the former one', async () => (await engine.containers()).length === 1);
  expect((await local.ask('POST', '/v1/images:prune')).status).toBe(200);
  expect([...engine.images.keys()].toSorted()).toEqual(['example/control-plane:1', 'example/control-plane:2']);
});

describe('where the file of its row', () => {
  const saysSo = async (uuid: string) => {
    const text = new RegExp(`${uuid}.*deploy its manifest again`);
    for (const method of ['GET', 'DELETE'] as const)
      expect(await local.ask(method, '/v1/system/controlplane')).toMatchObject({
        ...{ status: 404, body: { error: { message: expect.stringMatching(text) } } },
      });
    const problem = local.agent.problems.find((each) => each.includes(uuid));
    expect(problem).toMatch(/its file on this machine is lost|of its file/);
    expect(problem).not.toContain('ms rm');
  };

  test('is lost, that is said, and an apply finds it again', async () => {
    await deploy();
    const { uuid } = only();
    const made = (await engine.containers()).map(({ id }) => id);
    await local[Symbol.asyncDispose]();
    rows.remove(uuid);
    await begin();
    await until('a problem', () => local.agent.problems.some((each) => each.includes(uuid)));
    await saysSo(uuid);
    await deploy();
    expect([only().uuid, (await engine.containers()).map(({ id }) => id)]).toEqual([uuid, made]);
  });

  test('is lost with its record and its container, a prune leaves its volume and an apply finds it again', async () => {
    await deploy();
    const { uuid } = only();
    const volume = join(folder, 'volumes', 'data', uuid, 'data');
    mkdirSync(volume, { recursive: true });
    writeFileSync(join(volume, 'kept'), '');
    await local[Symbol.asyncDispose]();
    rows.remove(uuid);
    for (const { id } of await engine.containers()) {
      await engine.kill(id);
      await engine.remove(id);
    }
    await begin();
    await local.ask('POST', '/v1/volumes:prune?yes=true&force=true');
    const text = new RegExp(`${uuid}.*deploy its manifest again`);
    expect((await local.ask('GET', '/v1/system/controlplane')).body.error?.message).toMatch(text);
    await deploy();
    expect(only().uuid).toBe(uuid);
    expect(readdirSync(volume)).toEqual(['kept']);
  });

  test('is damaged and nothing else is known of it, its volumes are found again', async () => {
    const uuid = newControlPlaneUuid();
    (rows.unreadable as Map<string, string>).set(uuid, 'it is damaged');
    await saysSo(uuid);
    await deploy();
    expect(only().uuid).toBe(uuid);
  });
});

test('an apply that fails leaves a control plane that was stopped', async () => {
  await deploy(image('1'));
  await local.ask('POST', `/v1/ms/${only().uuid}/stop`);
  expect(only().desiredState).toBe('stopped');
  refusePulls();
  expect(await ended(await apply(image('2')))).toMatchObject({
    status: 'failed',
    error: { message: expect.stringMatching(/The former manifest counts again, and it is stopped$/) },
  });
  expect(only()).toMatchObject({ view: { imageId: 'example/control-plane:1' }, desiredState: 'stopped' });
});

test('a stop in an apply ends the apply, also where the agent ends before', async () => {
  await deploy(image('1'));
  await apply(image('2'));
  await until('the other one', async () => (await status()).observedGeneration === 2);
  await local[Symbol.asyncDispose]();
  rows.save(only().uuid, { ...only(), desiredState: 'stopped' });
  await begin();
  await until('the end', () => only().controlPlane?.isApplying === undefined);
  expect(only()).toMatchObject({ view: { imageId: 'example/control-plane:1' }, desiredState: 'stopped' });
});

test('the agent continues an apply in which it has ended', async () => {
  await apply();
  await until('a container', async () => (await engine.containers()).some(({ state }) => state === 'running'));
  await local[Symbol.asyncDispose]();
  expect(only().controlPlane?.isApplying).toBe(true);
  await begin();
  expect((await apply(image('2'))).body.error?.code).toBe('APPLY_IN_PROGRESS');
  await become('healthy');
  await until('the end', () => only().controlPlane?.isApplying === undefined);
});

test('another name is refused, and changes nothing', async () => {
  await deploy();
  expect(await apply({}, { name: 'other' })).toMatchObject({ status: 409, body: { error: { code: 'CONFLICT' } } });
  expect(only().controlPlane?.name).toBe('hub');
});

describe('of a machine that is a node', () => {
  beforeEach(async () => {
    await deploy();
    await local.agent.provision(controller.joinString);
  });

  test('the control plane is neither removed, stopped, killed nor started by hand', async () => {
    const { uuid } = only();
    for (const [method, path] of [
      ['DELETE', '/v1/system/controlplane'],
      ['DELETE', `/v1/ms/${uuid}`],
      ['POST', `/v1/ms/${uuid}/stop`],
      ['POST', `/v1/ms/${uuid}/start`],
      ['POST', `/v1/ms/${uuid}/restart`],
      ['POST', `/v1/ms/${uuid}/kill`],
    ] as const)
      expect([path, (await local.ask(method, path)).status]).toEqual([path, 403]);
    expect((await local.ask('POST', '/v1/system/controlplane/restart')).status).toBe(200);
  });

  test('the control plane stays where its membership ends with everything', async () => {
    const before = (await engine.containers()).map(({ id }) => id);
    await local.ask('DELETE', '/v1/system/provision?scope=all&purgeVolumes=true');
    expect(only().desiredState).toBe('running');
    expect((await engine.containers()).map(({ id }) => id)).toEqual(before);
  });
});

test('a restart with pull makes the container again from its image, and one without starts it', async () => {
  await deploy();
  const before = (await engine.containers()).map(({ id }) => id);
  expect((await local.ask('POST', '/v1/system/controlplane/restart')).body).toMatchObject({ status: 'ok' });
  expect((await engine.containers()).map(({ id }) => id)).toEqual(before);
  expect((await local.ask('POST', '/v1/system/controlplane/restart?pull=true')).status).toBe(200);
  await until('another container', async () => {
    const now = (await engine.containers()).filter(({ state }) => state === 'running').map(({ id }) => id);
    return now.length === 1 && now[0] !== before[0];
  });
  const made = (await engine.containers()).map(({ id }) => id);
  await deploy();
  expect((await engine.containers()).map(({ id }) => id)).toEqual(made);
});

test('a removal continues after the agent has ended in it, and leaves no row', async () => {
  await deploy();
  engine.faults.before = (operation) => {
    if (operation === 'remove') throw new EngineError('Failed', 'busy');
  };
  const asked = local.ask('DELETE', '/v1/system/controlplane').catch(() => undefined);
  await until('the order', () => only().desiredState === 'deleted');
  await local[Symbol.asyncDispose]();
  await asked;
  engine.faults.before = undefined;
  await begin();
  await until('the end', () => rows.all.size === 0);
  expect(await engine.containers()).toEqual([]);
  expect((await local.ask('GET', '/v1/system/controlplane')).status).toBe(404);
});

test('what cannot be saved is refused, and changes nothing', async () => {
  await deploy();
  const before = structuredClone(only());
  isFull = true;
  for (const [method, path] of [
    ['POST', '/v1/system/controlplane/restart?pull=true'],
    ['DELETE', '/v1/system/controlplane'],
  ] as const)
    expect((await local.ask(method, path)).status).toBe(503);
  expect((await apply(image('2'))).status).toBe(503);
  isFull = false;
  expect(only()).toEqual(before);
});

test('no reply, operation and log has a secret of the manifest', async () => {
  const begun = await apply(SECRETS.spec);
  await become('healthy');
  await ended(begun);
  const { uuid } = only();
  const replies = await Promise.all(
    [
      ...['/v1/system/controlplane', '/v1/system/controlplane/manifest', '/v1/system/info', '/v1/system/status'],
      ...[`${APPLY}/${begun.body.data?.operationId}`, `/v1/ms/${uuid}`, '/v1/ms', '/v1/deploy/microservices'],
      ...[`/v1/system/logs?tailLines=1000`, '/v1/volumes'],
    ].map((path) => local.ask('GET', path)),
  );
  const said = JSON.stringify([...replies.map(({ body }) => body), begun.body, local.logs]);
  expect(said).not.toContain('Canary');
  expect(said).not.toContain(SECRETS.base64);
});

test('a microservice of the machine cannot have the name of the control plane', async () => {
  await deploy();
  const { status } = await local.upload('/v1/deploy/microservices:apply', manifestOf('Controller', 'a:1'));
  expect(status).toBe(400);
  expect((await local.ask('GET', `/v1/deploy/microservices/${only().uuid}`)).status).toBe(404);
  expect((await local.ask('DELETE', `/v1/deploy/microservices/${only().uuid}`)).status).toBe(404);
});
