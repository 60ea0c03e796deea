import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { registryViewSchema } from '../../../src/wire/agent.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { plainView } from '../_web.ts';
import { TestHub } from '../content/artifacts/_hub.ts';
import { makeArtifact } from '../content/artifacts/_machine.ts';
import { policySchema } from '../domain/policy.ts';
import { until } from '../engines/_contract.ts';
import { manifestOf } from '../local/_manifest.ts';
import { contentOnDisk } from './_content-on-disk.ts';
import { type Asked, LocalAgent } from './_local-agent.ts';

/** A machine without a controller, with a hub that needs a token. */

const TOKEN = 'hunter-2-canary';
const VERSION = 'agent.skerry.dev/v1';

let folder: string;
let hub: TestHub;
let local: LocalAgent;

beforeEach(async () => {
  folder = temporaryFolder();
  hub = await TestHub.start();
  hub.token = TOKEN;
  hub.commit('models/team/tiny', { 'a.txt': 'one' });
  local = await start();
});
afterEach(async () => {
  await local[Symbol.asyncDispose]();
  await hub[Symbol.asyncDispose]();
});

const start = () => LocalAgent.start({ deps: contentOnDisk(folder) });

const manifest = (kind: string, rest: object) => JSON.stringify({ apiVersion: VERSION, kind, ...rest });
const hubManifest = (spec: object = {}) =>
  manifest('Registry', { spec: { url: hub.url, type: 'hub', private: true, password: TOKEN, ...spec } });
const model = (name = 'tiny', spec: object = {}) =>
  manifest('Model', { metadata: { name }, spec: { repo: 'team/tiny', registry: 4, ...spec } });

const apply = (what: string, text: string, fields: Record<string, string> = {}): Promise<Asked> =>
  local.upload(`/v1/deploy/${what}:apply`, text, fields);
const data = async (asked: Promise<Asked>): Promise<Record<string, unknown>> => {
  const { status, body } = await asked;
  expect(body).toMatchObject({ success: true });
  expect([200, 202]).toContain(status);
  return body.data as Record<string, unknown>;
};
const refused = async (asked: Promise<Asked>, status: number, message: RegExp): Promise<void> => {
  const reply = await asked;
  expect(reply.body.error?.message).toMatch(message);
  expect(reply.status).toBe(status);
};
const ended = async (path: string, operationId: unknown): Promise<Record<string, unknown>> => {
  let operation: Record<string, unknown> = {};
  await until('the end of the operation', async () => {
    operation = await data(local.ask('GET', `${path}/${operationId}`));
    return operation.status !== 'running';
  });
  return operation;
};
const pulls = async (asked: Promise<Asked>): Promise<Record<string, unknown>> => {
  const { pulls: [pull] = [] } = (await data(asked)) as { pulls?: { operationId: string }[] };
  return ended('/v1/models:pull', pull?.operationId);
};
const item = async (name: string) => (await local.ask('GET', `/v1/models/${name}`)).body;

/** All that the local API says of registries and artifacts, and what was logged. */
async function everythingSaid(): Promise<string> {
  const paths = [
    '/v1/deploy/registries',
    '/v1/models',
    '/v1/system/status',
    '/v1/system/info',
    '/v1/system/logs',
    '/v1/ms',
  ];
  const said = await Promise.all(paths.map((path) => local.ask('GET', path)));
  return JSON.stringify(said);
}

