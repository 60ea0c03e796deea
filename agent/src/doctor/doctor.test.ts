import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import http, { type RequestListener } from 'node:http';
import https from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import type { SavedName } from '../../../src/wire/sections.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { FakeController } from '../link/_fake-controller.ts';
import { identityFile, newIdentity, newKey, publicPart } from '../state/identity.ts';
import { openSqliteDatabase } from '../state/sqlite-database.ts';
import type { Diagnosis } from './check.ts';
import { diagnose } from './check.ts';
import { createDoctorContext } from './context.ts';
import { CHECKS } from './doctor.ts';

/**
 * Every problem in the table of checks is reproduced for real: TLS servers, full and read-only file systems, a kernel
 * without cgroups, an engine socket that does not exist. `afterAll` compares with the table.
 */
const MAIN = join(import.meta.dirname, '../main.ts');
const read = (name: string) => readFileSync(join(import.meta.dirname, 'testdata', name), 'utf8');
const isRoot = process.getuid?.() === 0;
const reproduced = new Set<string>();
let folder: string;
let over: AsyncDisposableStack;

beforeEach(() => {
  folder = temporaryFolder();
  mkdirSync(join(folder, 'data'));
  over = new AsyncDisposableStack();
  return () => over.disposeAsync();
});

interface Fixture {
  settings?: Record<string, unknown>;
  /** the controller that the node belongs to */
  node?: { controllerUrl: string; ca?: string };
  wall?: () => number;
  /** ms that the controller has to answer */
  reach?: number;
  cdi?: string[];
}

const configFile = () => join(folder, 'config.yaml');
const database = () => join(folder, 'data/agent.db');

function install({ settings = {}, node }: Fixture): void {
  const usual = { containerEngineUrl: `unix://${folder}/engine.sock`, localApiPort: 0, diskDirectory: 'data' };
  writeFileSync(configFile(), stringify({ ...usual, ...settings }));
  if (node) saveNode(node);
}

function saveNode(node: { controllerUrl: string; ca?: string }) {
  const known = { uuid: 'u', namespace: 'skerry', name: 'n1' };
  const identity = { ...newIdentity(), nodeKey: newKey(), node: { ...known, ...node } };
  identityFile(join(folder, 'data/identity.json'), Date.now, () => {}).save(identity);
  return identity;
}

async function examined(fixture: Fixture = {}): Promise<Map<string, Diagnosis>> {
  install(fixture);
  const found = await diagnose(CHECKS, createDoctorContext(configFile(), fixture.wall, fixture.reach));
  return noted(found);
}

function noted(found: Diagnosis[]): Map<string, Diagnosis> {
  for (const { check, problem } of found) if (problem) reproduced.add(`${check}/${problem}`);
  return new Map(found.map((each) => [each.check, each]));
}

/** Runs `skerry-agent doctor`, wrapped in programs that restrict it. */
function command(...wrapped: string[]): Promise<Map<string, Diagnosis>> {
  const [program = process.execPath, ...args] = [...wrapped, process.execPath, MAIN, 'doctor', '--json'];
  return new Promise((resolve, reject) => {
    execFile(program, [...args, '--config', configFile()], { timeout: 60_000 }, (_error, stdout, stderr) => {
      try {
        resolve(noted((JSON.parse(stdout) as { checks: Diagnosis[] }).checks));
      } catch {
        reject(new Error(`${program} ${args.join(' ')}: ${stdout}${stderr}`));
      }
    });
  });
}

async function listening(server: Server | http.Server, where: number | string = 0): Promise<number> {
  await new Promise<void>((resolve) =>
    server.listen(where as number, ...((typeof where === 'number' ? ['127.0.0.1'] : []) as []), resolve),
  );
  over.defer(() => {
    if ('closeAllConnections' in server) server.closeAllConnections();
    server.close();
  });
  return typeof where === 'number' ? (server.address() as AddressInfo).port : 0;
}

const serving = async (listener: RequestListener) => `http://127.0.0.1:${await listening(http.createServer(listener))}`;
const statusOf =
  (ahead = 0): RequestListener =>
  (_request, response) =>
    response.end(JSON.stringify({ status: 'online', timestamp: Date.now() + ahead, uptimeSec: 1 }));
