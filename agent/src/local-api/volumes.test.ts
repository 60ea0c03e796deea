import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { plainView } from '../_web.ts';
import { until } from '../engines/_contract.ts';
import { manifestOf } from '../local/_manifest.ts';
import { LocalAgent } from './_local-agent.ts';

/** Volumes over the local API and on the command line. */

let local: LocalAgent;
const uuid = randomUUID();
const gone = randomUUID();
const volume = (name: string, scope: 'private' | 'shared') => ({
  ...{
    type: 'volume' as const,
    scope,
    hostDestination: name,
    containerDestination: `/${name}`,
    accessMode: 'rw' as const,
  },
});

beforeEach(async () => {
  local = await LocalAgent.start();
  return () => local[Symbol.asyncDispose]();
});

const pathOf = (path: string) => join(local.folder, 'volumes', path);
function make(path: string): void {
  mkdirSync(pathOf(path), { recursive: true });
  writeFileSync(join(pathOf(path), 'file'), 'precious');
}

/** A node with a microservice that has two volumes, beside volumes that nothing wants. */
async function running(): Promise<void> {
  for (const path of [`data/${uuid}/db`, `data/${gone}/db`, 'shared/pool', 'shared/old']) make(path);
  await local.provision(
    plainView({ uuid, name: 'web', volumeMappings: [volume('db', 'private'), volume('pool', 'shared')] }),
  );
}

test('GET /v1/volumes lists the claims, and GET /v1/volumes/shared/{name} has one of them', async () => {
  await running();
  const { body } = await local.ask('GET', '/v1/volumes');
  const consumer = { uuid, application: 'shop', name: 'web', source: 'managed' };
  expect(body.data).toMatchObject({ count: 4 });
  expect(body.data?.volumes).toContainEqual(
    expect.objectContaining({ uuid: null, name: 'pool', scope: 'shared', desired: true, consumers: [consumer] }),
  );
  expect(body.data?.volumes).toContainEqual(
    expect.objectContaining({ uuid: gone, name: 'db', desired: false, unreferencedAt: expect.any(String) }),
  );
  const { body: pool } = await local.ask('GET', '/v1/volumes/shared/pool');
  expect(pool).toMatchObject({ name: 'pool', uuid: null, consumers: [consumer], hostPath: pathOf('shared/pool') });
  expect(await local.ask('GET', '/v1/volumes/shared/none')).toMatchObject({ status: 404 });
});

test('DELETE destroys a volume that nothing wants', async () => {
  await running();
  expect((await local.ask('DELETE', `/v1/volumes/${gone}?name=db`)).body).toMatchObject({
    data: { status: 'ok', uuid: gone, scope: 'private', names: ['db'] },
  });
  expect((await local.ask('DELETE', '/v1/volumes/shared/old')).body).toMatchObject({
    data: { status: 'ok', name: 'old', scope: 'shared' },
  });
  expect([`data/${gone}`, 'shared/old', 'shared/pool'].map((path) => existsSync(pathOf(path)))).toEqual([
    ...[false, false, true],
  ]);
});

test('DELETE refuses a volume that is not there, is wanted, or is mounted, and paths', async () => {
  await running();
  const refusals: [path: string, code: string][] = [
    [`/v1/volumes/${gone}?name=x`, 'NOT_FOUND'],
    [`/v1/volumes/${randomUUID()}`, 'NOT_FOUND'],
    ['/v1/volumes/..%2f..%2fetc', 'INVALID_ARGUMENT'],
    [`/v1/volumes/${gone}?name=..%2fx`, 'INVALID_ARGUMENT'],
    [`/v1/volumes/${gone}?force=perhaps`, 'INVALID_ARGUMENT'],
    [`/v1/volumes/${uuid}`, 'CONFLICT'],
    // Its container has it mounted.
    [`/v1/volumes/${uuid}?force=true`, 'CONFLICT'],
    ['/v1/volumes/shared/none', 'NOT_FOUND'],
    ['/v1/volumes/shared/pool', 'CONFLICT'],
    ['/v1/volumes/shared/pool?force=true', 'CONFLICT'],
  ];
  for (const [path, code] of refusals) expect((await local.ask('DELETE', path)).body.error?.code, path).toBe(code);
  for (const each of [`data/${uuid}/db`, 'shared/pool', `data/${gone}/db`, 'shared/old'])
    expect(existsSync(pathOf(each)), each).toBe(true);
});

