import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { AGENT_VERSION } from '../agent/src/domain/names.ts';
import { FileServer, makeBundles, makeReleaseFiles } from '../agent/src/update/_program.ts';
import { createPlugin } from '../cli/src/_plugin.ts';
import { installProgram, makeReleaseKey, writeRelease } from '../hack/agent-release.ts';
import { freePort } from '../hack/ports.ts';
import { connect } from '../src/connection.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { testConfig } from '../testing/test-config.ts';
import { createStack, type Stack, until, untilReady, webApplication } from './_stack.ts';

/** The actions of a node, over REST and by annotation, on an agent that is installed as it is shipped. */

const key = makeReleaseKey();
const bundles = temporaryFolder();
const stack = await createStack();
const built = await makeBundles(bundles);

test('a node reboots, prunes, upgrades, falls back and rolls back, each once, and its container runs on', async () => {
  const server = await new FileServer(temporaryFolder()).listen();
  const publish = (version: string, text = built.agent) => {
    const { agent, node } = makeReleaseFiles(text, version);
    const nodes = { amd64: node, arm64: node };
    writeRelease({ agent, node: nodes, version, minimumVersion: '0.1.0', key: key.privateKey, out: server.folder });
  };
  const to = join(temporaryFolder(), 'program');
  installProgram({
    ...makeReleaseFiles(built.agent, AGENT_VERSION),
    launcher: built.launcher,
    version: AGENT_VERSION,
    to,
  });
  const releaseKeyFile = join(to, 'release.pem');
  writeFileSync(releaseKeyFile, key.publicKey);
  const controller = await stack.startController({ env: { SKERRY_RELEASES_URL: server.url } });
  const rest = stack.rest(controller);
  const agent = await stack.startAgent('gw-1', controller, {
    program: [join(to, 'node'), join(to, 'launcher.mjs')],
    settings: { releaseKeyFile },
  });
  await stack.apply(webApplication('plant-a', 'gw-1', await stack.image('1'), await freePort()));
  await untilReady(stack, 'plant-a');
  const ours = async () => {
    const [container] = (await stack.containers()).filter(({ labels }) => Object.values(labels).includes('plant-a'));
    const { State } = await stack.inspect(container?.id ?? '');
    return { id: container?.id, startedAt: State.StartedAt };
  };
  const before = await ours();
  const uuid = (await stack.node('gw-1'))?.status?.uuid;
  const statusWhen = (what: string, is: (status: NonNullable<Node['status']>) => boolean) =>
    until(what, async () => {
      const status = (await stack.node('gw-1'))?.status;
      return status && is(status) ? status : undefined;
    });
  type Node = NonNullable<Awaited<ReturnType<Stack['node']>>>;

  expect((await rest('POST', `/node/${uuid}/reboot`)).status).toBe(204);
  await statusWhen('the reboot', ({ actions }) => actions?.reboot === 1);
  await stack.annotate('edgenodes', 'gw-1', { 'skerry.dev/prune': '5' });
  await statusWhen('the pruning', ({ actions }) => actions?.prune === 5);
  const restarts = () => readFileSync(agent.logFile, 'utf8').match(/"Starting again;/g)?.length;
  expect(restarts()).toBe(1);

  publish('0.2.0');
  await statusWhen('readiness', ({ isReadyToUpgrade }) => isReadyToUpgrade === true);
  expect(await rest('POST', `/node/${uuid}/version/rollback`)).toMatchObject({
    status: 400,
    body: { code: 'INVALID_VERSION_COMMAND_ROLLBACK' },
  });
  expect((await rest('POST', `/node/${uuid}/version/upgrade`, { semver: '0.2.0' })).status).toBe(204);
  await statusWhen('0.2.0', ({ version, actions }) => version === '0.2.0' && actions?.version === 1);

  publish('0.3.0', 'process.exit(1)');
  await statusWhen('readiness', ({ isReadyToUpgrade, isReadyToRollback }) => !!isReadyToUpgrade && !!isReadyToRollback);
  expect((await rest('POST', `/node/${uuid}/version/upgrade`)).status).toBe(204);
  // The agent that has fallen back says STARTING first.
  const failed = await statusWhen(
    'the fall back',
    ({ actions, daemonStatus }) => actions?.version === 2 && daemonStatus === 'WARNING',
  );
  expect(failed.version).toBe('0.2.0');
  expect(failed.warningMessage).toMatch(/update: 0.3.0 failed, 0.2.0 runs|the latest release failed/);
  await statusWhen('the reason', ({ conditions }) => conditions?.some(({ type }) => type === 'UpdateFailed') === true);

  await statusWhen('readiness', ({ isReadyToRollback }) => isReadyToRollback === true);
  expect((await rest('POST', `/node/${uuid}/version/rollback`)).status).toBe(204);
  await statusWhen('the rollback', ({ version, actions }) => version === AGENT_VERSION && actions?.version === 3);

  // The newest release failed here.
  await using client = connect(testConfig(inject('kubeconfig'), stack.namespace));
  const skerry = createPlugin(client, stack.namespace);
  const listed = async () => (await skerry('nodes', '--outdated')).out;
  await until('the release to be known', async () => (await listed()).includes('0.3.0'), { timeoutMs: 120_000 });
  expect(await listed()).toMatch(/^gw-1 +True +0\.1\.0 +0\.3\.0 +kubectl skerry upgrade-agent$/m);
  const refused = await skerry('upgrade-agent', 'gw-1', '--timeout', '2m');
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringContaining('it failed here before and is not tried again'),
  });
  publish('0.4.0');
  const upgraded = await skerry('upgrade-agent', 'gw-1', '--version', '0.4.0', '--timeout', '2m');
  expect(upgraded, upgraded.out).toMatchObject({ code: 0, err: '' });
  expect(upgraded.out).toMatch(/gw-1: 0\.1\.0 -> 0\.4\.0 requested\n.*gw-1: runs 0\.4\.0 and is Ready .*1 of 1 done/s);
  await until('an event of the change', async () => {
    const { items } = await stack.kube.request<{ items: { reason: string; note: string }[] }>(
      'GET',
      `/apis/events.k8s.io/v1/namespaces/${stack.namespace}/events`,
    );
    return items.some(({ note }) => note === 'the agent was 0.1.0 and is 0.4.0');
  });

  expect(await ours()).toEqual(before);
  await untilReady(stack, 'plant-a');
  // by the reboot, three upgrades and the rollback
  expect(restarts()).toBe(5);
  await expect(rest('GET', `/node/${uuid}`)).resolves.toMatchObject({ body: { version: '0.4.0' } });
}, 240_000);