async function servingTls(certificate: string, ahead = 0): Promise<string> {
  const server = https.createServer({ key: read('server.key'), cert: read(certificate) }, (request, response) =>
    statusOf(ahead)(request, response),
  );
  return `https://127.0.0.1:${await listening(server)}`;
}

const WELL = { warnings: [], controllerConnection: 'OK' };
const NOTHING = { knowledge: [], 'volume-mounts': [] };
const HERE = { name: 'other', state: 'Ready', lastError: '' };
const MISSING = 'the repository team/tiny at v9 does not exist';

/** A controller at whose address nothing listens. */
const DOWN = { controllerUrl: 'http://127.0.0.1:1' };

/** What a check finds, as `check/problem` or as the check alone, and how the fixture is arranged. */
type Case = [found: string, detail: RegExp, arrange?: () => Fixture | Promise<Fixture>];

const CASES: Record<string, Case> = {
  'a configuration file that is not YAML': ['settings/unusable', /config\.yaml is not YAML/],
  'a configuration file with a setting that does not exist': [
    'settings/unknown',
    /config\.yaml: logLevl: no such setting/,
    () => ({ settings: { logLevl: 'DEBUG' } }),
  ],
  'a file of release keys that has none': [
    'release-keys/unusable',
    /release\.pem: there is no public key/,
    () => ({ ...wrote(join(folder, 'release.pem'), 'hello'), settings: { releaseKeyFile: 'release.pem' } }),
  ],
  'a file of release keys that the settings of the package name and a fresh machine does not have': [
    'release-keys',
    /^no file .*release\.pem: the agent does not update itself$/,
    () => ({ settings: { releaseKeyFile: 'release.pem' } }),
  ],
  'a policy with a misspelled rule': [
    'policy/unusable',
    /policy\.yaml.*privilege/,
    () => wrote(join(folder, 'policy.yaml'), 'privilege: false\n'),
  ],
  'an agent that is not provisioned': ['identity/none', /not provisioned/],
  'an identity file that is truncated': [
    'identity/damaged',
    /identity\.json cannot be read/,
    () => wrote(join(folder, 'data/identity.json'), '{"instance": "ab'),
  ],
  'an identity file that other users can read': [
    'identity/open',
    /mode 644/,
    () => {
      saveNode(DOWN);
      chmodSync(join(folder, 'data/identity.json'), 0o644);
      return {};
    },
  ],
  'a file that is not a database': ['database/damaged', /not a database/, () => wrote(database(), 'x'.repeat(8192))],
  'a database of a newer agent': [
    'database/newer',
    /version 99/,
    () => {
      using other = new DatabaseSync(database());
      other.exec('PRAGMA user_version = 99');
      return {};
    },
  ],
  'a database that is a directory': ['database/unreadable', /I\/O error|unable to open/, () => made(database())],
  'a disk with little free space': [
    'disk/low',
    /less than 100 %/,
    () => ({ settings: { availableDiskThreshold: 100 } }),
  ],
  'an engine socket that does not exist': ['engine/absent', /engine\.sock does not answer: .*ENOENT/],
  "the agent's own engine, which does not run": [
    'engine/silent',
    /skerry-containerd\/containerd\.sock.*ENOENT/,
    () => ({ settings: { containerEngine: 'embedded', containerEngineUrl: null } }),
  ],
  'an engine that is too old': [
    'engine/unfit',
    /speaks API 1\.12, at least 1\.40/,
    () => engineAnswering({ ApiVersion: '1.12', Version: '1.0' }),
  ],
  'a rootless engine': [
    'engine/rootless',
    /docker 24\.0/,
    () => engineAnswering({ SecurityOptions: ['name=rootless'] }),
  ],
  'a container of an agent that no longer exists': [
    'orphans/left',
    /skerry-lost \(shop\)/,
    async () => ({ ...(await engineAnswering({}, [ORPHAN])), node: DOWN }),
  ],
  'a container while the identity of this agent is unknown': [
    'orphans',
    /which containers are its own is not known/,
    () => engineAnswering({}, [ORPHAN]),
  ],
  'an engine without containers of other agents': [
    'orphans',
    /none/,
    async () => ({ ...(await engineAnswering()), node: DOWN }),
  ],
  'an engine that works': ['engine', /docker 24\.0 \(API 1\.43\)/, () => engineAnswering()],
  'CDI devices and an engine without CDI': [
    'cdi/unsupported',
    /^docker 24\.0 gives containers none of v\/gpu=0$/,
    async () => ({ ...(await engineAnswering()), ...describing('v/gpu') }),
  ],
  'CDI devices and an engine that gives them to containers': [
    'cdi',
    /^v\/gpu=0$/,
    async () => {
      const { cdi } = describing('v/gpu');
      return engineAnswering({ ApiVersion: '1.44', Version: '25.0', CDISpecDirs: cdi });
    },
  ],
  'a CDI specification without a kind': ['cdi/unreadable', /gpu\.yaml: kind must be/, () => describing('')],
  'a machine without CDI specifications': ['cdi', /there are none/, () => ({ cdi: ['/nowhere'] })],
  'an agent that does not run': ['daemon/absent', /no agent answers at .*api\.sock/],
  'an agent whose response cannot be parsed': ['daemon/broken', /cannot be read/, () => daemonAnswering('<html>')],
  'an agent that reports a warning': [
    'daemon/troubled',
    /database: disk full/,
    () => daemonAnswering({ ...WELL, warnings: ['database: disk full'] }),
  ],
  'an agent whose last update failed': [
    'daemon/update',
    /0\.3\.0 failed/,
    () => daemonAnswering({ ...WELL, warnings: ['update: 0.3.0 failed, 0.2.0 runs: the disk is full'] }),
  ],
  'an agent with settings that wait for its next start': [
    'daemon/restart',
    /localApiPort of the file takes effect/,
    () =>
      daemonAnswering({
        ...WELL,
        warnings: ['settings: localApiPort of the file takes effect when the agent starts again'],
      }),
  ],
  'an agent with warnings that other checks explain': [
    'daemon',
    /answers at/,
    () =>
      daemonAnswering({
        ...WELL,
        warnings: [
          'container engine: the engine at unix:///s does not answer: connect ENOENT /s',
          'policy: /p.yaml: unknown rule "x"; the former rules stay',
          'tunnel: install openssh-client',
          'settings: /c.yaml: statusFrequency: must be a number; the former ones stay, and the agent does not start with it',
        ],
      }),
  ],
  'a model that cannot be pulled': [
    'artifacts/failed',
    /^tiny: the repository team\/tiny at v9 does not exist$/,
    () => daemonAnswering(WELL, { models: [{ name: 'tiny', state: 'Failed', lastError: MISSING }, HERE], ...NOTHING }),
  ],
  'models and knowledge that are all here': [
    'artifacts',
    /1 of 1 are here/,
    () => daemonAnswering(WELL, { models: [HERE], ...NOTHING }),
  ],
  'an agent that does not list what there is': ['artifacts', /no running agent says/, () => daemonAnswering(WELL)],
  'a volume mount whose source does not exist': [
    'volume-mounts/missing',
    /^creds: its Secret or ConfigMap does not exist$/,
    () => {
      const creds = { name: 'creds', state: 'Pending', lastError: 'its Secret or ConfigMap does not exist' };
      return daemonAnswering(WELL, { models: [], knowledge: [], 'volume-mounts': [creds] });
    },
  ],
  'files of the system for which the disk has no room': [
    'system-files/outdated',
    /^certificates: ENOSPC: no space left on device, write$/,
    () => {
      const full = { name: 'certificates', state: 'Failed', lastError: 'ENOSPC: no space left on device, write' };
      return daemonAnswering(WELL, { models: [], ...NOTHING, 'system-files': [full] });
    },
  ],
  'files of the system that are all here': [
    'system-files',
    /1 of 1 are here/,
    () => daemonAnswering(WELL, { models: [], ...NOTHING, 'system-files': [HERE] }),
  ],
  'an agent of a former release, which does not list files of the system': [
    'system-files',
    /no running agent says/,
    () => daemonAnswering(WELL, { models: [HERE], ...NOTHING }),
  ],
  'a receiver that is not there': [
    'position/unknown',
    /^\/dev\/ttyUSB0 is not there; it is looked for again$/,
    () => daemonAnswering({ ...WELL, warnings: ['position: /dev/ttyUSB0 is not there; it is looked for again'] }),
  ],
  'a machine whose position is known': ['position', /^gpsMode is off$/, () => daemonAnswering(WELL)],
  'another machine than the one of the identity': [
    'edge-guard/refused',
    /^this is another machine \(board-serial\)$/,
    () => daemonAnswering({ ...WELL, warnings: ['edge guard: this is another machine (board-serial)'] }),
  ],
  'a machine that no edge guard watches': ['edge-guard', /^nobody asked for it/, () => daemonAnswering(WELL)],
  'an agent whose containers were drained': [
    'daemon/drained',
    /nothing is started until/,
    () => daemonAnswering({ ...WELL, warnings: ['drained: nothing is started until the agent starts again'] }),
  ],
  'a former engine that may still run containers': [
    'daemon/former',
    /may still run/,
    () => daemonAnswering({ ...WELL, warnings: ['former engine: what this agent made on docker may still run: x'] }),
  ],
  'a file of settings with a value that a running agent does not take': [
    'settings/idle',
    /: timeZone "Mars": must be an IANA time zone/,
    () => ({ settings: { timeZone: 'Mars' } }),
  ],
  'a tunnel that the machine cannot open': [
    'tunnel/failed',
    /^install openssh-client$/,
    () => daemonAnswering({ ...WELL, tunnel: { status: 'failed', message: 'install openssh-client' } }),
  ],
  'a tunnel that is open': ['tunnel', /^open$/, () => daemonAnswering({ ...WELL, tunnel: { status: 'open' } })],
  'a node without a tunnel': ['tunnel', /none was asked for/, () => daemonAnswering(WELL)],
  'a port that another program listens on': [
    'port/taken',
    /another program/,
    async () => ({ settings: { localApiPort: await listening(createTcpServer((socket) => socket.end('hello\n'))) } }),
  ],
  'a port that the agent could not bind': [
    'port/unserved',
    /nothing answers/,
    async () => {
      const server = createTcpServer();
      const port = await listening(server);
      server.close();
      const fixture = await daemonAnswering(WELL);
      return { ...fixture, settings: { ...fixture.settings, localApiPort: port } };
    },
  ],
  'a controller whose name does not resolve': [
    'names/controller',
    /controller\.invalid does not resolve/,
    () => ({ node: { controllerUrl: 'http://controller.invalid:51121' } }),
  ],
  'a registry whose name does not resolve': [
    'names/registry',
    /registry\.invalid does not resolve: \w+; the registry's name hub\.invalid does not resolve: \w+$/,
    () => sent({ 3: 'https://registry.invalid/v2', 4: 'https://unused.invalid', 5: 'https://hub.invalid' }, 3, 5),
  ],
  'a valid certificate': ['certificate', /"good" by "Test authority"/, () => tlsNode('good.pem')],
  'a certificate that has expired': ['certificate/expired', /to 2021-01-01/, () => tlsNode('expired.pem')],
  'a certificate that is valid at the time of the controller, on a machine whose clock is years ahead': [
    'certificate/clock',
    /to 2021-01-01/,
    () => tlsNode('expired.pem', Date.UTC(2020, 6, 1) - Date.now()),
  ],
  'a certificate that is valid at the time of the controller, on a machine whose clock is decades behind': [
    'certificate/clock',
    /from 2070-01-01/,
    () => tlsNode('future.pem', Date.UTC(2070, 6, 1) - Date.now()),
  ],
  'a certificate that is not valid yet': ['certificate/future', /from 2070-01-01/, () => tlsNode('future.pem')],
  'a certificate for another name': [
    'certificate/name',
    /for DNS:controller\.example\.com, not for 127\.0\.0\.1/,
    () => tlsNode('other.pem'),
  ],
  'a certificate of an unknown authority': [
    'certificate/unknown',
    /issued by "Test authority"/,
    async () => ({ node: { controllerUrl: await servingTls('good.pem') } }),
  ],
  'a client certificate on a server': ['certificate/other', /purpose/i, () => tlsNode('client.pem')],
  'a certificate that expires soon': [
    'certificate/soon',
    /in 3 days/,
    async () => ({ ...(await tlsNode('good.pem')), wall: () => Date.UTC(2076, 0, 1) - 3.5 * 86_400_000 }),
  ],
  'a certificate that is not verified (secureMode: false)': [
    'certificate/unverified',
    /not verified/,
    async () => ({ ...(await tlsNode('good.pem')), settings: { secureMode: false } }),
  ],
  'a server without TLS at an https URL': [
    'certificate/none',
    /https:/,
    async () => ({ node: { controllerUrl: (await serving(statusOf())).replace('http:', 'https:') } }),
  ],
  'a controller that is down': ['controller/silent', /ECONNREFUSED/, () => ({ node: DOWN })],
  'a controller whose API server is frozen': [
    'controller/store',
    /to \/status; the process itself answers/,
    async () => ({
      ...(await answeredBy((request, response) => request.url?.endsWith('/live') && statusOf()(request, response))),
      reach: 200,
    }),
  ],
  'a controller that reports that its API server does not answer': [
    'controller/store',
    /its API server does not answer/,
    () => answeredBy((_request, response) => response.writeHead(503).end('{"code":"CONTROLLER_DB_UNAVAILABLE"}')),
  ],
  'a controller that accepts connections and never answers': [
    'controller/hangs',
    /although a connection opens/,
    async () => ({ node: { controllerUrl: await serving(() => {}) }, reach: 200 }),
  ],
  'a remote controller without TLS': [
    'certificate/plain',
    /http:\/\/controller\.invalid:51121 is another machine/,
    () => ({ node: { controllerUrl: 'http://controller.invalid:51121' } }),
  ],
  'a controller without TLS on the same machine': ['certificate', /is this machine/, () => ({ node: DOWN })],
  'a microservice whose image is only in the cache of the machine': [
    'names',
    /no names are known/,
    () => sent({ 2: 'from_cache' }, 2),
  ],
  'a controller that is not ready': [
    'controller/busy',
    /answers 503/,
    () => answeredBy((_request, response) => response.writeHead(503).end('{}')),
  ],
  'another HTTP server at the address of the controller': [
    'controller/other',
    /answers 200, and not as/,
    () => answeredBy((_request, response) => response.end('<h1>hello</h1>')),
  ],
  'a clock that is five minutes behind': [
    'clock/off',
    /(29\d|30\d)(\.\d)? s behind/,
    () => answeredBy(statusOf(300_000)),
  ],
  'a clock that is three days ahead': [
    'clock/wrong',
    /ahead of the controller/,
    () => answeredBy(statusOf(-3 * 86_400_000)),
  ],
  'a clock that was reset to 1970': ['clock/wrong', /it says 1970/, () => ({ wall: () => 1_000_000 })],
  'a node that the controller does not know': [
    'authorisation/refused',
    /401 .*AGENT_NODE_NOT_FOUND/,
    async () => {
      const controller = over.use(await new FakeController().listen());
      return { node: { controllerUrl: controller.url } };
    },
  ],
  'an authorisation while the controller is down': ['authorisation/unknown', /does not answer/, () => ({ node: DOWN })],
  'a running agent whose connection is UNAUTHORIZED': [
    'authorisation/refused',
    /UNAUTHORIZED: gone/,
    async () => ({
      ...(await daemonAnswering({ ...WELL, controllerConnection: 'UNAUTHORIZED', connectionError: 'gone' })),
      node: DOWN,
    }),
  ],
};