describe('registries of the machine', () => {
  test('are defined, listed without their passwords, shown in clear, and removed', async () => {
    expect(await data(apply('registries', hubManifest(), { dryRun: 'true' }))).toMatchObject({
      ...{ accepted: true, dryRun: true, kind: 'Registry' },
      registry: { id: 4, password: '***' },
    });
    await refused(local.ask('GET', '/v1/deploy/registries/4'), 404, /has no registry 4; it has 1, 2, 3/);
    expect(await data(apply('registries', hubManifest()))).toMatchObject({ registry: { id: 4, password: '***' } });
    expect(await data(local.upload('/v1/deploy/registries:validate', hubManifest()))).toEqual({
      ...{
        valid: true,
        apiVersion: VERSION,
        kind: 'Registry',
        url: hub.url,
        private: true,
        type: 'hub',
        insecure: false,
      },
    });
    expect(await everythingSaid()).not.toContain(TOKEN);
    expect(await data(local.ask('GET', '/v1/deploy/registries/4'))).toMatchObject({ password: TOKEN, isPublic: false });
    for (const id of ['1', '2', '3'])
      await refused(local.ask('DELETE', `/v1/deploy/registries/${id}`), 400, /built in/);
    for (const id of ['0', '-4', '4x', '04'])
      await refused(local.ask('GET', `/v1/deploy/registries/${id}`), 400, /not a whole number/);
    expect(await data(local.ask('DELETE', '/v1/deploy/registries/4'))).toEqual({ status: 'ok', id: 4 });
    await refused(local.ask('DELETE', '/v1/deploy/registries/4'), 404, /has no registry 4/);
  });

  test('stay while an artifact names them', async () => {
    await apply('registries', hubManifest());
    expect(await pulls(apply('models', model()))).toMatchObject({ status: 'succeeded' });
    await refused(local.ask('DELETE', '/v1/deploy/registries/4'), 409, /registry 4 is in use: model tiny/);
  });

  test('let an artifact that failed by them be pulled at once when they are corrected', async () => {
    await apply('registries', hubManifest({ password: 'wrong-canary' }));
    const failed = await pulls(apply('models', model()));
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'FORBIDDEN', message: /refuses the token/ } });
    expect(JSON.stringify(failed) + (await everythingSaid())).not.toContain('wrong-canary');
    await apply('registries', hubManifest());
    await until('the model', async () => (await item('tiny')).data?.state === 'Ready');
  });

  test('are others than those that a controller has under the same number', async () => {
    const other = await TestHub.start();
    onTestFinished(() => other[Symbol.asyncDispose]());
    other.commit('models/team/tiny', { 'a.txt': 'of the controller' });
    await apply('registries', hubManifest());
    const registries = [registryViewSchema.parse({ id: 4, url: other.url, type: 'hub' })];
    local.controller.change({ registries, models: [makeArtifact({ name: 'theirs', registryId: 4 })] });
    await local.provision();
    await until('the model of the controller', async () => (await item('theirs')).data?.state === 'Ready');
    expect(await pulls(apply('models', model()))).toMatchObject({ status: 'succeeded', registryId: 4 });
    expect(other.requests.every(({ authorization }) => authorization === undefined)).toBe(true);
    expect(JSON.stringify(local.controller.reports)).not.toContain('"tiny"');
  });
});