test('POST /v1/volumes:prune destroys only with yes, and the query counts before the body', async () => {
  await running();
  const requests: [query: string, body: object, flags: { yes: boolean; force: boolean; dryRun: boolean }][] = [
    ['', {}, { yes: false, force: false, dryRun: true }],
    ['?yes=true', {}, { yes: true, force: false, dryRun: false }],
    ['?yes=false', { yes: true, force: true }, { yes: false, force: true, dryRun: true }],
    ['?force=false', { yes: true, force: true }, { yes: true, force: false, dryRun: false }],
    ['?dryRun=true', { yes: true, force: true }, { yes: true, force: true, dryRun: true }],
    ['?force=true', { dryRun: false }, { yes: false, force: true, dryRun: false }],
    ['?orphans=true', { orphans: false }, { yes: false, force: false, dryRun: true }],
    ['', { yes: true, force: true }, { yes: true, force: true, dryRun: false }],
  ];
  for (const [query, body, flags] of requests) {
    const { status, body: reply } = await local.ask('POST', `/v1/volumes:prune${query}`, body);
    expect([status, reply.data]).toMatchObject([200, { status: 'ok', orphans: true, ...flags }]);
    const { yes, force, dryRun } = flags;
    const destroys = yes && force && !dryRun;
    expect(reply.data?.deleted).toHaveLength(destroys ? 2 : 0);
    expect(reply.data?.candidates).toHaveLength(force ? 2 : 0);
    expect(reply.data?.skipped).toHaveLength(force ? 0 : 2);
    expect(existsSync(pathOf('shared/old'))).toBe(!destroys);
  }
  expect(existsSync(pathOf('shared/pool'))).toBe(true);
});

test('POST /v1/volumes:prune refuses orphans=false, and a flag that is neither true nor false', async () => {
  const requests: [query: string, body: object][] = [
    ['?orphans=false', {}],
    ['', { orphans: false }],
    ['?yes=perhaps', {}],
    ['', { yes: 'true' }],
  ];
  for (const [query, body] of requests)
    expect(await local.ask('POST', `/v1/volumes:prune${query}`, body)).toMatchObject({ status: 400 });
});

test('deprovision --purge-volumes destroys what nothing wants any more', async () => {
  await running();
  expect((await local.cli('deprovision', '--yes', '--purge-volumes')).out).toMatch(
    /^Deprovisioned\nVolumes destroyed: 4\nNAME/,
  );
  expect(existsSync(pathOf('shared/pool'))).toBe(false);
  expect(existsSync(pathOf(`data/${uuid}`))).toBe(false);
});

test('deprovision --keep-local --purge-volumes leaves the volumes of what runs on', async () => {
  await running();
  const { code, out } = await local.cli('deprovision', '--keep-local', '--yes', '--purge-volumes');
  expect([code, out]).toEqual([0, expect.stringContaining('Volumes destroyed: 2')]);
  for (const path of [`data/${uuid}/db`, 'shared/pool']) expect(existsSync(pathOf(path))).toBe(true);
});

test('deprovision without --purge-volumes leaves all volumes', async () => {
  await running();
  expect((await local.cli('deprovision', '--yes')).out).toBe('Deprovisioned\n');
  for (const path of [`data/${uuid}/db`, 'shared/pool', 'shared/old']) expect(existsSync(pathOf(path))).toBe(true);
});