/** A database with registries, by id, and a microservice for each of these that it uses. */
function sent(urls: Record<number, string>, ...used: readonly number[]): Fixture {
  using opened = openSqliteDatabase(database(), 0).database;
  const registries = Object.entries(urls).map(([id, url]) => ({ id: Number(id), url, username: '', password: '' }));
  const microservices = used.map((registryId) => ({
    ...{ uuid: `u${registryId}`, name: 'web', application: 'a', imageId: 'i', registryId },
  }));
  for (const [name, body] of Object.entries({ registries: { registries }, microservices: { microservices } }))
    opened.saveResponses(new Map([[name as SavedName, { digests: {}, body: JSON.stringify(body) }]]));
  return {};
}

function wrote(file: string, text: string): Fixture {
  writeFileSync(file, text);
  return {};
}

function made(directory: string): Fixture {
  mkdirSync(directory);
  return {};
}

/** A folder with the CDI specification of one device. */
function describing(kind: string): { cdi: string[] } {
  mkdirSync(join(folder, 'cdi'));
  writeFileSync(join(folder, 'cdi/gpu.yaml'), `cdiVersion: "0.6.0"\nkind: ${kind}\ndevices: [{name: "0"}]\n`);
  return { cdi: [join(folder, 'cdi')] };
}

