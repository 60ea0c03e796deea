import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { installProgram, makeReleaseKey, writeRelease } from '../../../hack/agent-release.ts';
import { freePort } from '../../../hack/ports.ts';
import type {} from '../../../hack/testing/provided.ts';
import type { VersionReply } from '../../../src/wire/agent.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { pushVersions, webView } from '../_web.ts';
import { AGENT_VERSION } from '../domain/names.ts';
import { cleanUp, until } from '../engines/_contract.ts';
import { firstEngine } from '../engines/_outside.ts';
import { openEngine } from '../engines/open.ts';
import { FakeController } from '../link/_fake-controller.ts';
import { FileServer, makeBundles, makeReleaseFiles } from './_program.ts';

/** An installed agent as it is shipped: launcher and bundle as processes, with a container on a real engine. */

const engineUrl = firstEngine().url;
const image = `${new URL(inject('registryUrl')).host}/update/sample:1`;
const key = makeReleaseKey();
const bundles = temporaryFolder();
let agentText: string;
let launcher: string;
beforeAll(async () => {
  await pushVersions(inject('registryUrl'), 'update/sample', '1');
  ({ agent: agentText, launcher } = await makeBundles(bundles));
});

interface Machine {
  program: string;
  controller: FakeController;
  process: ChildProcess;
  log: () => string;
  container(): Promise<{ id: string; startedAt: number }>;
  /** Requests a version, and waits until the action was carried out. */
  request(wish: Partial<VersionReply>): Promise<void>;
}

async function startMachine(releasesUrl: string): Promise<Machine> {
  const folder = temporaryFolder();
  const program = join(folder, 'program');
  installProgram({ ...makeReleaseFiles(agentText, AGENT_VERSION), launcher, version: AGENT_VERSION, to: program });
  const config = join(folder, 'config.yaml');
  writeFileSync(join(folder, 'release.pem'), key.publicKey);
  const settings = {
    ...{ containerEngineUrl: engineUrl, diskDirectory: join(folder, 'data'), runDirectory: join(folder, 'run') },
    ...{ localApiPort: 0, releaseKeyFile: 'release.pem' },
  };
  writeFileSync(config, JSON.stringify(settings));
  const controller = await new FakeController().listen();
  const child = spawn(join(program, 'node'), [join(program, 'launcher.mjs'), 'start', '--config', config], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    log += piece;
  });
  const engine = async () => {
    const { instance } = JSON.parse(readFileSync(join(folder, 'data/identity.json'), 'utf8'));
    const engine = openEngine({ url: engineUrl, instance });
    await engine.connect();
    return engine;
  };
  onTestFinished(async () => {
    const gone = new Promise((resolve) => child.once('exit', resolve));
    if (child.exitCode === null && child.kill('SIGKILL')) await gone;
    await cleanUp(await engine());
    await controller.close();
  });
  const cli = promisify(execFile);
  await until('the agent to be provisioned', async () => {
    const args = [join(program, 'current/agent'), 'provision', controller.joinString, '--config', config];
    return cli(join(program, 'node'), args).then(
      () => true,
      () => false,
    );
  });
  let count = 0;
  return {
    ...{ program, controller, process: child, log: () => log },
    async container() {
      const [container] = await (await engine()).containers();
      return { id: container?.id ?? '', startedAt: container?.startedAt ?? 0 };
    },
    async request(wish) {
      const expected = ++count;
      controller.change({
        version: { versionCommand: 'upgrade', provisionKey: '', expirationTime: 0, releasesUrl, ...wish },
        flags: { version: `aa0${expected}` },
        actions: { version: expected },
      });
      await until(
        `the version action ${expected} to be carried out`,
        () => controller.said.actions?.version === expected,
        60_000,
      ).catch((error: unknown) => {
        throw new Error(`${error}\n${log.slice(-4000)}`);
      });
    },
  };
}

test('an agent updates itself, a bad release falls back, a rollback goes back, and its container runs on', async () => {
  const server = await new FileServer(temporaryFolder()).listen();
  const publish = (version: string, text = agentText) => {
    const { agent, node } = makeReleaseFiles(text, version);
    const nodes = { amd64: node, arm64: node };
    writeRelease({ agent, node: nodes, version, minimumVersion: '0.1.0', key: key.privateKey, out: server.folder });
  };
  const machine = await startMachine(server.url);
  const { controller } = machine;
  const uuid = randomUUID();
  const view = webView({ uuid, imageId: image, revision: 'r1', external: await freePort() });
  controller.change({ registries: [{ id: 1, url: inject('registryUrl'), insecure: true }], microservices: [view] });
  await until('RUNNING', () => controller.microservice(uuid)?.status === 'RUNNING', 60_000);
  const before = await machine.container();
  expect(controller.said).toMatchObject({ version: AGENT_VERSION, isReadyToUpgrade: true, isReadyToRollback: false });

  publish('0.2.0');
  await machine.request({});
  expect(controller.said).toMatchObject({ version: '0.2.0', warningMessage: '' });
  await until('the launcher to give way', () => {
    const command = readFileSync(`/proc/${machine.process.pid}/cmdline`, 'utf8');
    return command.includes('releases/0.2.0/agent');
  });
  await until(
    'readiness',
    () => controller.said.isReadyToRollback === true && controller.said.isReadyToUpgrade === true,
  );

  publish('0.3.0', 'process.exit(1)');
  await machine.request({ semver: '0.3.0' });
  // Its first report may come before it has looked at its engine.
  await until('the warning', () => controller.said.daemonStatus === 'WARNING');
  expect(controller.said.version).toBe('0.2.0');
  expect(controller.said.warningMessage).toMatch(/update: 0.3.0 failed, 0.2.0 runs: it ended 3 times/);
  await machine.request({ semver: '0.3.0' });
  expect(controller.said.warningMessage).toMatch(
    /0.3.0 failed, 0.2.0 runs: it failed here before and is not tried again/,
  );

  await machine.request({ versionCommand: 'rollback' });
  expect(controller.said).toMatchObject({ version: AGENT_VERSION, warningMessage: '' });
  expect(controller.microservice(uuid)).toMatchObject({ status: 'RUNNING', revision: 'r1' });
  expect(await machine.container()).toEqual(before);
}, 180_000);
