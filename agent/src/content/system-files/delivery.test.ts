import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { atEnd } from '../../../../testing/at-end.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { createTestAgent, runAgent } from '../../_agent.ts';
import { plainView } from '../../_web.ts';
import type { Agent } from '../../app.ts';
import { until } from '../../engines/_contract.ts';
import { MemoryEngine } from '../../engines/memory/_engine.ts';
import { FakeController, type FileSetTexts, failure, fileSetView, type View } from '../../link/_fake-controller.ts';
import { filesOnDisk, type MountedFiles } from '../../machine/mounted-files.ts';
import { memoryIdentity } from '../../state/_identity.ts';
import { memoryDatabase } from '../../state/database.ts';
import { mounted } from '../volume-mounts/_mount.ts';

/** The files of the system from the controller's list to the containers, with an engine in memory. */

let folder: string;
let controller: FakeController;
let engine: MemoryEngine;
let database: ReturnType<typeof memoryDatabase>;
let identity: ReturnType<typeof memoryIdentity>;
let agent: Agent;
let end: () => Promise<void>;
let write: MountedFiles['write'];

beforeEach(async () => {
  folder = temporaryFolder();
  controller = await new FakeController().listen();
  atEnd(async () => {
    await end();
    await controller.close();
  });
  engine = new MemoryEngine({ anyImage: true });
  database = memoryDatabase();
  identity = memoryIdentity();
  start();
});

function start(): void {
  const files = filesOnDisk(join(folder, 'volumes'));
  write = files.write;
  agent = createTestAgent({
    ...{ folder, database, identity, engine: () => engine },
    mountedFiles: { ...files, write: (path, tree) => write(path, tree) },
  });
  end = runAgent(agent);
}

const WEB = '11111111-1111-4111-8111-111111111111';
const view = (hostDestination?: string, change: Partial<View> = {}): View =>
  plainView({
    uuid: WEB,
    isSystem: true,
    volumeMappings: hostDestination ? [mounted(hostDestination, '/etc/x')] : [],
    ...change,
  });

const certificates = (serial: number, more: Record<string, string> = {}): FileSetTexts => ({
  name: 'certificates',
  files: { 'tls.crt': `certificate ${serial}`, 'tls.key': `key ${serial}`, 'ca.crt': 'authority', ...more },
});

const want = (sets: FileSetTexts[], views: View[] = controller.microservices as View[]) =>
  controller.change({ systemFiles: sets, microservices: views });

const provision = () => agent.provision(controller.joinString);
const status = () => controller.microservice(WEB);
const runs = () => until('RUNNING', () => status()?.status === 'RUNNING');
const source = async () => (await engine.containers())[0]?.binds?.[0]?.source ?? '';
const started = async () => (await engine.containers()).map(({ id, startedAt }) => `${id}@${startedAt}`);
const file = (path: string) => join(folder, 'volumes/system', path);
const text = (path: string) => readFileSync(file(path), 'utf8');
const isComplete = () =>
  until('the report of what is due', () => controller.said.systemFiles?.digest === controller.due.systemFiles);

/** The digests of each request for content so far. */
const asked = () =>
  controller.requests
    .filter(({ path }) => path === '/agent/systemFiles/content')
    .map(({ query }) => (query.get('digests') ?? '').split(','));
const CONTENT = '/agent/systemFiles/content';
const unlessContent = (fault: ReturnType<typeof failure> | 'cut' | 'hang') => (_method: string, path: string) =>
  path === CONTENT ? fault : undefined;

test('one changed file is one fetched file, in one request', async () => {
  want([certificates(1)], [view('system:certificates')]);
  await provision();
  await runs();
  expect(asked()).toHaveLength(1);
  expect(asked()[0]).toHaveLength(3);
  const before = await started();
  want([{ ...certificates(1), files: { ...certificates(1).files, 'ca.crt': 'another authority' } }]);
  await until('the new content', () => text('certificates/ca.crt') === 'another authority');
  expect(asked().slice(1)).toEqual([[fileSetView({ name: '', files: { x: 'another authority' } }).files[0]?.digest]]);
  // A whole set changes in place.
  expect(await started()).toEqual(before);
  expect(readFileSync(join(await source(), 'ca.crt'), 'utf8')).toBe('another authority');
  await isComplete();
});

/** The files of a server of the message bus with 20 links. */
const busConfig = (text: string, more: Record<string, string> = {}): FileSetTexts => ({
  name: 'bus-config',
  files: {
    'server.conf': text,
    ...Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`creds/${n}.creds`, `link ${n}`])),
    ...more,
  },
});