/** A node of a controller that answers so. */
const answeredBy = async (listener: RequestListener): Promise<Fixture> => ({
  node: { controllerUrl: await serving(listener) },
});

async function tlsNode(certificate: string, ahead = 0): Promise<Fixture> {
  return { node: { controllerUrl: await servingTls(certificate, ahead), ca: read('ca.pem') } };
}

const ORPHAN_LABELS = { 'skerry.dev/agent': 'f'.repeat(32), 'skerry.dev/application': 'shop' };
const ORPHAN = { Id: 'c1', Names: ['/skerry-lost'], ImageID: 'i1', State: 'running', Labels: ORPHAN_LABELS };

async function engineAnswering(change: Record<string, unknown> = {}, containers: object[] = []): Promise<Fixture> {
  const facts = { ApiVersion: '1.43', Version: '24.0', Components: [], ...change };
  const server = http.createServer(({ url = '' }, response) =>
    response.end(JSON.stringify(url.includes('/containers/json') ? containers : facts)),
  );
  await listening(server, join(folder, 'engine.sock'));
  return {};
}

/** `lists`: what the agent answers at other paths than that of its status. */
async function daemonAnswering(status: unknown, lists: Record<string, object[]> = {}): Promise<Fixture> {
  mkdirSync(join(folder, 'run'));
  const text = typeof status === 'string' ? status : JSON.stringify(status);
  const server = http.createServer(({ url = '' }, response) => {
    const items = lists[url.replace('/v1/', '')];
    response.end(items ? JSON.stringify({ items }) : text);
  });
  await listening(server, join(folder, 'run/api.sock'));
  return { settings: { runDirectory: 'run' } };
}

