import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http, { type RequestListener } from 'node:http';
import https from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { FakeController } from '../controller/_fake-controller.ts';
import type { ResponseName } from '../domain/desired.ts';
import { identityFile, newIdentity, newKey, publicPart } from '../state/identity.ts';
import { openSqliteDatabase } from '../state/sqlite-database.ts';
import type { Diagnosis } from './check.ts';
import { diagnose } from './check.ts';
import { createDoctorContext } from './context.ts';
import { CHECKS } from './doctor.ts';

/**
 * Every problem that the table of checks knows is made here for real: TLS servers, full and read-only file systems, a
 * kernel without cgroups, an engine socket that is gone. The last test compares with the table.
 */
const MAIN = join(import.meta.dirname, '../main.ts');
const read = (name: string) => readFileSync(join(import.meta.dirname, 'testdata', name), 'utf8');
const isRoot = process.getuid?.() === 0;
const reproduced = new Set<string>();
let folder: string;
let over: AsyncDisposableStack;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'skerry-doctor-'));
  mkdirSync(join(folder, 'data'));
  over = new AsyncDisposableStack();
  over.defer(() => rmSync(folder, { recursive: true, force: true }));
  return () => over.disposeAsync();
});

interface World {
  settings?: Record<string, unknown>;
  /** the controller that the node belongs to */
  node?: { controllerUrl: string; ca?: string };
  wall?: () => number;
  /** ms that the controller has to answer */
  reach?: number;
}

const configFile = () => join(folder, 'config.yaml');
const database = () => join(folder, 'data/agent.db');

function furnish({ settings = {}, node }: World): void {
  const config = {
    containerEngineUrl: `unix://${folder}/engine.sock`,
    localApiPort: 0,
    diskDirectory: 'data',
    ...settings,
  };
  writeFileSync(configFile(), stringify(config));
  if (node) saveNode(node);
}

function saveNode(node: { controllerUrl: string; ca?: string }) {
  const identity = {
    ...newIdentity(),
    nodeKey: newKey(),
    node: { uuid: 'u', namespace: 'skerry', name: 'n1', ...node },
  };
  identityFile(join(folder, 'data/identity.json'), Date.now, () => {}).save(identity);
  return identity;
}

async function examined(world: World = {}): Promise<Map<string, Diagnosis>> {
  furnish(world);
  const found = await diagnose(CHECKS, createDoctorContext(configFile(), world.wall, world.reach));
  return noted(found);
}

function noted(found: Diagnosis[]): Map<string, Diagnosis> {
  for (const { check, problem } of found) if (problem) reproduced.add(`${check}/${problem}`);
  return new Map(found.map((each) => [each.check, each]));
}

/** The command as people run it, by way of programs that take something from it. */
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
async function servingTls(certificate: string): Promise<string> {
  const server = https.createServer({ key: read('server.key'), cert: read(certificate) }, (request, response) =>
    statusOf()(request, response),
  );
  return `https://127.0.0.1:${await listening(server)}`;
}

/** A case: how the world is made, and what one check then says. */
type Case = [check: string, problem: string | undefined, detail: RegExp, make: () => World | Promise<World>];

