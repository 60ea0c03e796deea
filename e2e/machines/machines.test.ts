import { mkdtempSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { makeCertificate } from '../../hack/certificate.ts';
import { debianRoot } from '../../hack/debian.ts';
import { Machine } from '../../hack/machine.ts';
import { freePort } from '../../hack/ports.ts';
import { ANNOTATIONS } from '../../src/api/names.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createNetwork, type EdgeNetwork } from '../_network.ts';
import {
  type ControllerProcess,
  createStack,
  readyOf,
  type Stack,
  until,
  untilReady,
  webApplication,
} from '../_stack.ts';
import { passOn } from './_forward.ts';
import { installOn, type Place } from './_install.ts';
import { makeReleases, type Releases } from './_releases.ts';

/**
 * Machines as they are in the field: a Debian 12 with systemd as init, to which nothing of this checkout leads but the line that
 * `kubectl skerry provision` prints and a controller with a certificate of an own authority. They need root, mmdebstrap and
 * minutes, and so run with `make nightly` only.
 */
const SLOW = { timeoutMs: 240_000 };
const REGISTRY = 'registry.test';
const nightly = test.runIf(process.env.SKERRY_NIGHTLY);
const started = new AsyncDisposableStack();
const dir = temporaryFolder();
let stack: Stack;
let base: string;
let releases: Releases;
let registryPort: number;

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  base = await debianRoot((text) => process.stderr.write(`${text}\n`));
  stack = started.use(await createStack());
  releases = await makeReleases(dir, ['0.2.0', '0.1.0', '0.3.0']);
  registryPort = await forwardRegistry();
}, 900_000);
afterAll(() => started.disposeAsync(), 60_000);

/** The registry of the tests listens on loopback; machines reach it at a port of all addresses. */
async function forwardRegistry(): Promise<number> {
  const { hostname, port } = new URL(inject('registryUrl'));
  const server = passOn(() => connect(Number(port), hostname));
  await new Promise<void>((resolve) => server.listen(0, '::', resolve));
  started.defer(() => void server.close());
  return (server.address() as { port: number }).port;
}

/** A controller with TLS at an address that machines reach. */
async function startController(host: string): Promise<ControllerProcess & Place> {
  const folder = mkdtempSync(join(dir, 'tls-'));
  const tls = makeCertificate(folder, [host]);
  const port = await freePort();
  const address = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const authority = join(folder, 'ca.pem');
  const env = {
    TLS_PATH_CERT: tls.cert,
    TLS_PATH_KEY: tls.key,
    TLS_PATH_CA: authority,
    SERVER_HOST: '::',
    SERVER_PORT: String(port),
  };
  const place = {
    CONTROLLER_PUBLIC_URL: address,
    SKERRY_RELEASES_DIR: releases.folder,
    SKERRY_RELEASES_KEY: releases.key,
  };
  const controller = await stack.startController({ env: { ...env, ...place } });
  return { ...controller, kubeconfig: inject('kubeconfig'), namespace: stack.namespace, address, authority };
}

/** An image of the sample server as the machine pulls it. */
async function imageFor(machine: Machine, host: string, tag: string): Promise<string> {
  machine.write('etc/hosts', `127.0.0.1 localhost\n${host} ${REGISTRY}\n`);
  const place = `${REGISTRY}:${registryPort}`;
  machine.write('etc/docker/daemon.json', JSON.stringify({ 'insecure-registries': [place] }));
  machine.write('etc/containers/registries.conf.d/test.conf', `[[registry]]\nlocation = "${place}"\ninsecure = true\n`);
  return (await stack.image(tag)).replace(/^[^/]+/, place);
}

async function newMachine(): Promise<{ machine: Machine; network: EdgeNetwork }> {
  const network = await createNetwork();
  onTestFinished(() => network[Symbol.asyncDispose]());
  const machine = await Machine.create({ base, within: network.command });
  onTestFinished(() => machine[Symbol.asyncDispose]());
  return { machine, network };
}

/** Id and start of the only container of the agent. */
async function container(machine: Machine, engine: 'docker' | 'podman'): Promise<string> {
  const { out } = await machine.sh(
    `${engine} inspect --format '{{.Id}} {{.State.StartedAt}} {{.State.Running}}' $(${engine} ps -q --no-trunc --filter name=skerry-)`,
  );
  expect(out).toMatch(/^[0-9a-f]{64} \S+.* true$/);
  return out;
}
const agentVersion = async (name: string) => (await stack.node(name))?.status?.version;
const status = async (machine: Machine) => (await machine.say('skerry-agent', 'status')).out;