test('deprovision --purge-volumes fails and says which volumes stay', async () => {
  await running();
  local.engine.othersBind.set('stranger', pathOf('shared/pool'));
  const { code, err } = await local.cli('deprovision', '--yes', '--purge-volumes');
  expect(code).toBe(1);
  expect(err).toMatch(
    /^Error\[INCOMPLETE\]: deprovisioned, but volumes stay: .*shared\/pool: it is mounted by the container stranger/,
  );
  expect(existsSync(pathOf('shared/pool'))).toBe(true);
  expect(existsSync(pathOf('shared/old'))).toBe(false);
});

test('volume ls, rm and prune show what there is, and what they did', async () => {
  expect((await local.cli('volume', 'ls')).out).toBe('No volumes on this node\n');
  await running();
  const { out } = await local.cli('volume', 'ls');
  expect(out).toMatch(/^NAME +SCOPE +UUID +WANTED +MICROSERVICES +PATH\n/);
  expect(out).toMatch(/pool +shared +yes +shop\.web +\//);
  expect(out).toMatch(new RegExp(`db +private +${gone} +no, for \\d+s +/`));
  expect(await local.cli('volume', 'rm')).toMatchObject({ code: 2 });
  expect(await local.cli('volume', 'rm', '--shared', 'old', gone)).toMatchObject({ code: 2 });
  expect(await local.cli('volume', 'rm', uuid)).toMatchObject({ code: 5, err: expect.stringContaining('mounted') });
  expect((await local.cli('volume', 'rm', '--shared', 'old')).out).toBe('Shared volume old: destroyed\n');
  expect((await local.cli('volume', 'prune')).out).toMatch(/^Nothing would be destroyed\nStays: .*24 h that it stays/);
  expect((await local.cli('volume', 'prune', '--force')).out).toMatch(
    /^Would destroy 1; with --yes it does\nNAME.*\ndb/,
  );
  expect(existsSync(pathOf(`data/${gone}/db`))).toBe(true);
  expect((await local.cli('volume', 'prune', '--force', '--yes')).out).toMatch(/^Destroyed 1\nNAME/);
  expect((await local.cli('volume', 'rm', gone)).code).toBe(4);
});

test('ms rm --cleanup destroys nothing, and marks nothing that is still wanted', async () => {
  await running();
  expect((await local.cli('ms', 'rm', 'shop.web', '--cleanup')).out).toContain('still wanted');
  expect(existsSync(pathOf(`data/${uuid}/db`))).toBe(true);
  local.controller.change({ microservices: [] });
  const { volumes } = local.agent;
  expect(await volumes.markForCleanup(gone)).toBe(true);
  expect((await volumes.prune({ yes: true, force: false, dryRun: false })).deleted).toMatchObject([{ uuid: gone }]);
  expect(existsSync(pathOf(`data/${uuid}/db`))).toBe(true);
});

test('a machine without a controller has volumes of its own microservices, which go with them when a person says so', async () => {
  const file = join(local.folder, 'keeper.yaml');
  const volumes = [volume('db', 'private'), volume('pool', 'shared')];
  writeFileSync(file, manifestOf('keeper', 'example/app:1', { volumes }));
  expect(await local.cli('deploy', '-f', file)).toMatchObject({ code: 0 });
  const { uuid: own = '' } = [...local.agent.own.rows.values()][0] ?? {};
  for (const path of [`data/${own}/db`, 'shared/pool']) make(path);
  const { body } = await local.ask('GET', '/v1/volumes/shared/pool');
  expect(body).toMatchObject({ desired: true, consumers: [{ uuid: own, name: 'keeper', source: 'local' }] });
  expect(await local.cli('volume', 'rm', own)).toMatchObject({ code: 5 });
  expect(await local.cli('ms', 'rm', 'keeper', '--cleanup')).toMatchObject({ code: 0 });
  expect(existsSync(pathOf(`data/${own}/db`))).toBe(true);
  // The shared one has lost its consumer, and keeps its grace.
  expect((await local.cli('volume', 'prune', '--yes')).out).toMatch(
    /^Destroyed 1\n.*\ndb .*\nStays: .*shared\/pool: /s,
  );
  expect(existsSync(pathOf(`data/${own}`))).toBe(false);
  expect(existsSync(pathOf('shared/pool'))).toBe(true);
});

test('volumes are of the admin alone, over the socket', async () => {
  for (const [method, path] of [
    ['GET', ''],
    ['DELETE', '/x'],
    ['GET', '/shared/x'],
    ['DELETE', '/shared/x'],
    ['POST', ':prune'],
  ]) {
    expect(await local.ask(method ?? '', `/v1/volumes${path}`, undefined, '')).toMatchObject({ status: 401 });
    const answer = await fetch(`http://127.0.0.1:${local.port}/v1/volumes${path}`, {
      ...{ method, headers: { authorization: `Bearer ${local.token}` } },
    });
    expect(answer.status).toBe(403);
  }
});

test('a prune whose dryRun is misspelt, or is there twice, destroys nothing', async () => {
  await running();
  for (const [query, message] of [
    ['yes=true&dry_run=true', 'dry_run is no parameter of this request'],
    ['yes=true&dryRun=false&dryRun=true', 'dryRun is there twice'],
    ['yes=true&toString=1', 'toString is no parameter of this request'],
  ])
    expect(await local.ask('POST', `/v1/volumes:prune?force=true&${query}`)).toMatchObject({
      ...{ status: 400, body: { error: { code: 'INVALID_ARGUMENT', message } } },
    });
  expect(await local.ask('POST', '/v1/ms/web/stop?force=true')).toMatchObject({ status: 400 });
  expect(existsSync(pathOf(`data/${gone}/db`))).toBe(true);
});

test('ms rm says which volumes a microservice leaves and for how long, and nothing where it leaves none', async () => {
  const deployed = async (name: string): Promise<string> => {
    const { body } = await local.upload('/v1/deploy/microservices:apply', manifestOf(name, 'sample:1'));
    return String(body.data?.deploymentId);
  };
  const [db, cache] = [await deployed('db'), await deployed('cache')];
  await deployed('web');
  for (const path of [`data/${db}/data`, `data/${db}/log`, `data/${cache}/data`]) make(path);
  expect(await local.cli('ms', 'rm', 'web')).toMatchObject({ code: 0, out: 'web: removed\n' });
  expect((await local.cli('ms', 'rm', 'db')).out).toBe(
    'db: removed\nIts volumes stay: data, log. skerry-agent volume prune --yes destroys them once nothing has wanted them for 24 h, with --force at once\n',
  );
  expect((await local.cli('ms', 'rm', 'cache', '--cleanup')).out).toBe(
    'cache: removed\nIts volumes stay: data. skerry-agent volume prune --yes destroys them at once\n',
  );
});

test('the volumes of a microservice that a controller left, and that was removed, are for no other one with its uuid', async () => {
  await running();
  await local.cli('deprovision', '--keep-local', '--yes');
  expect(await local.cli('ms', 'rm', 'web')).toMatchObject({ code: 0 });
  const other = plainView({ uuid, application: 'mars', name: 'other', volumeMappings: [volume('db', 'private')] });
  local.controller.microservices = [other, plainView({ uuid: gone, name: 'plain' })];
  await local.agent.provision(local.controller.joinString);
  await until('the refusal', () => local.controller.microservice(uuid)?.reason === 'KeptByMachine');
  await until('the other one', () => local.controller.microservice(gone)?.status === 'RUNNING');
  expect([...local.engine.running().keys()]).toEqual([gone]);
  // Once they are destroyed, the uuid is like any other.
  expect(await local.cli('volume', 'prune', '--yes', '--force')).toMatchObject({ code: 0 });
  await until('the microservice', () => local.controller.microservice(uuid)?.status === 'RUNNING', 60_000);
});