test('a large folder that is here is not listed again, and its files stay', async () => {
  const known = () =>
    controller.requests.flatMap(({ path, query }) => (path === '/agent/systemFiles' ? [query.get('known') ?? ''] : []));
  want([busConfig('one')], [view('system:bus-config')]);
  await provision();
  await runs();
  want([busConfig('two')]);
  await until('the other file', () => text('bus-config/server.conf') === 'two');
  expect(known().map((each) => each.slice(0, 17))).toEqual(['', 'bus-config/creds:']);
  expect(asked()[1]).toHaveLength(1);
  expect(readdirSync(join(await source(), 'creds'))).toHaveLength(20);
  await isComplete();
  // Another file of the folder lists all of them again.
  want([busConfig('three', { 'creds/0.creds': 'another' })]);
  await until('the other files', () => text('bus-config/creds/0.creds') === 'another');
  expect(asked()[2]).toHaveLength(2);
  expect(text('bus-config/creds/19.creds')).toBe('link 19');
  await isComplete();
});

test('a list that keeps a folder which the agent does not have is not taken', async () => {
  want([busConfig('one')], [view('system:bus-config')]);
  await provision();
  await runs();
  await isComplete();
  const { systemFiles: before } = controller.due;
  const [server] = fileSetView(busConfig('two')).files;
  controller.change({ systemFileList: [{ name: 'bus-config', files: [server], kept: ['links'] }] });
  await until('the refusal', () => agent.connection.error.includes('systemFiles that cannot be read'));
  expect([text('bus-config/server.conf'), controller.said.systemFiles?.digest]).toEqual(['one', before]);
});

test('a microservice waits for a set that has not arrived, in the words of the system, and runs when it has', async () => {
  controller.fault = unlessContent('cut');
  want([certificates(1)], [view('system:certificates')]);
  await provision();
  const waiting = await until('the reason', () => status()?.reason === 'WaitingForVolumeMount' && status());
  expect(waiting).toMatchObject({
    status: 'QUEUED',
    errorMessage: "waits for the system's files certificates, which have not arrived",
  });
  // A controller that is away is no problem of the machine.
  await until('the report', () => controller.said.systemFiles?.digest === '');
  expect([controller.said.systemFiles, agent.problems]).toEqual([{ digest: '', sets: {} }, []]);
  controller.fault = undefined;
  await runs();
  expect(readFileSync(join(await source(), 'tls.key'), 'utf8')).toBe('key 1');
  await isComplete();
});

test('a microservice of a user does not get files of the system, whatever the controller says', async () => {
  want([certificates(1)], [view('system:certificates', { isSystem: false })]);
  await provision();
  const waiting = await until('the reason', () => status()?.reason === 'WaitingForVolumeMount' && status());
  expect(waiting.errorMessage).toBe(
    "waits for the system's files certificates, which microservices of the system alone may mount",
  );
  await isComplete();
  expect(await engine.containers()).toEqual([]);
});

test('a container that binds one file is replaced when that file changes, and not for another one', async () => {
  want([certificates(1)], [view('system:certificates/ca.crt')]);
  await provision();
  await runs();
  const before = await started();
  expect(readFileSync(await source(), 'utf8')).toBe('authority');
  want([certificates(2)]);
  await until('the other files', () => text('certificates/tls.key') === 'key 2');
  expect(await started()).toEqual(before);
  want([certificates(2, { 'ca.crt': 'another authority' })]);
  await until('the new file', async () => {
    const [container, ...more] = await engine.containers();
    return (
      container?.state === 'running' && !more.length && readFileSync(await source(), 'utf8') === 'another authority'
    );
  });
  await until('no older file', () => readdirSync(file('')).length === 2);
});

test('a user of the controller cannot have a volume mount that takes the place of a set', async () => {
  controller.volumeMounts = [
    { uuid: 'bbbbbbbb', name: 'system:certificates', version: 1, type: 'secret', data: { 'tls.key': 'ZXZpbA==' } },
  ];
  want([], [view('system:certificates')]);
  await provision();
  await until('the reason', () => status()?.reason === 'WaitingForVolumeMount');
  want([certificates(1)]);
  await runs();
  expect(readFileSync(join(await source(), 'tls.key'), 'utf8')).toBe('key 1');
});

test('an agent that starts without a controller runs from the content on its disk', async () => {
  want([certificates(1)], [view('system:certificates')]);
  await provision();
  await runs();
  const switched = readlinkSync(file('certificates/..data'));
  await end();
  await controller.close();
  const before = asked().length;
  engine = new MemoryEngine({ anyImage: true });
  start();
  await until('a container', async () => (await engine.containers())[0]?.state === 'running');
  expect(readFileSync(join(await source(), 'tls.key'), 'utf8')).toBe('key 1');
  expect((await agent.report(false)).systemFiles).toMatchObject({ digest: controller.due.systemFiles });
  expect([asked().length, readlinkSync(file('certificates/..data'))]).toEqual([before, switched]);
  await controller.listen();
});