for (const [name, [id, detail, arrange]] of Object.entries(CASES)) {
  const [check = '', problem] = id.split('/');
  test(`the check "${check}" finds ${problem ? `the problem "${problem}"` : 'no problem'}: ${name}`, async () => {
    const fixture = (await arrange?.()) ?? {};
    install(fixture);
    if (problem === 'unusable' && check === 'settings') writeFileSync(configFile(), 'diskDirectory: [\n');
    const context = createDoctorContext(configFile(), fixture.wall, fixture.reach, fixture.cdi ?? []);
    const asked = CHECKS.filter((one) => one.name === check);
    const found = noted(await diagnose(asked, context)).get(check);
    expect(found?.problem).toBe(problem);
    expect(found?.detail).toMatch(detail);
    if (problem) expect(found?.todo).toMatch(/\w{3}/);
  });
}

describe.skipIf(!isRoot)('doctor, with a machine that only root can arrange,', () => {
  const disks: Record<string, { options: string; file?: number; problem: string; detail: RegExp }> = {
    'a full disk': {
      options: 'size=1m',
      file: 1024 * 1024 - 4096,
      problem: 'full',
      detail: /0 MiB of 1 MiB free/,
    },
    'a file system without free inodes': { options: 'size=200m,nr_inodes=2', file: 0, problem: 'inodes', detail: /./ },
    'a read-only file system': { options: 'size=200m,ro', problem: 'readonly', detail: /EROFS/ },
  };
  for (const [name, { options, file, problem, detail }] of Object.entries(disks))
    test(`finds ${name}`, async () => {
      await sh('mount', '-t', 'tmpfs', '-o', options, 'none', join(folder, 'data'));
      over.defer(async () => void (await sh('umount', join(folder, 'data'))));
      if (file !== undefined) writeFileSync(join(folder, 'data/volume'), Buffer.alloc(file));
      expect((await examined()).get('disk')).toMatchObject({ problem, detail: expect.stringMatching(detail) });
    });

  test('finds a kernel without cgroups and one without the memory controller', async () => {
    install({});
    const without = (text: string) =>
      command('unshare', '-m', 'sh', '-c', `${text}; mount -t tmpfs none /sys/fs/cgroup; exec "$0" "$@"`);
    expect((await without('mount --bind /dev/null /proc/cgroups')).get('cgroup')).toMatchObject({ problem: 'absent' });
    const table = join(folder, 'cgroups');
    writeFileSync(table, '#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\nmemory\t2\t1\t0\n');
    expect((await without(`mount --bind ${table} /proc/cgroups`)).get('cgroup')).toMatchObject({
      problem: 'incomplete',
      detail: 'cgroup v1 without memory',
    });
  });

  test('finds a machine without an engine', async () => {
    install({ settings: { containerEngineUrl: null } });
    const found = await command('unshare', '-m', 'sh', '-c', 'mount -t tmpfs none /run; exec "$0" "$@"');
    expect(found.get('engine')).toMatchObject({ problem: 'none' });
  });

  test('finds low resource limits', async () => {
    install({});
    const found = await command('prlimit', '--nofile=1000:1000', 'setpriv', '--bounding-set=-sys_resource');
    expect(found.get('limits')).toMatchObject({ problem: 'low', detail: expect.stringContaining('open files 1000') });
  });

  const asNobody = () => command('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups');

  test('finds that the user may not use the socket of the engine', async () => {
    await engineAnswering();
    install({});
    chmodSync(join(folder, 'engine.sock'), 0o600);
    chmodSync(folder, 0o755);
    expect((await asNobody()).get('engine')).toMatchObject({ problem: 'forbidden' });
  });

  const closed: Record<string, () => Promise<void> | void> = {
    'the socket of the agent': async () => {
      install(await daemonAnswering(WELL));
      chmodSync(join(folder, 'run/api.sock'), 0o600);
    },
    'the data of the agent': () => {
      install({ node: DOWN });
      chmodSync(join(folder, 'data'), 0o700);
    },
  };
  for (const [what, arrange] of Object.entries(closed))
    test(`says to run it as root and nothing else, where the user may not read ${what}`, async () => {
      await arrange();
      chmodSync(folder, 0o755);
      const found = await asNobody();
      expect([...found.values()]).toEqual([
        expect.objectContaining({ check: 'user', problem: 'forbidden', todo: expect.stringContaining('usually root') }),
      ]);
    });
});