describe('models of the machine', () => {
  beforeEach(() => apply('registries', hubManifest()));

  test('are pulled, and are there after a start of the agent', async () => {
    expect(await data(apply('models', model(), { dryRun: 'true' }))).toMatchObject({
      count: 1,
      name: 'tiny',
      pulls: [],
    });
    await refused(local.ask('GET', '/v1/models/tiny'), 404, /no model "tiny"/);
    expect(await pulls(apply('models', model()))).toMatchObject({ name: 'tiny', status: 'succeeded', progress: 100 });
    expect((await item('tiny')).data).toMatchObject({ name: 'tiny', source: 'local', state: 'Ready', registryId: 4 });
    await local[Symbol.asyncDispose]();
    local = await start();
    await until('the model', async () => (await item('tiny')).data?.state === 'Ready');
    expect(hub.count('/revision/')).toBe(1);
  });

  test('are pulled again by name, and added or changed by repo and registry', async () => {
    const pull = (body: object) => local.ask('POST', '/v1/models:pull', body);
    await refused(pull({ name: 'tiny' }), 404, /has no model tiny; with repo and registryId it is added/);
    await refused(pull({ name: 'tiny', repo: 'team/tiny' }), 400, /registryId is missing/);
    await refused(pull({ name: 'tiny', revision: 'v1' }), 400, /repo is missing/);
    await refused(pull({ name: '../tiny', repo: 'team/tiny', registryId: 4 }), 400, /metadata\.name/);
    await refused(pull({ name: 'tiny', repo: 'team/tiny', registryId: 5 }), 400, /has no registry 5/);
    await refused(pull({ name: 'tiny', repo: 'team/tiny', registryId: 2 }), 400, /local cache/);
    const first = await data(pull({ name: 'tiny', repo: 'team/tiny', registryId: 4 }));
    expect(await ended('/v1/models:pull', first.operationId)).toMatchObject({ status: 'succeeded' });
    hub.commit('models/team/tiny', { 'a.txt': 'two' });
    const before = (await item('tiny')).data?.resolvedRevision;
    const again = await data(pull({ name: 'tiny' }));
    expect(await ended('/v1/models:pull', again.operationId)).toMatchObject({ status: 'succeeded' });
    expect((await item('tiny')).data?.resolvedRevision).not.toBe(before);
    await refused(local.ask('GET', '/v1/models:pull/nothing'), 404, /no operation/);
    expect(await local.cli('model', 'pull', 'tiny', '--registry', 'hub')).toMatchObject({
      ...{ code: 2, err: expect.stringContaining('--registry "hub" is not a number') },
    });
  });

  test('come from registries alone that the policy of the machine names, and stay when it names theirs no more', async () => {
    const name = (...registries: string[]) => local.agent.setPolicy(policySchema.parse({ registries }));
    const says = /policy of this machine takes nothing from the host of the registry 4/;
    const byName = { name: 'tiny', repo: 'team/tiny', registryId: 4 };
    name('registry.example');
    await refused(apply('models', model()), 400, says);
    await refused(local.ask('POST', '/v1/models:pull', byName), 400, says);
    await refused(local.ask('GET', '/v1/models/tiny'), 404, /no model "tiny"/);
    expect(hub.requests).toEqual([]);
    name('registry.example', new URL(hub.url).host);
    expect(await pulls(apply('models', model()))).toMatchObject({ status: 'succeeded' });
    name('registry.example');
    const asked = hub.requests.length;
    const { operationId } = await data(local.ask('POST', '/v1/models:pull', { name: 'tiny' }));
    expect(await ended('/v1/models:pull', operationId)).toMatchObject({
      status: 'failed',
      error: { code: 'FORBIDDEN', message: expect.stringMatching(/^the machine takes nothing from/) },
    });
    expect((await item('tiny')).data).toMatchObject({ state: 'Ready' });
    expect(hub.requests).toHaveLength(asked);
  });

  test('are not pulled twice at once, and are not removed meanwhile', async () => {
    hub.fault = (path) => (path.includes('/revision/') ? { hang: true } : undefined);
    const { pulls: [pull] = [] } = (await data(apply('models', model()))) as { pulls?: { operationId: string }[] };
    await refused(
      local.ask('POST', '/v1/models:pull', { name: 'tiny' }),
      409,
      new RegExp(`operation ${pull?.operationId}`),
    );
    await refused(apply('models', model('tiny', { revision: 'v1' })), 409, /is being pulled/);
    await refused(local.ask('DELETE', '/v1/models/tiny'), 409, /is being pulled/);
    hub.fault = undefined;
  });

  test('lose their contents with their rows, unless something binds them', async () => {
    await refused(local.ask('POST', '/v1/models:prune?mode=all'), 400, /mode "all" is none of dangling/);
    await pulls(apply('models', model()));
    expect(await data(local.ask('POST', '/v1/models:prune'))).toEqual({
      ...{ mode: 'dangling', removed: [], blobsRemoved: 0, staleCleaned: 0 },
    });
    const binding = { models: { bindPath: '/models', items: [{ name: 'tiny' }] }, registry: 1 };
    await data(local.upload('/v1/deploy/microservices:apply', manifestOf('web', 'sample:1', {}, binding)));
    await refused(local.ask('DELETE', '/v1/models/tiny'), 409, /is bound by skerry-agent\.[a-z]+; change/);
    await until('the microservice', () => local.engine.running().size > 0);
    expect((await item('tiny')).data).toMatchObject({ bindRefCount: 1 });
    await data(local.ask('DELETE', '/v1/deploy/microservices/web'));
    expect(await data(local.ask('DELETE', '/v1/models/tiny'))).toEqual({ status: 'ok', name: 'tiny' });
    await refused(local.ask('DELETE', '/v1/models/tiny'), 404, /has no model tiny/);
    await until('an empty store', () => readdirSync(join(folder, 'artifacts', 'blobs')).length === 0, 6000);
  });

  test('are shadowed by a model that the controller links under the same name, and come back', async () => {
    await pulls(apply('models', model()));
    hub.commit('models/team/theirs', { 'a.txt': 'theirs' });
    const registries = [registryViewSchema.parse({ id: 9, url: hub.url, type: 'hub', password: TOKEN })];
    const theirs = makeArtifact({ name: 'tiny', repo: 'team/theirs', registryId: 9 });
    local.controller.change({ registries, models: [theirs] });
    await local.provision();
    await until('the model of the controller', async () => (await item('tiny')).data?.repo === 'team/theirs');
    const { items } = (await local.ask('GET', '/v1/models')).body.data as { items: Record<string, unknown>[] };
    expect(items.map(({ source, shadowed = false }) => [source, shadowed]).sort()).toEqual([
      ['local', true],
      ['managed', false],
    ]);
    await refused(apply('models', model()), 409, /is the controller's/);
    await refused(local.ask('POST', '/v1/models:pull', { name: 'tiny' }), 409, /is the controller's/);
    await local.ask('POST', '/v1/models:prune');
    local.controller.change({ models: [] });
    await until('the own model', async () => (await item('tiny')).data?.source === 'local');
    expect((await item('tiny')).data).toMatchObject({ state: 'Ready', repo: 'team/tiny' });
    expect(JSON.stringify(local.controller.reports)).not.toContain('"source":"local"');
  });

  test('are refused while the watchdog of this machine is on, whatever a controller says of it', async () => {
    local.controller.change({ config: { watchdogEnabled: true } });
    await local.provision();
    expect(await pulls(apply('models', model()))).toMatchObject({ status: 'succeeded' });
    Object.assign(local.agent.config, { watchdogEnabled: true });
    await refused(apply('models', model('other')), 409, /watchdogEnabled of this machine is on/);
    await refused(local.ask('POST', '/v1/models:pull', { name: 'tiny' }), 409, /watchdogEnabled of this machine is on/);
    expect((await item('tiny')).data).toMatchObject({ state: 'Ready' });
  });

  test('are several in one manifest, of which none is taken when one is wrong', async () => {
    hub.commit('models/team/other', { 'b.txt': 'two' });
    const several = `${model()}\n---\n${model('other', { repo: 'team/other' })}`;
    await refused(apply('models', `${several}\n---\n${model('third', { registry: 5 })}`), 400, /has no registry 5/);
    await refused(local.ask('GET', '/v1/models/tiny'), 404, /no model/);
    const { pulls: begun = [], count } = (await data(apply('models', several))) as {
      pulls?: { operationId: string }[];
      count: number;
    };
    expect([count, begun.length]).toEqual([2, 2]);
    for (const { operationId } of begun)
      expect(await ended('/v1/models:pull', operationId)).toMatchObject({ status: 'succeeded' });
  });
});

describe('a pull that a microservice asks for', () => {
  const uuid = randomUUID();
  const rules = [{ apiGroups: ['*'], resources: ['models/pull', 'models/pull/status'], verbs: ['*'] }];
  const token = () => Buffer.from(local.files.read(`serviceaccounts/${uuid}`)?.get('token') ?? '').toString();
  const pull = (name: string) => local.ask('POST', '/v1/models:pull', { name }, token());
  const outcomeOf = async ({ body }: Asked) => {
    const path = `/v1/models:pull/${body.data?.operationId}`;
    return until('the end of the operation', async () => {
      const { data } = (await local.ask('GET', path, undefined, token())).body;
      return data?.status !== 'running' && data;
    });
  };
  beforeEach(async () => {
    await apply('registries', hubManifest());
    await local.provision(plainView({ uuid, serviceAccount: { name: 'web', rules } }));
  });

  test('gets one answer for every name: what becomes of it is in the operation', async () => {
    await pulls(apply('models', model()));
    const [known, unknown] = [await pull('tiny'), await pull('nothing')];
    for (const [name, { status, body }] of [
      ['tiny', known],
      ['nothing', unknown],
    ] as const)
      expect([status, { ...body.data, operationId: '', startedAt: '' }]).toEqual([
        202,
        { operationId: '', startedAt: '', status: 'running', name, progress: 0, bytesDownloaded: 0, bytesTotal: 0 },
      ]);
    expect(await outcomeOf(known)).toMatchObject({ status: 'succeeded', registryId: 4 });
    expect(await outcomeOf(unknown)).toMatchObject({ status: 'failed', error: { code: 'NOT_FOUND' } });
  });

  test('waits for the next attempt of the agent where the last one has failed', async () => {
    hub.fault = (path) => (path.includes('team/tiny') ? { status: 500 } : undefined);
    expect(await pulls(apply('models', model()))).toMatchObject({ status: 'failed' });
    const tried = hub.count('team/tiny');
    const asked = await pull('tiny');
    hub.commit('models/team/other', { 'b.txt': 'two' });
    expect(await pulls(apply('models', model('other', { repo: 'team/other' })))).toMatchObject({ status: 'succeeded' });
    expect(hub.count('team/tiny')).toBe(tried);
    const { data } = (await local.ask('GET', `/v1/models:pull/${asked.body.data?.operationId}`, undefined, token()))
      .body;
    expect(data).toMatchObject({ status: 'running' });
  });

  test('says nothing of a pull of the admin, and gives way to what the admin does', async () => {
    await pulls(apply('models', model()));
    hub.fault = (path) => (path.includes('/revision/') ? { hang: true } : undefined);
    const asked = await pull('tiny');
    await until('the pull', () => hub.count('/revision/') > 1);
    expect(JSON.stringify((await pull('tiny')).body)).not.toContain(String(asked.body.data?.operationId));
    expect((await pull('tiny')).status).toBe(503);
    expect(await data(local.ask('DELETE', '/v1/models/tiny'))).toEqual({ status: 'ok', name: 'tiny' });
    expect(await outcomeOf(asked)).toMatchObject({ status: 'failed', error: { code: 'CONFLICT' } });
    hub.fault = undefined;
  });
});

test('knowledge is pulled and removed in the same way, in names of its own', async () => {
  await apply('registries', hubManifest());
  hub.commit('datasets/team/tiny', { 'a.txt': 'text' });
  const text = manifest('Knowledge', { metadata: { name: 'tiny' }, spec: { repo: 'team/tiny', registry: 4 } });
  const { pulls: [pull] = [] } = (await data(apply('knowledge', text))) as { pulls?: { operationId: string }[] };
  expect(await ended('/v1/knowledge:pull', pull?.operationId)).toMatchObject({ status: 'succeeded' });
  await refused(local.ask('GET', '/v1/models/tiny'), 404, /no model/);
  expect(await data(local.ask('DELETE', '/v1/knowledge/tiny'))).toEqual({ status: 'ok', name: 'tiny' });
});

describe('runtime classes of the machine', () => {
  const runtimeClass = (name = 'fast', handler = 'runc') => manifest('RuntimeClass', { metadata: { name }, handler });

  test('mean runtimes that the engine has', async () => {
    await refused(apply('runtimeclasses', runtimeClass('fast', 'nvidia')), 400, /has no runtime nvidia; it has runc/);
    await refused(apply('runtimeclasses', runtimeClass('crun')), 400, /crun is reserved/);
    await refused(local.ask('DELETE', '/v1/deploy/runtimeclasses/crun'), 400, /crun is reserved/);
    expect(await data(apply('runtimeclasses', runtimeClass(), { dryRun: 'true' }))).toMatchObject({
      valid: true,
      dryRun: true,
    });
    await refused(local.ask('GET', '/v1/deploy/runtimeclasses/fast'), 404, /no runtime class fast/);
    const done = await data(apply('runtimeclasses', runtimeClass()));
    expect(done).toMatchObject({ status: 'succeeded', stage: 'done', runtimeClass: { name: 'fast', handler: 'runc' } });
    expect(await data(local.ask('GET', `/v1/deploy/runtimeclasses:apply/${done.operationId}`))).toMatchObject(done);
    expect(await data(local.ask('GET', '/v1/deploy/runtimeclasses'))).toMatchObject({
      items: [{ name: 'fast', handler: 'runc', source: 'local', runtimeName: 'fast' }],
    });
  });

  test('can be asked for by microservices of the machine, and stay as long as one does', async () => {
    await data(apply('runtimeclasses', runtimeClass()));
    const web = manifestOf('web', 'sample:1', { runtime: 'fast' });
    const { deploymentId } = await data(local.upload('/v1/deploy/microservices:apply', web));
    await until('a container', () => local.engine.running().size > 0);
    const { status, body } = await local.ask('DELETE', '/v1/deploy/runtimeclasses/fast');
    expect([status, body.error]).toMatchObject([
      400,
      { details: { runtimeClassName: 'fast', blockingMicroserviceUuids: [deploymentId] } },
    ]);
    await data(local.ask('DELETE', '/v1/deploy/microservices/web'));
    const { status: accepted, body: begun } = await local.ask('DELETE', '/v1/deploy/runtimeclasses/fast?async=true');
    expect([accepted, begun.data]).toMatchObject([202, { kind: 'RuntimeClassDelete', status: 'running' }]);
    const done = await ended('/v1/deploy/runtimeclasses:delete', begun.data?.operationId);
    expect(done).toMatchObject({ status: 'succeeded', stage: 'done' });
  });

  test('give way to a class of the controller with their name', async () => {
    await data(apply('runtimeclasses', runtimeClass()));
    local.controller.change({ runtimeClasses: [{ name: 'fast', handler: 'crun' }] });
    await local.provision();
    const isManaged = async () => (await data(local.ask('GET', '/v1/deploy/runtimeclasses/fast'))).source === 'managed';
    await until('the class of the controller', isManaged);
    await refused(apply('runtimeclasses', runtimeClass()), 409, /is the controller's/);
    await refused(local.ask('DELETE', '/v1/deploy/runtimeclasses/fast'), 409, /is the controller's/);
  });
});