const CASES: Record<string, Case> = {
  'settings that are no YAML': ['settings', 'unusable', /config\.yaml is not YAML/, () => ({})],
  'a policy with a misspelled rule': [
    'policy',
    'unusable',
    /policy\.yaml.*privilege/,
    () => wrote(join(folder, 'policy.yaml'), 'privilege: false\n'),
  ],
  'an agent that nobody provisioned': ['identity', 'none', /not provisioned/, () => ({})],
  'an identity that is cut off': [
    'identity',
    'damaged',
    /identity\.json cannot be read/,
    () => wrote(join(folder, 'data/identity.json'), '{"instance": "ab'),
  ],
  'an identity that others can read': [
    'identity',
    'open',
    /mode 644/,
    () => {
      saveNode({ controllerUrl: 'http://127.0.0.1:1' });
      chmodSync(join(folder, 'data/identity.json'), 0o644);
      return {};
    },
  ],
  'a database that is none': ['database', 'damaged', /not a database/, () => wrote(database(), 'x'.repeat(8192))],
  'a database of a newer agent': [
    'database',
    'newer',
    /version 99/,
    () => {
      using other = new DatabaseSync(database());
      other.exec('PRAGMA user_version = 99');
      return {};
    },
  ],
  'a database that is a directory': ['database', 'unreadable', /I\/O error|unable to open/, () => made(database())],
  'little space': ['disk', 'low', /less than 100 %/, () => ({ settings: { availableDiskThreshold: 100 } })],
  'an engine that does not run': ['engine', 'absent', /engine\.sock does not answer: .*ENOENT/, () => ({})],
  'an engine that is too old': [
    'engine',
    'unfit',
    /speaks API 1\.12, at least 1\.40/,
    () => engineAnswering({ ApiVersion: '1.12', Version: '1.0' }),
  ],
  'a rootless engine': [
    'engine',
    'rootless',
    /docker 24\.0/,
    () => engineAnswering({ ApiVersion: '1.43', Version: '24.0', SecurityOptions: ['name=rootless'] }),
  ],
  'containers of an agent that is no more': [
    'orphans',
    'left',
    /skerry-lost \(shop\)/,
    async () => ({
      ...(await engineAnswering({ ApiVersion: '1.43', Version: '24.0' }, [ORPHAN])),
      node: { controllerUrl: 'http://127.0.0.1:1' },
    }),
  ],
  'containers of an agent that does not know who it is': [
    'orphans',
    undefined,
    /which containers are its own is not known/,
    () => engineAnswering({ ApiVersion: '1.43', Version: '24.0' }, [ORPHAN]),
  ],
  'no containers of other agents': [
    'orphans',
    undefined,
    /none/,
    async () => ({
      ...(await engineAnswering({ ApiVersion: '1.43' }, [])),
      node: { controllerUrl: 'http://127.0.0.1:1' },
    }),
  ],
  'an engine that works': [
    'engine',
    undefined,
    /docker 24\.0 \(API 1\.43\)/,
    () => engineAnswering({ ApiVersion: '1.43', Version: '24.0' }),
  ],
  'no agent': ['daemon', 'absent', /no agent answers at .*api\.sock/, () => ({})],
  'an agent that answers nonsense': ['daemon', 'broken', /cannot be read/, () => daemonAnswering('<html>')],
  'an agent with troubles': [
    'daemon',
    'troubled',
    /database: disk full/,
    () => daemonAnswering({ warnings: ['database: disk full'], controllerConnection: 'OK' }),
  ],
  'a port that somebody else has': [
    'port',
    'taken',
    /another program/,
    async () => ({ settings: { localApiPort: await listening(createTcpServer((socket) => socket.end('hello\n'))) } }),
  ],
  'a port that the agent could not bind': [
    'port',
    'unserved',
    /nothing answers/,
    async () => {
      const server = createTcpServer();
      const port = await listening(server);
      server.close();
      const world = await daemonAnswering({ warnings: [], controllerConnection: 'OK' });
      return { ...world, settings: { ...world.settings, localApiPort: port } };
    },
  ],
  'a name of the controller that nobody knows': [
    'names',
    'controller',
    /controller\.invalid does not resolve/,
    () => ({ node: { controllerUrl: 'http://controller.invalid:51121' } }),
  ],
  'a name of a registry that nobody knows': [
    'names',
    'registry',
    /registry\.invalid does not resolve/,
    () => {
      using opened = openSqliteDatabase(database(), 0).database;
      const registry = (id: number, url: string) => ({ id, url, username: '', password: '' });
      const responses = {
        registries: { registries: [registry(3, 'https://registry.invalid/v2'), registry(4, 'https://unused.invalid')] },
        microservices: { microservices: [{ uuid: 'u', name: 'web', application: 'a', imageId: 'i', registryId: 3 }] },
      };
      for (const [name, body] of Object.entries(responses))
        opened.saveResponses(new Map([[name as ResponseName, { digests: {}, body: JSON.stringify(body) }]]));
      return {};
    },
  ],
  'a certificate that is right': ['certificate', undefined, /"good" by "Test authority"/, () => tlsNode('good.pem')],
  'a certificate that has ended': ['certificate', 'expired', /to 2021-01-01/, () => tlsNode('expired.pem')],
  'a certificate that has not begun': ['certificate', 'future', /from 2070-01-01/, () => tlsNode('future.pem')],
  'a certificate for another name': [
    'certificate',
    'name',
    /for DNS:controller\.example\.com, not for 127\.0\.0\.1/,
    () => tlsNode('other.pem'),
  ],
  'a certificate of an authority that nobody knows here': [
    'certificate',
    'unknown',
    /issued by "Test authority"/,
    async () => ({ node: { controllerUrl: await servingTls('good.pem') } }),
  ],
  'a certificate that is not for servers': ['certificate', 'other', /purpose/i, () => tlsNode('client.pem')],
  'a certificate that ends soon': [
    'certificate',
    'soon',
    /in 3 days/,
    async () => ({ ...(await tlsNode('good.pem')), wall: () => Date.UTC(2076, 0, 1) - 3.5 * 86_400_000 }),
  ],
  'a certificate that is not looked at': [
    'certificate',
    'unverified',
    /not verified/,
    async () => ({ ...(await tlsNode('good.pem')), settings: { secureMode: false } }),
  ],
  'a server without TLS at an https address': [
    'certificate',
    'none',
    /https:/,
    async () => ({ node: { controllerUrl: (await serving(statusOf())).replace('http:', 'https:') } }),
  ],
  'a controller that is down': [
    'controller',
    'silent',
    /ECONNREFUSED/,
    () => ({ node: { controllerUrl: 'http://127.0.0.1:1' } }),
  ],
  'a controller whose API server is frozen': [
    'controller',
    'store',
    /to \/status; the process itself answers/,
    async () => ({
      node: {
        controllerUrl: await serving((request, response) => {
          if (request.url?.endsWith('/live')) statusOf()(request, response);
        }),
      },
      reach: 200,
    }),
  ],
  'a controller that says that its API server is away': [
    'controller',
    'store',
    /its API server does not answer/,
    async () => ({
      node: {
        controllerUrl: await serving((_request, response) =>
          response.writeHead(503).end('{"code":"CONTROLLER_DB_UNAVAILABLE"}'),
        ),
      },
    }),
  ],
  'a controller that hangs': [
    'controller',
    'hangs',
    /although a connection opens/,
    async () => ({ node: { controllerUrl: await serving(() => {}) }, reach: 200 }),
  ],
  'a far controller without TLS': [
    'certificate',
    'plain',
    /http:\/\/controller\.invalid:51121 is another machine/,
    () => ({ node: { controllerUrl: 'http://controller.invalid:51121' } }),
  ],
  'a near controller without TLS': [
    'certificate',
    undefined,
    /is this machine/,
    () => ({ node: { controllerUrl: 'http://127.0.0.1:1' } }),
  ],
  "images of the machine's own cache": [
    'names',
    undefined,
    /no names are known/,
    () => {
      using opened = openSqliteDatabase(database(), 0).database;
      const responses = {
        registries: { registries: [{ id: 2, url: 'from_cache' }] },
        microservices: { microservices: [{ uuid: 'u', name: 'web', application: 'a', imageId: 'i', registryId: 2 }] },
      };
      for (const [name, body] of Object.entries(responses))
        opened.saveResponses(new Map([[name as ResponseName, { digests: {}, body: JSON.stringify(body) }]]));
      return {};
    },
  ],
  'a controller that is not ready': [
    'controller',
    'busy',
    /answers 503/,
    async () => ({ node: { controllerUrl: await serving((_request, response) => response.writeHead(503).end('{}')) } }),
  ],
  'something else at the address of the controller': [
    'controller',
    'other',
    /answers 200, and not as/,
    async () => ({ node: { controllerUrl: await serving((_request, response) => response.end('<h1>hello</h1>')) } }),
  ],
  'a clock that is minutes off': [
    'clock',
    'off',
    /(29\d|30\d)(\.\d)? s behind/,
    async () => ({ node: { controllerUrl: await serving(statusOf(300_000)) } }),
  ],
  'a clock that is days off': [
    'clock',
    'wrong',
    /ahead of the controller/,
    async () => ({ node: { controllerUrl: await serving(statusOf(-3 * 86_400_000)) } }),
  ],
  'a clock that lost its battery': ['clock', 'wrong', /it says 1970/, () => ({ wall: () => 1_000_000 })],
  'a node that the controller does not know': [
    'authorisation',
    'refused',
    /401 .*AGENT_NODE_NOT_FOUND/,
    async () => {
      const controller = await new FakeController().listen();
      over.use(controller);
      return { node: { controllerUrl: controller.url } };
    },
  ],
  'a controller that cannot be asked': [
    'authorisation',
    'unknown',
    /does not answer/,
    () => ({ node: { controllerUrl: 'http://127.0.0.1:1' } }),
  ],
  'what a running agent knows of its authorisation': [
    'authorisation',
    'refused',
    /UNAUTHORIZED: gone/,
    async () => ({
      ...(await daemonAnswering({ warnings: [], controllerConnection: 'UNAUTHORIZED', connectionError: 'gone' })),
      node: { controllerUrl: 'http://127.0.0.1:1' },
    }),
  ],
};

