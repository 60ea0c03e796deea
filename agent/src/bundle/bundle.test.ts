import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { testDependencies } from '../_agent.ts';
import { createAgent } from '../app.ts';
import { runInProcess } from '../cli/_run.ts';
import { parseConfig } from '../domain/config.ts';
import { until } from '../engines/_contract.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { FakeController } from '../link/_fake-controller.ts';
import { controlPlaneManifest } from '../local/_control-plane.ts';
import { readControlPlaneManifest } from '../local/control-plane-manifest.ts';
import { NO_PROCESS } from '../local-api/_no-process.ts';
import { ControlChannels } from '../local-api/routes/workload/control-channels.ts';
import { localApi } from '../local-api/routes.ts';
import { listenOnSocket } from '../local-api/server/server.ts';
import { AdminToken } from '../local-api/server/token.ts';
import { systemClock } from '../machine/clock.ts';
import { bufferedSink, createLog } from '../machine/log.ts';
import { localMachine } from '../machine/machine.ts';
import { filesOnDisk } from '../machine/mounted-files.ts';
import { ownLogReader } from '../machine/own-log.ts';
import { identityFile } from '../state/identity.ts';
import { openRows } from '../state/rows.ts';
import { openSqliteDatabase } from '../state/sqlite-database.ts';
import { masker } from './secrets.ts';

/** A support bundle, unpacked by tar, of an agent with a secret wherever an agent can have one. */
const CANARY = 'canary-7f3a';
/** of a volume mount, as it travels */
const MOUNTED = Buffer.from(`${CANARY}-mounted`).toString('base64');
/** of a file of the system, as it travels */
const SYSTEM = Buffer.from(`${CANARY}-system`).toString('base64');
/** of a control plane, another one in each member */
const HUB = {
  auth: {
    mode: 'external',
    issuerUrl: 'https://issuer.example',
    bootstrap: { username: 'ann', password: `${CANARY}-Bootstrap!` },
    client: { id: 'skerry', secret: `${CANARY}-client` },
    sessionStore: { secret: `${CANARY}-session`.padEnd(32, '.') },
  },
  tls: { base64: { cert: 'a certificate', key: `${CANARY}-tls` } },
} as const;
let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

const cli = (...args: string[]) => runInProcess([...args, '--config', join(folder, 'config.yaml')]);

/** Everything in an archive: name -> text. */
function unpacked(archive: string): Map<string, string> {
  const target = join(folder, 'unpacked');
  mkdirSync(target);
  execFileSync('tar', ['-xzf', archive, '-C', target]);
  const names = readdirSync(target, { recursive: true, encoding: 'utf8' });
  return new Map(
    names.flatMap((name) => {
      const path = join(target, name);
      return statSync(path).isFile() ? [[name.replace('skerry-support/', ''), readFileSync(path, 'utf8')]] : [];
    }),
  );
}

