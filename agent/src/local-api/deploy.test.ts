import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { plainView } from '../_web.ts';
import { isLocalUuid, newLocalUuid } from '../domain/local-uuid.ts';
import { OPEN_POLICY } from '../domain/policy.ts';
import { EngineError } from '../engine-port/error.ts';
import { until } from '../engines/_contract.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { FakeController } from '../link/_fake-controller.ts';
import { manifestOf } from '../local/_manifest.ts';
import type { LocalRow } from '../local/row.ts';
import { memoryRows } from '../state/_rows.ts';
import { type Asked, LocalAgent } from './_local-agent.ts';

/** Microservices that are deployed on a machine, over its local API. */

let local: LocalAgent;
let engine: MemoryEngine;
let controller: FakeController;
let rows: ReturnType<typeof memoryRows<LocalRow>>;
let folder: string;

beforeEach(async () => {
  folder = temporaryFolder();
  engine = new MemoryEngine({ anyImage: true });
  controller = await new FakeController().listen();
  rows = memoryRows<LocalRow>();
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

/** The agent starts again, without its database. */
async function beginAgain(): Promise<void> {
  await local[Symbol.asyncDispose]();
  await begin();
}

const apply = (manifest: string, fields: Record<string, string> = {}) =>
  local.upload('/v1/deploy/microservices:apply', manifest, fields);

async function ended(begun: Asked): Promise<Record<string, unknown>> {
  const { operationId } = begun.body.data ?? {};
  let operation: Record<string, unknown> = {};
  await until('the end of the operation', async () => {
    operation = (await local.ask('GET', `/v1/deploy/microservices:apply/${operationId}`)).body.data ?? {};
    return operation.status !== 'running';
  });
  return operation;
}

const deployed = async (manifest: string) => ended(await apply(manifest));
const containers = async () => (await engine.containers()).map(({ id, state }) => `${id} ${state}`);
const items = async (path: string) => {
  const { body } = await local.ask('GET', path);
  return ((body.data ?? body) as { items: Record<string, unknown>[] }).items;
};

test('a microservice runs on a machine without a controller, and the operation says so', async () => {
  const begun = await apply(manifestOf('web', 'example/web:1'));
  expect(begun.status).toBe(202);
  expect(begun.body.data).toMatchObject({
    status: 'running',
    kind: 'Microservice',
    name: 'web',
    image: 'example/web:1',
  });
  const operation = await ended(begun);
  expect(operation).toMatchObject({ status: 'succeeded', stage: 'done' });
  expect(isLocalUuid(String(operation.deploymentId))).toBe(true);
  expect(await items('/v1/ms')).toMatchObject([
    { application: 'skerry-agent', name: 'web', source: 'local', state: 'RUNNING' },
  ]);
});

test('a microservice of the machine has a token, by which it reaches its own routes and no others', async () => {
  const { deploymentId } = await deployed(manifestOf('web', 'example/web:1', {}, { config: { a: 1 } }));
  await deployed(manifestOf('other', 'example/web:1'));
  const token = Buffer.from(local.files.read(`serviceaccounts/${deploymentId}`)?.get('token') ?? '').toString();
  const as = (method: string, path: string) => local.ask(method, path, undefined, token);
  const own = await as('GET', '/v1/microservices/config');
  expect([own.status, own.body.data]).toEqual([200, { microserviceUuid: deploymentId, config: { a: 1 } }]);
  for (const path of ['/v1/ms', '/v1/ms/web', '/v1/ms/other', '/v1/auth/whoami', '/v1/system/gps', '/v1/images'])
    expect((await as('GET', path)).status, path).toBe(403);
  expect((await as('POST', '/v1/ms/other/stop')).status).toBe(403);
});

test('a row is there with the answer to an apply', async () => {
  await apply(manifestOf('web', 'example/web:1'));
  expect([...rows.all.values()]).toMatchObject([{ name: 'web', desiredState: 'running', generation: 1 }]);
});

test('the same manifest keeps the container, and another one replaces it and raises the generation', async () => {
  await deployed(manifestOf('web', 'example/web:1'));
  const before = await containers();
  await deployed(manifestOf('web', 'example/web:1'));
  expect(await containers()).toEqual(before);
  await deployed(manifestOf('web', 'example/web:2'));
  const after = await containers();
  expect(after).toHaveLength(1);
  expect(after).not.toEqual(before);
  expect(await items('/v1/deploy/microservices')).toMatchObject([
    { name: 'web', image: 'example/web:2', generation: 2, observedGeneration: 2, state: 'running' },
  ]);
});

test('a dry run judges and changes nothing', async () => {
  const { status, body } = await apply(manifestOf('web', 'example/web:1'), { dryRun: 'true' });
  expect([status, body.data]).toEqual([200, expect.objectContaining({ valid: true, dryRun: true, name: 'web' })]);
  expect((await apply('kind: Pod', { dryRun: 'true' })).status).toBe(400);
  expect(rows.all.size).toBe(0);
});

test('one of two different applies at once arrives, and the other one says that it was replaced', async () => {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  engine.faults.before = (operation) => (operation === 'pull' ? held : undefined);
  const begun = await Promise.all(['1', '2'].map((tag) => apply(manifestOf('web', `example/web:${tag}`))));
  release();
  const operations = await Promise.all(begun.map(ended));
  expect(operations.map(({ status }) => status).toSorted()).toEqual(['failed', 'succeeded']);
  expect(rows.all.size).toBe(1);
  expect(await containers()).toHaveLength(1);
});

test('an image that cannot be had fails the operation with the reason, and what ran before runs on', async () => {
  await deployed(manifestOf('web', 'example/web:1'));
  engine.faults.before = (operation, subject) => {
    if (operation === 'pull' && subject === 'example/web:2') throw new EngineError('NotFound', 'no such image');
  };
  expect(await deployed(manifestOf('web', 'example/web:2'))).toMatchObject({
    status: 'failed',
    error: { code: 'UNAVAILABLE', message: expect.stringMatching(/no such image\. The agent goes on trying$/) },
  });
  expect(engine.running().size).toBe(1);
  engine.faults.before = undefined;
  expect(await deployed(manifestOf('web', 'example/web:2'))).toMatchObject({ status: 'succeeded' });
});

test('an apply fails without an engine, and waits for the first look at an engine that is back', async () => {
  const { supervisor } = local.agent;
  const held = Promise.withResolvers<void>();
  const read = engine.containers.bind(engine);
  const connect = engine.connect.bind(engine);
  engine.connect = () => Promise.reject(new EngineError('Unavailable', 'gone'));
  supervisor.reconnect();
  await until('the loss', () => supervisor.engine.state === 'lost');
  expect(await deployed(manifestOf('web', 'example/web:1'))).toMatchObject({
    status: 'failed',
    error: { message: expect.stringMatching(/EngineUnavailable.*goes on trying/) },
  });
  engine.containers = async () => {
    await held.promise;
    return read();
  };
  engine.connect = connect;
  await until('the engine', () => supervisor.engine.state === 'connected');
  const begun = await apply(manifestOf('web', 'example/web:1'));
  held.resolve();
  expect(await ended(begun)).toMatchObject({ status: 'succeeded' });
});

describe('a machine takes no microservice', () => {
  test('against its policy', async () => {
    local.agent.setPolicy({ ...OPEN_POLICY, privileged: false });
    const { status, body } = await apply(manifestOf('web', 'example/web:1', { isPrivileged: true }));
    expect([status, body.error?.message]).toEqual([400, expect.stringMatching(/policy.*no privileged containers/)]);
    expect(rows.all.size).toBe(0);
  });

  test('with a registry, a runtime or a model that it does not have', async () => {
    for (const [spec, message] of [
      [{ registry: 7 }, /spec\.registry: this machine has no registry 7; it has 1, 2/],
      [{ container: { runtime: 'kata' } }, /spec\.container\.runtime: docker has no runtime kata/],
      [{ models: { bindPath: '/m', items: [{ name: 'tiny' }] } }, /spec\.models: this machine has no model "tiny"/],
    ] as const) {
      const { status, body } = await apply(manifestOf('web', 'example/web:1', {}, spec));
      expect([status, body.error?.message]).toEqual([400, expect.stringMatching(message)]);
    }
  });
});

describe('a removal', () => {
  test('ends a microservice for good, and its name is free again', async () => {
    const { deploymentId } = await deployed(manifestOf('web', 'example/web:1'));
    expect(await local.cli('ms', 'rm', 'skerry-agent.web')).toMatchObject({
      code: 0,
      out: 'skerry-agent.web: removed\n',
    });
    await until('the row to be gone', () => rows.all.size === 0);
    expect(await containers()).toEqual([]);
    expect(await items('/v1/ms')).toEqual([]);
    const again = await deployed(manifestOf('web', 'example/web:1'));
    expect(again.deploymentId).not.toBe(deploymentId);
  });

  test('keeps the name until it is over', async () => {
    await deployed(manifestOf('web', 'example/web:1'));
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    engine.faults.before = (operation) => (operation === 'stop' ? held : undefined);
    const removal = local.ask('DELETE', '/v1/deploy/microservices/web');
    await until('the wish', () => [...rows.all.values()].every(({ desiredState }) => desiredState === 'deleted'));
    expect((await apply(manifestOf('WEB'.toLowerCase(), 'example/web:2'))).body.error).toMatchObject({
      code: 'CONFLICT',
    });
    release();
    expect((await removal).body).toMatchObject({ success: true, data: { status: 'ok' } });
  });

  test('continues after the process ended in the middle of it', async () => {
    await deployed(manifestOf('web', 'example/web:1'));
    engine.faults.before = (operation) => {
      if (operation === 'stop') throw new EngineError('Failed', 'it does not stop');
    };
    void local.ask('DELETE', '/v1/deploy/microservices/web').catch(() => {});
    await until('the wish', () => [...rows.all.values()].every(({ desiredState }) => desiredState === 'deleted'));
    engine.faults.before = undefined;
    await beginAgain();
    await until('nothing to be left', () => rows.all.size === 0);
    expect(await containers()).toEqual([]);
  });
});

describe('a machine that lost its database', () => {
  test('does not start a microservice that was stopped on it, and stops no other', async () => {
    await deployed(manifestOf('web', 'example/web:1'));
    await deployed(manifestOf('queue', 'example/queue:1'));
    expect(await local.cli('ms', 'stop', 'web')).toMatchObject({ code: 0 });
    const before = await containers();
    await beginAgain();
    await until('nothing to do', () => local.agent.supervisor.pending === 0);
    expect(await containers()).toEqual(before);
    expect((await items('/v1/ms')).map(({ name, state }) => `${name} ${state}`).toSorted()).toEqual([
      'queue RUNNING',
      'web STOPPED',
    ]);
  });

  test('as well as a row runs on, names the loss, and is mended by deploying again', async () => {
    const { deploymentId } = await deployed(manifestOf('web', 'example/web:1'));
    const before = await containers();
    rows.remove(String(deploymentId));
    await beginAgain();
    await until('a warning', () => local.agent.problems.some((text) => /skerry-agent\.web .*is lost/.test(text)));
    expect(await containers()).toEqual(before);
    expect(await deployed(manifestOf('web', 'example/web:1'))).toMatchObject({ status: 'succeeded', deploymentId });
    expect([await containers(), local.agent.problems]).toEqual([before, []]);
  });

  test('as well as a row removes the microservice that a person names', async () => {
    const { deploymentId } = await deployed(manifestOf('web', 'example/web:1'));
    rows.remove(String(deploymentId));
    await beginAgain();
    expect(await local.cli('ms', 'rm', String(deploymentId))).toMatchObject({ code: 0 });
    expect([await containers(), rows.all.size]).toEqual([[], 0]);
  });
});

describe('a machine with a controller', () => {
  const managed = randomUUID();

  beforeEach(async () => {
    await deployed(manifestOf('web', 'example/web:1'));
    await local.provision(plainView({ uuid: managed, name: 'reader' }));
  });

  const ownUuid = () => [...rows.all.keys()][0] as string;
  const listed = async (source: string) => (await items(`/v1/ms?source=${source}`)).map(({ name }) => name);

  test('has microservices of both sources, and reports the others', async () => {
    expect([await listed('managed'), await listed('local')]).toEqual([['reader'], ['web']]);
    expect(controller.microservice(managed)?.status).toBe('RUNNING');
    expect(controller.microservice(ownUuid())).toBeUndefined();
  });

  test('keeps its own when the list of the controller is empty', async () => {
    controller.change({ microservices: [] });
    await until('the end of the other one', () => controller.microservice(managed)?.status === 'STOPPED');
    expect([...engine.running().keys()]).toEqual([ownUuid()]);
  });

  test('gives the volumes of its own to no entry of the controller', async () => {
    const before = (await engine.containers()).filter(({ uuid }) => uuid === ownUuid());
    const volumeMappings = [
      { hostDestination: 'data', containerDestination: '/data', accessMode: 'rw', type: 'volume', scope: 'private' },
    ];
    const former = newLocalUuid();
    const hostile = [ownUuid(), former].map((uuid) => ({
      ...plainView({ uuid, application: 'skerry-agent', name: 'web', imageId: 'evil:1' }),
      volumeMappings,
    }));
    controller.change({ microservices: hostile as never });
    await until('the refusal', () => controller.microservice(former)?.reason === 'LocalUuid');
    expect(controller.microservice(ownUuid())).toMatchObject({ status: 'QUEUED', reason: 'LocalUuid' });
    expect((await engine.containers()).filter(({ uuid }) => uuid !== managed)).toEqual(before);
  });

  test('keeps its own when the controller deletes the node', async () => {
    controller.change({ flags: { deleteNode: 'ff' } });
    await until('the end of the membership', () => local.agent.identity.node === undefined);
    await until('the end of the other one', () => engine.running().size === 1);
    expect([...engine.running().keys()]).toEqual([ownUuid()]);
  });

  test('removes its own as well when a person deprovisions it', async () => {
    expect(await local.cli('deprovision', '--yes')).toMatchObject({ code: 0 });
    expect(await containers()).toEqual([]);
    await until('no row', () => rows.all.size === 0);
    expect(controller.removing).toEqual([managed]);
  });

  test('keeps everything with the scope local, until a person removes it', async () => {
    const before = await containers();
    expect(await local.cli('deprovision', '--scope', 'local', '--yes')).toMatchObject({ code: 0 });
    expect(await listed('local')).toEqual(expect.arrayContaining(['reader', 'web']));
    await beginAgain();
    await until('nothing to do', () => local.agent.supervisor.pending === 0);
    expect(await containers()).toEqual(before);
    controller.microservices = [];
    await local.agent.provision(controller.joinString);
    await until('the list', () => local.agent.connection.state === 'OK' && controller.reports.length > 1);
    expect(await containers()).toEqual(before);
    await until('the report', () => controller.microservice(managed) === undefined);
    expect(await local.cli('ms', 'rm', 'shop.reader')).toMatchObject({ code: 0, out: 'shop.reader: removed\n' });
    expect([...engine.running().keys()]).toEqual([ownUuid()]);
  });

  test('gives what it kept back to a controller that sends it again, without a restart', async () => {
    const before = await containers();
    await local.cli('deprovision', '--scope', 'local', '--yes');
    await local.provision(plainView({ uuid: managed, name: 'reader' }));
    await until('the end of the row', () => !rows.all.has(managed));
    expect(await listed('managed')).toEqual(['reader']);
    expect(await containers()).toEqual(before);
    controller.change({ microservices: [] });
    await until('its end', () => engine.running().size === 1);
  });
});

test('the value of a variable is in no answer', async () => {
  const canary = 'canary-4711';
  await deployed(
    manifestOf('web', 'example/web:1', { env: [{ key: 'PASSWORD', value: canary }] }, { config: { token: canary } }),
  );
  for (const path of ['/v1/ms', '/v1/ms/web', '/v1/deploy/microservices', '/v1/deploy/microservices/web'])
    expect(JSON.stringify((await local.ask('GET', path)).body), path).not.toContain(canary);
});

test('deploy waits, shows how far it is, and ends with the reason', async () => {
  const { writeFileSync } = await import('node:fs');
  const file = `${folder}/web.yaml`;
  writeFileSync(file, manifestOf('web', 'example/web:1'));
  expect(await local.cli('deploy', '-f', file, '--dry-run')).toMatchObject({
    code: 0,
    out: 'web: this machine takes it; nothing was changed\n',
  });
  expect(await local.cli('deploy', '-f', file)).toMatchObject({ code: 0, out: 'web: deployed\n' });
  engine.faults.before = (operation, subject) => {
    if (operation === 'pull' && subject === 'example/web:2') throw new EngineError('NotFound', 'no such image');
  };
  writeFileSync(file, manifestOf('web', 'example/web:2'));
  const { code, err } = await local.cli('deploy', '-f', file);
  expect([code, err]).toEqual([1, expect.stringMatching(/Error\[UNAVAILABLE\]: web: .*no such image/)]);
  writeFileSync(file, 'kind: Pod\n');
  expect(await local.cli('deploy', '-f', file)).toMatchObject({ code: 2, err: expect.stringContaining('"Pod"') });
  expect(await local.cli('deploy', '-f', local.folder)).toMatchObject({
    ...{ code: 2, err: expect.stringMatching(/^Error\[INVALID_ARGUMENT\]: \/.* cannot be read: EISDIR/) },
  });
});