function wrote(file: string, text: string): World {
  writeFileSync(file, text);
  return {};
}

function made(directory: string): World {
  mkdirSync(directory);
  return {};
}

async function tlsNode(certificate: string): Promise<World> {
  return { node: { controllerUrl: await servingTls(certificate), ca: read('ca.pem') } };
}

const ORPHAN_LABELS = { 'skerry.dev/agent': 'f'.repeat(32), 'skerry.dev/application': 'shop' };
const ORPHAN = { Id: 'c1', Names: ['/skerry-lost'], ImageID: 'i1', State: 'running', Labels: ORPHAN_LABELS };

async function engineAnswering(facts: Record<string, unknown>, containers: object[] = []): Promise<World> {
  await listening(
    http.createServer(({ url = '' }, response) =>
      response.end(JSON.stringify(url.includes('/containers/json') ? containers : { Components: [], ...facts })),
    ),
    join(folder, 'engine.sock'),
  );
  return {};
}

async function daemonAnswering(status: unknown): Promise<World> {
  mkdirSync(join(folder, 'run'));
  const text = typeof status === 'string' ? status : JSON.stringify(status);
  await listening(
    http.createServer((_request, response) => response.end(text)),
    join(folder, 'run/api.sock'),
  );
  return { settings: { runDirectory: 'run' } };
}