nightly(
  'on a Debian with systemd the agent is installed by one line, waits for an engine, survives a reboot without a network, is upgraded and taken away, and its containers run on',
  async () => {
    const { machine, network } = await newMachine();
    const [host] = network.outside;
    const controller = await startController(host);
    const image = await imageFor(machine, host, 'docker');
    await machine.boot();
    const line = await installOn(machine, 'gw-docker', controller);
    await machine.untilActive();
    expect((await machine.say('skerry-agent', 'version')).out).toBe('skerry-agent 0.2.0');
    expect((await machine.sh('journalctl --no-pager')).out).not.toContain(/\/([0-9a-f-]{36})/.exec(line)?.[1]);

    // The engine comes later.
    expect(await status(machine)).toMatch(/Engine: +not connected/);
    await stack.apply(webApplication('docker', 'gw-docker', image, 18080));
    await until(
      'the node to say what is missing',
      async () => {
        const ready = readyOf(await stack.node('gw-docker'));
        return ready?.status === 'False' && /engine/i.test(`${ready.reason} ${ready.message}`);
      },
      SLOW,
    );
    const installed = await machine.installEngine('docker');
    expect(installed, installed.out.slice(-2000)).toMatchObject({ code: 0 });
    await untilReady(stack, 'docker', SLOW.timeoutMs);

    // A reboot without a network: from disk alone.
    await machine.powerOff();
    await network.plug(false);
    await machine.boot();
    await machine.untilActive();
    await until('the container to be back', () => container(machine, 'docker').catch(() => undefined), SLOW);
    await network.plug(true);
    await until('the controller to hear the agent', async () => /Controller: +OK/.test(await status(machine)), SLOW);
    await untilReady(stack, 'docker', SLOW.timeoutMs);

    // Another version, by the package manager and by the agent itself.
    const before = await container(machine, 'docker');
    await machine.sh('echo "# mine" >> /etc/skerry-agent/config.yaml');
    for (const version of ['0.3.0', '0.1.0']) {
      machine.write(`root/${version}.deb`, readFileSync(releases.package(version)));
      const said = await machine.say('dpkg', '-i', `/root/${version}.deb`);
      expect(said, said.out).toMatchObject({ code: 0 });
      await until(`the node to run ${version}`, async () => (await agentVersion('gw-docker')) === version, SLOW);
      expect(await container(machine, 'docker')).toBe(before);
    }
    await stack.annotate('edgenodes', 'gw-docker', {
      [ANNOTATIONS.version]: JSON.stringify({ count: 1, command: 'upgrade', semver: '0.3.0' }),
    });
    await until('the agent to have updated itself', async () => (await agentVersion('gw-docker')) === '0.3.0', SLOW);
    expect(await container(machine, 'docker')).toBe(before);
    expect((await machine.sh('tail -n 1 /etc/skerry-agent/config.yaml')).out).toBe('# mine');

    // Taken away: what runs is the machine's.
    expect(await machine.say('dpkg', '--remove', 'skerry-agent')).toMatchObject({ code: 0 });
    expect(await machine.unit()).toMatchObject({ ActiveState: 'inactive' });
    expect(await container(machine, 'docker')).toBe(before);
    expect((await machine.sh('ls /etc/skerry-agent')).out).toBe('config.yaml\nrelease.pem');
    expect((await machine.sh('ls /opt')).out).not.toContain('skerry');
    expect(await machine.say('dpkg', '--purge', 'skerry-agent')).toMatchObject({ code: 0 });
    expect(await container(machine, 'docker')).toBe(before);
    // Every mount of a container that runs on is a volume.
    const isVolume = (path: string) => /^\.\/var\/lib\/skerry-agent($|\/volumes($|\/))/.test(path);
    expect((await machine.files()).filter((path) => path.includes('skerry') && !isVolume(path))).toEqual([]);
  },
  1200_000,
);

nightly(
  'on a machine with podman, without IPv4 and then with a read-only root, the agent works, and nothing of it is left after a purge',
  async () => {
    const { machine, network } = await newMachine();
    const [host, own] = await network.onlyIPv6();
    const image = await imageFor(machine, host, 'podman');
    const controller = await startController(host);
    const installed = await machine.installEngine('podman');
    expect(installed, installed.out.slice(-2000)).toMatchObject({ code: 0 });
    await machine.boot();
    await machine.say('systemctl', 'enable', '--now', 'podman.socket');
    const before = await machine.files();
    await installOn(machine, 'gw-podman', controller);
    expect((await machine.say('ip', '-4', '-o', 'address', 'show', 'scope', 'global')).out).toBe('');
    await stack.apply(webApplication('podman', 'gw-podman', image, 18081));
    await untilReady(stack, 'podman', SLOW.timeoutMs);
    expect((await stack.node('gw-podman'))?.status?.ipAddress).toBe(own);

    await machine.powerOff();
    await machine.boot({ readOnly: true });
    await machine.untilActive();
    expect((await machine.say('touch', '/etc/x')).out).toMatch(/Read-only file system/);
    await untilReady(stack, 'podman', SLOW.timeoutMs);
    await stack.apply(webApplication('podman', 'gw-podman', await imageFor(machine, host, 'second'), 18081));
    await untilReady(stack, 'podman', SLOW.timeoutMs);
    const refused = await machine.say('skerry-agent', 'config', 'logLevel=DEBUG');
    expect(refused.code).not.toBe(0);
    expect(refused.out).toMatch(/\/etc\/skerry-agent\/config\.yaml was not changed: .*read-only/);

    await machine.powerOff();
    await machine.boot();
    await machine.untilActive();
    await until('the agent to answer', async () => (await machine.say('skerry-agent', 'status')).code === 0, SLOW);
    const left = await machine.say('skerry-agent', 'deprovision', '--yes');
    expect(left, left.out).toMatchObject({ code: 0 });
    expect((await machine.say('podman', 'ps', '-aq')).out).toBe('');
    // As the page of the installation has it for docker.
    const pruned = await machine.sh(
      'podman network prune --force --filter label=skerry.dev/agent && podman network ls',
    );
    expect(pruned, pruned.out).toMatchObject({ code: 0 });
    expect(pruned.out.split('\n').filter((line) => / skerry/.test(line))).toEqual([]);
    expect(await machine.say('dpkg', '--purge', 'skerry-agent')).toMatchObject({ code: 0 });
    const ours = (await machine.files()).filter((path) => !before.includes(path));
    const isEngines = (path: string) => /^\.\/(root|etc\/(hosts|docker|containers))/.test(path);
    expect(ours.filter((path) => !isEngines(path) || path.includes('skerry'))).toEqual([]);
    expect(before.filter((path) => path.includes('skerry'))).toEqual([]);
  },
  1200_000,
);