test('doctor finds no problem with an agent and a controller that work', async () => {
  const controller = over.use(await new FakeController().listen());
  const identity = saveNode({ controllerUrl: controller.url });
  controller.publicKey = publicPart(identity.nodeKey);
  identityFile(join(folder, 'data/identity.json'), Date.now, () => {}).save({
    ...identity,
    node: { ...identity.node, uuid: controller.nodeUuid },
  });
  const found = await examined({ settings: { availableDiskThreshold: 0 } });
  for (const name of ['identity', 'disk', 'names', 'controller', 'clock', 'authorisation'])
    expect(found.get(name), name).toMatchObject({ status: 'ok' });
});

test('a check that does not end or throws has failed, with the cause', async () => {
  const checks = [
    { name: 'hangs', about: '', problems: {}, run: () => new Promise<never>(() => {}) },
    { name: 'breaks', about: '', problems: {}, run: () => Promise.reject(new Error('no such luck')) },
  ];
  expect(await diagnose(checks, undefined, 50)).toMatchObject([
    { check: 'hangs', status: 'failed', detail: 'no answer within 0.05 s' },
    { check: 'breaks', status: 'failed', detail: 'no such luck' },
  ]);
});

afterAll(() => {
  if (!isRoot) return;
  const known = CHECKS.flatMap(({ name, problems }) => Object.keys(problems).map((problem) => `${name}/${problem}`));
  expect(known.filter((each) => !reproduced.has(each))).toEqual([]);
});
function sh(program: string, ...args: string[]): Promise<{ stdout: string }> {
  return new Promise((resolve, reject) => {
    execFile(program, args, (error, stdout, stderr) => (error ? reject(new Error(stderr)) : resolve({ stdout })));
  });
}