for (const [name, [check, problem, detail, make]] of Object.entries(CASES))
  test(`${name}: ${check} says ${problem ?? 'ok'}`, async () => {
    const world = await make();
    furnish(world);
    if (check === 'settings') writeFileSync(configFile(), 'diskDirectory: [\n');
    const said = noted(await diagnose(CHECKS, createDoctorContext(configFile(), world.wall, world.reach))).get(check);
    expect(said?.problem).toBe(problem);
    expect(said?.detail).toMatch(detail);
    if (problem) expect(said?.todo).toMatch(/\w{3}/);
  });

describe.skipIf(!isRoot)('what only root can make', () => {
  const mounted = async (options: string, type = 'tmpfs') => {
    const { stdout } = await sh('mount', '-t', type, '-o', options, 'none', join(folder, 'data'));
    over.defer(async () => void (await sh('umount', join(folder, 'data'))));
    return stdout;
  };

  test('a full disk', async () => {
    await mounted('size=1m');
    writeFileSync(join(folder, 'data/volume'), Buffer.alloc(1024 * 1024 - 4096));
    expect((await examined()).get('disk')).toMatchObject({
      problem: 'full',
      detail: expect.stringMatching(/0 MiB of 1 MiB free/),
    });
  });

  test('a file system without room for more files', async () => {
    await mounted('size=200m,nr_inodes=2');
    writeFileSync(join(folder, 'data/one'), '');
    expect((await examined()).get('disk')).toMatchObject({ problem: 'inodes' });
  });

  test('a file system that is read-only', async () => {
    await mounted('size=200m,ro');
    expect((await examined()).get('disk')).toMatchObject({
      problem: 'readonly',
      detail: expect.stringMatching(/EROFS/),
    });
  });

  test('a kernel without cgroups, and one without the memory controller', async () => {
    furnish({});
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

  test('low limits', async () => {
    furnish({});
    const found = await command('prlimit', '--nofile=1000:1000', 'setpriv', '--bounding-set=-sys_resource');
    expect(found.get('limits')).toMatchObject({ problem: 'low', detail: expect.stringContaining('open files 1000') });
  });

  test('somebody who is not the agent', async () => {
    await engineAnswering({ ApiVersion: '1.43' });
    const { settings } = await daemonAnswering({ warnings: [], controllerConnection: 'OK' });
    furnish({ settings });
    for (const socket of ['engine.sock', 'run/api.sock']) chmodSync(join(folder, socket), 0o600);
    chmodSync(folder, 0o755);
    const found = await command('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups');
    expect(found.get('engine')).toMatchObject({ problem: 'forbidden' });
    expect(found.get('daemon')).toMatchObject({ problem: 'forbidden' });
  });
});

test('an agent and a controller that get along', async () => {
  const controller = await new FakeController().listen();
  over.use(controller);
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

test('a check that hangs or breaks has failed, and says how', async () => {
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