test('a replica of the former release, which answers 404, leaves the files here, and the list is read from the next one', async () => {
  want([certificates(1)], [view('system:certificates')]);
  await provision();
  await runs();
  const isOld = (_method: string, path: string) =>
    path.startsWith('/agent/systemFiles') ? failure(404, 'ROUTE_NOT_FOUND') : undefined;
  controller.change({
    fault: isOld,
    systemFiles: [certificates(2)],
    config: { statusFrequency: 20, changeFrequency: 1 },
  });
  await until('the other change', () => agent.effective().statusFrequency === 20);
  const polls = () => controller.requests.filter(({ path }) => path === '/agent/changes').length;
  const before = polls();
  await until('another poll', () => polls() > before + 1);
  expect([agent.connection.state, text('certificates/tls.key')]).toEqual(['OK', 'key 1']);
  controller.change({ fault: undefined });
  await until('the new content', () => text('certificates/tls.key') === 'key 2');
  expect(status()?.status).toBe('RUNNING');
});

test('an agent at a controller of a former release has no such files, and says nothing of them', async () => {
  controller.fault = (_method, path) =>
    path.startsWith('/agent/systemFiles') ? failure(404, 'ROUTE_NOT_FOUND') : undefined;
  want([], [view()]);
  await provision();
  await runs();
  expect(controller.requests.some(({ path }) => path.startsWith('/agent/systemFiles'))).toBe(false);
  expect(controller.said).not.toHaveProperty('systemFiles');
});

test('each poll names the section, also while the agent has nothing of it', async () => {
  want([], [view()]);
  await provision();
  await runs();
  const have = () => controller.requests.findLast(({ path }) => path === '/agent/changes')?.have;
  expect(have()).toContain('systemFiles:0');
  want([certificates(1)]);
  await until('the digest', () => have()?.includes(`systemFiles:${controller.due.systemFiles}`));
});

test('on a full disk the old content stays with the reason in the report, and the new content arrives with the room', async () => {
  want([certificates(1)], [view('system:certificates')]);
  await provision();
  await runs();
  await isComplete();
  const { systemFiles: before } = controller.due;
  write = () => {
    throw new Error('ENOSPC: no space left on device, write');
  };
  want([certificates(2)]);
  const problem = 'certificates: ENOSPC: no space left on device, write';
  await until('the problem', () => controller.said.systemFiles?.problem === problem);
  expect(controller.said).toMatchObject({ systemFiles: { digest: before }, daemonStatus: 'WARNING' });
  expect(controller.said.warningMessage).toContain(`system files: ${problem}`);
  expect(text('certificates/tls.key')).toBe('key 1');
  write = filesOnDisk(join(folder, 'volumes')).write;
  // Any other change applies the desired state again.
  want([certificates(2)], [view('system:certificates', { env: [{ key: 'A', value: 'b' }] })]);
  await until('the new content', () => text('certificates/tls.key') === 'key 2');
  await isComplete();
  expect(controller.said.systemFiles).toMatchObject({ digest: controller.due.systemFiles });
  expect(controller.said.systemFiles).not.toHaveProperty('problem');
  // Nothing was fetched twice.
  expect(new Set(asked().flat()).size).toBe(asked().flat().length);
});

test('a set that is not listed any more is removed once no container binds it', async () => {
  want([certificates(1)], [view('system:certificates')]);
  await provision();
  await runs();
  want([]);
  await until('the reason', () => status()?.reason === 'WaitingForVolumeMount');
  expect(readFileSync(join(await source(), 'tls.key'), 'utf8')).toBe('key 1');
  want([], [view(undefined, { revision: 'r2', env: [{ key: 'A', value: 'b' }] })]);
  await until('an empty folder', () => readdirSync(file('')).length === 0);
  await until('the report', () => controller.said.systemFiles?.digest === '');
});

test('no file of the system is left on the disk after the agent was deprovisioned', async () => {
  want([certificates(1)], [view('system:certificates/tls.key')]);
  await provision();
  await runs();
  expect(existsSync(file('certificates'))).toBe(true);
  await agent.deprovision('all');
  await until('an empty folder', () => readdirSync(file('')).length === 0);
});

test('the files stay with what runs when the agent is deprovisioned with the scope local', async () => {
  want([certificates(1)], [view('system:certificates')]);
  await provision();
  await runs();
  await agent.deprovision('local');
  await until('another look at the engine', () => agent.identity.node === undefined);
  expect(text('certificates/tls.key')).toBe('key 1');
});