test('a support bundle describes the agent and contains none of its secrets', async () => {
  writeFileSync(
    join(folder, 'config.yaml'),
    `diskDirectory: data\nlogDirectory: logs\nlocalApiPort: 0\ncontrollerUrl: http://user:${CANARY}-url@127.0.0.1:1\napiToken: ${CANARY}-unknown-setting\n`,
  );
  const config = parseConfig(readFileSync(join(folder, 'config.yaml'), 'utf8'), join(folder, 'config.yaml'));
  mkdirSync(join(folder, 'logs'), { recursive: true });
  writeFileSync(
    join(folder, 'logs/agent.log'),
    `{"message":"Login with ${CANARY}-registry failed"}\n{"message":"It said ${CANARY}-mounted, or ${MOUNTED}"}\n`,
  );
  mkdirSync(config.diskDirectory);
  openRows(join(config.diskDirectory, 'local/registries'), z.any()).save('4', { password: `${CANARY}-of-the-machine` });
  const env = [{ key: 'API_KEY', value: `${CANARY}-deployed` }];
  const ownRows = openRows(join(config.diskDirectory, 'local/microservices'), z.any());
  ownRows.save('a', { view: { env } });
  ownRows.save('b', { view: readControlPlaneManifest(controlPlaneManifest(HUB)).view('b') });
  await using controller = await new FakeController().listen();
  controller.registries = [
    { id: 5, url: 'https://registry.example.com', username: 'robot', password: `${CANARY}-registry`, type: 'oci' },
  ];
  controller.volumeMounts = [{ uuid: 'bbbbbbbb', name: 'creds', version: 1, type: 'secret', data: { key: MOUNTED } }];
  controller.systemFiles = [{ name: 'certificates', files: { 'tls.key': `${CANARY}-system` } }];
  controller.microservices = [
    {
      uuid: 'aaaaaaaa-0000-4000-8000-000000000001',
      name: 'reader',
      application: 'plant',
      revision: 'r1',
      imageId: 'image:1',
      registryId: 1,
      env: [
        { key: 'PLAIN', value: `${CANARY}-plain` },
        { key: 'FROM_SECRET', value: `${CANARY}-secret "quoted"`, secret: true },
        { key: 'DB_PASSWORD', value: `${CANARY}-password` },
      ],
      cmd: ['--token', `${CANARY}-argument`],
      config: JSON.stringify({ broker: { password: `${CANARY}-config` } }),
    } as never,
  ];
  const clock = systemClock();
  const sink = bufferedSink('DEBUG', 100, () => {});
  const log = createLog(sink);
  const engine = new MemoryEngine({ anyImage: true });
  using database = openSqliteDatabase(join(config.diskDirectory, 'agent.db'), 0).database;
  const deps = testDependencies({
    clock,
    log,
    engine: () => engine,
    database,
    identity: identityFile(join(config.diskDirectory, 'identity.json'), Date.now, () => {}),
    machine: localMachine(config.diskDirectory),
    mountedFiles: filesOnDisk(join(config.diskDirectory, 'volumes')),
    ownLog: ownLogReader(sink, undefined),
  });
  const agent = createAgent(config, deps);
  const stop = new AbortController();
  const run = agent.run(stop.signal);
  using channels = new ControlChannels(agent);
  const adminToken = new AdminToken(config.tokenFile, agent);
  const api = localApi({
    ...{ agent, adminToken, channels },
    ...NO_PROCESS,
  });
  adminToken.write();
  const server: Server = await listenOnSocket(config.socket, config.runDirectory, { clock, log, api });
  try {
    await agent.provision(controller.joinString);
    await until('the microservice to run', () => agent.microservices()?.[0]?.status === 'RUNNING');
    await until('the files of the system', () => agent.systemFiles()[0]?.state === 'Ready');
    // An error of an engine can quote the request.
    log.warn(
      {
        error: `env FROM_SECRET=${CANARY}-secret "quoted" is refused; Authorization: Bearer ${CANARY}.bearer`,
        local: `${CANARY}-of-the-machine ${CANARY}-deployed`,
        hub: [HUB.auth.bootstrap.password, HUB.auth.client.secret, HUB.auth.sessionStore.secret, HUB.tls.base64.key],
        join: `skerry://host:51121/${CANARY}-key?tls=1`,
      },
      'Step failed',
    );
    const file = join(folder, 'support.tar.gz');
    const made = await cli('support-bundle', file);
    expect(made, made.err).toMatchObject({ code: 0 });
    expect(made.out).toContain('Secrets are masked');
    expect(statSync(file).mode & 0o777).toBe(0o600);

    const files = unpacked(file);
    for (const [name, text] of files)
      for (const secret of [CANARY, MOUNTED, SYSTEM]) expect(text, name).not.toContain(secret);
    const identity = readFileSync(join(config.diskDirectory, 'identity.json'), 'utf8');
    for (const secret of [...identity.matchAll(/"d": "([^"]+)"/g)].map(([, d = '']) => d))
      for (const [name, text] of files) expect(text, name).not.toContain(secret);
    const token = readFileSync(config.tokenFile, 'utf8').trim();
    for (const [name, text] of files) expect(text, name).not.toContain(token);

    // The files are still useful.
    expect(JSON.parse(files.get('status.json') ?? '')).toMatchObject({
      controllerConnection: 'OK',
      runningMicroservices: 1,
    });
    expect(JSON.parse(files.get('desired.json') ?? '')[0]).toMatchObject({
      name: 'reader',
      imageId: 'image:1',
      env: ['PLAIN', 'FROM_SECRET', 'DB_PASSWORD'],
    });
    expect(JSON.parse(files.get('doctor.json') ?? '').map(({ check }: { check: string }) => check)).toContain('engine');
    expect(files.get('metrics.txt')).toContain('edge_agent_provisioned 1\n');
    expect(files.get('agent.log')).toContain('Step failed');
    expect(files.get('logs/agent.log')).toContain('Login with *** failed');
    expect(files.get('settings.yaml')).toContain('localApiPort: 0');
  } finally {
    stop.abort();
    server.close();
    server.closeAllConnections();
    await run;
  }
});

test('a support bundle without a running agent has what is on the disk', async () => {
  writeFileSync(join(folder, 'config.yaml'), 'diskDirectory: data\nlocalApiPort: 0\n');
  const file = join(folder, 'support.tar.gz');
  expect(await cli('support-bundle', file, '-o', 'json')).toMatchObject({ code: 0 });
  const files = unpacked(file);
  expect(files.get('status.json')).toMatch(/not available: no agent answers/);
  expect(JSON.parse(files.get('about.json') ?? '')).toHaveProperty('agent');
});

test('support-bundle fails with a next step when its file cannot be written', async () => {
  writeFileSync(join(folder, 'config.yaml'), 'diskDirectory: data\nlocalApiPort: 0\n');
  const { code, err } = await cli('support-bundle', '/nowhere/at/all.tar.gz');
  expect(code).toBe(2);
  expect(err).toMatch(/all\.tar\.gz cannot be written: .*ENOENT[\s\S]*Name another file/);
});

const shapes: Record<string, [string, string]> = {
  'masks a bearer token': ['Authorization: Bearer abcdefgh', 'Authorization: Bearer ***'],
  'masks a JWT': ['x eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl y', 'x *** y'],
  'masks the key of a join string': ['skerry://host:51121/6f1c-key?tls=1', 'skerry://host:51121/***?tls=1'],
  'masks user and password in a URL': ['http://user:word@host/path', 'http://***@host/path'],
  'masks a private key': ['a -----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY----- b', 'a *** b'],
  'leaves text without a secret': ['http://host/path?x=1 Bearer of it', 'http://host/path?x=1 Bearer of it'],
};
for (const [name, [text, want]] of Object.entries(shapes))
  test(`the masker ${name}, by its shape`, () => expect(masker(new Set())(text)).toBe(want));

test('the masker leaves no end of a secret that begins with another secret', () => {
  const mask = masker(new Set(['hunter', 'hunter-of-the-machine']));
  expect(mask('hunter hunter-of-the-machine')).toBe('*** ***');
  expect(mask('Bearer hunter-of-the-machine-too, hunter-of-the-machine')).toBe('Bearer ***, ***');
});

test("a support bundle has what the agent's own engine was started with, also while that does not answer", async () => {
  const state = join(folder, 'engine');
  mkdirSync(state);
  writeFileSync(join(state, 'started.json'), JSON.stringify({ version: '1.6.20', handlers: ['runc'] }));
  const settings = { containerEngineUrl: `unix://${state}/containerd.sock`, diskDirectory: 'data', localApiPort: 0 };
  writeFileSync(join(folder, 'config.yaml'), JSON.stringify(settings));
  expect((await cli('support-bundle', join(folder, 'bundle.tar.gz'))).code).toBe(0);
  const files = unpacked(join(folder, 'bundle.tar.gz'));
  expect(JSON.parse(files.get('own-engine.json') ?? '')).toEqual({ version: '1.6.20', handlers: ['runc'] });
  expect(files.get('engine.json')).toMatch(/^not available: /);
});
