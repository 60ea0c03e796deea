import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AGENT_VERSION } from '../../agent/src/domain/names.ts';
import { FileServer, makeBundles } from '../../agent/src/update/_program.ts';
import { installProgram, makeReleaseKey, writeRelease } from '../../hack/agent-release.ts';
import { installPackages } from '../../hack/apt.ts';
import { armv7Node, LOADER } from '../../hack/package/armv7.ts';
import { freePort } from '../../hack/ports.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createStack, get, type Stack, until, untilReady, webApplication } from '../_stack.ts';

/**
 * The agent for armv7 as it is shipped, on whatever machine this is: only its loader is started by qemu, and Node, all libraries and
 * all that the agent starts again are those of the release. It needs `make nightly`, which may install qemu.
 */
const QEMU = '/usr/bin/qemu-arm-static';
const NEXT = '0.2.0';
const nightly = test.runIf(process.env.SKERRY_NIGHTLY);
const key = makeReleaseKey();
const dir = temporaryFolder();
let stack: Stack;
let built: Awaited<ReturnType<typeof makeBundles>>;
let armv7: Awaited<ReturnType<typeof armv7Node>>;

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  await installPackages({
    packages: ['qemu-user-static'],
    missing: () => (existsSync(QEMU) ? '' : QEMU),
    why: 'Programs for armv7 cannot be run',
    elsewhere: 'https://www.qemu.org/download/',
  });
  built = await makeBundles(dir);
  armv7 = await armv7Node(join(dir, 'node'));
  const starter = readFileSync(armv7.node, 'utf8');
  const command = `exec "$lib/${LOADER}"`;
  expect(starter).toContain(command);
  writeFileSync(armv7.node, starter.replace(command, command.replace('exec', `exec ${QEMU}`)));
  chmodSync(armv7.node, 0o755);
  stack = await createStack();
}, 600_000);
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
});

/** The bundle of the agent under a version. */
function agentOf(version: string): string {
  const path = join(temporaryFolder(), 'agent');
  writeFileSync(path, built.agent.replaceAll(`"${AGENT_VERSION}"`, `"${version}"`));
  return path;
}

nightly(
  'an agent for armv7 joins, runs an application, starts again and updates itself with the libraries of its Node',
  async () => {
    const server = await new FileServer(temporaryFolder()).listen();
    const node = { arm: armv7.node };
    const release = { agent: agentOf(NEXT), node, libraries: { arm: armv7.libraries }, version: NEXT };
    writeRelease({ ...release, minimumVersion: '0.1.0', key: key.privateKey, out: server.folder });
    const to = join(temporaryFolder(), 'program');
    const { launcher } = built;
    installProgram({
      ...{ agent: agentOf(AGENT_VERSION), launcher, version: AGENT_VERSION, to },
      ...{ node: armv7.node, libraries: armv7.libraries },
    });
    const releaseKeyFile = join(to, 'release.pem');
    writeFileSync(releaseKeyFile, key.publicKey);
    const controller = await stack.startController({ env: { SKERRY_RELEASES_URL: server.url } });
    const agent = await stack.startAgent('pi', controller, {
      program: [join(to, 'node'), join(to, 'launcher.mjs')],
      settings: { releaseKeyFile },
    });
    const own = (...args: string[]) => {
      const command = [join(to, 'current/agent'), ...args, '--config', join(agent.dir, 'config.yaml')];
      return spawnSync(join(to, 'current/node'), command, { encoding: 'utf8', timeout: 300_000 });
    };
    expect(own('version').stdout).toBe(`skerry-agent ${AGENT_VERSION}\n`);
    // What it checks on a machine depends on the machine; that it comes to an end does not.
    expect(own('doctor').stdout).toMatch(/^ok +controller/m);
    const port = await freePort();
    // The engine and the program in the image are native to this machine.
    const application = webApplication('plant-a', 'pi', '', port);
    for (const microservice of application.spec.microservices)
      Object.assign(microservice, { images: { arm: await stack.image('1') } });
    await stack.apply(application);
    await untilReady(stack, 'plant-a', 300_000);
    expect(await get(`http://127.0.0.1:${port}/`)).toBeDefined();
    const statusWhen = (what: string, is: (status: NonNullable<Node['status']>) => boolean) =>
      until(
        what,
        async () => {
          const status = (await stack.node('pi'))?.status;
          return status && is(status) ? status : undefined;
        },
        { timeoutMs: 300_000 },
      );
    type Node = NonNullable<Awaited<ReturnType<Stack['node']>>>;

    const rest = stack.rest(controller);
    const uuid = (await stack.node('pi'))?.status?.uuid;
    expect((await rest('POST', `/node/${uuid}/reboot`)).status).toBe(204);
    await statusWhen('the reboot', ({ actions }) => actions?.reboot === 1);
    expect(readFileSync(agent.logFile, 'utf8').match(/"Starting again;/g)).toHaveLength(1);

    await statusWhen('readiness', ({ isReadyToUpgrade }) => isReadyToUpgrade === true);
    expect((await rest('POST', `/node/${uuid}/version/upgrade`)).status).toBe(204);
    await statusWhen(NEXT, ({ version, actions }) => version === NEXT && actions?.version === 1);
    // Nothing of Node has changed, and so none of it was fetched.
    expect(server.requests.filter((path) => path.startsWith('/blobs/'))).toHaveLength(1);
    expect(existsSync(join(to, 'releases', NEXT, 'lib', LOADER))).toBe(true);
  },
  1_200_000,
);
