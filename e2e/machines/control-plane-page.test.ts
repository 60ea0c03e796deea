import { execFile } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { connect } from 'node:net';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { runOfControlPlane, typeHubPage } from '../../agent/src/_control-plane-page.ts';
import { controlPlaneImage } from '../../hack/control-plane-image.ts';
import { debianRoot } from '../../hack/debian.ts';
import { hostArchitecture, saveImage } from '../../hack/image.ts';
import { Machine } from '../../hack/machine.ts';
import { sampleImage } from '../../hack/sample.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createNetwork, type EdgeNetwork } from '../_network.ts';
import { until } from '../_stack.ts';
import { passOn } from './_forward.ts';
import { makeReleases } from './_releases.ts';
import { typedOn, typeOn } from './_typing.ts';

/**
 * Two Debian machines with systemd as init and the agent's own engine, without docker, podman and a way out: docs/control-plane-on-a-node.md as
 * typed. In the middle the machine with the control plane reboots with its cable out. It needs root, mmdebstrap and minutes, and so runs with
 * `make nightly` only.
 */
const VERSION = '0.1.0';
const PORT = 51121;
const HUB = 'hub.example';
const WEB = 'example.com/shop/web:1';
/** One microservice of the machine, and one of the controller; neither is pulled. */
const OWN = `apiVersion: agent.skerry.dev/v1
kind: Microservice
metadata: { name: web }
spec: { image: "${WEB}", container: { ports: [{ internal: 8080, external: 8081 }] } }
`;
const MANAGED = `apiVersion: skerry.dev/v3
kind: Application
metadata: { name: shop }
spec:
  microservices:
    - name: web
      agent: { name: hub }
      images: { ${hostArchitecture()}: "${WEB}", registry: local }
      container: { ports: [{ internal: 8080, external: 8082 }] }
`;
/** What a reboot takes of a network that outlives the machine here. */
const FORGET = 'iptables -t nat -F; iptables -t nat -X; iptables -F; iptables -X; ip link delete skerry0; true';
const SOON = { timeoutMs: 300_000 };
const dir = temporaryFolder();
const run = promisify(execFile);
let base: string;
let debian: string;
let controlPlane: Buffer;
let web: Buffer;

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  base = await debianRoot((text) => process.stderr.write(`${text}\n`));
  debian = (await makeReleases(dir, [VERSION])).package(VERSION);
  controlPlane = saveImage(await controlPlaneImage(join(dir, 'bundles')), `skerry/control-plane:${VERSION}-amd64`);
  web = saveImage(await sampleImage(), WEB);
}, 900_000);

/** A machine with the parts of the agent's own engine; it knows the hub by an address that `addressOf` chooses. */
async function newMachine(addressOf: (network: EdgeNetwork) => string) {
  const network = await createNetwork();
  onTestFinished(() => network[Symbol.asyncDispose]());
  const machine = await Machine.create({ base, within: network.command, controllers: true });
  onTestFinished(() => machine[Symbol.asyncDispose]());
  expect(await machine.installEngine('embedded')).toMatchObject({ code: 0 });
  copyFileSync(debian, join(machine.root, 'root', basename(debian)));
  machine.write('etc/hosts', `127.0.0.1 localhost\n${addressOf(network)} ${HUB}\n`);
  await machine.boot();
  await typedOn(machine)(`apt-get install ./${basename(debian)}`);
  await machine.untilActive();
  await until('an engine', async () => /Engine: +embedded /.test(await typedOn(machine)('skerry-agent status')), SOON);
  return { machine, network };
}

/** Lets another machine reach the hub, as a network between the two does. */
async function connectTo(hub: EdgeNetwork, other: EdgeNetwork): Promise<void> {
  const server = passOn(() => connect(PORT, hub.inside));
  await new Promise<void>((resolve) => server.listen(PORT, other.outside[0], resolve));
  onTestFinished(() => void server.close());
}

describe.runIf(process.env.SKERRY_NIGHTLY)('on two Debians with the engine embedded and without a way out', () => {
  test('docs/control-plane-on-a-node.md holds as typed, and a reboot with the cable out brings back the control plane, the agent and its microservices', {
    timeout: 1_800_000,
  }, async () => {
    const { machine: hub, network } = await newMachine(({ inside }) => inside);
    const { machine: other, network: otherNetwork } = await newMachine(({ outside: [address] }) => address);
    await connectTo(network, otherNetwork);
    for (const outside of ['192.0.2.1', '2001:db8::1'])
      expect((await hub.say('ip', 'route', 'get', outside)).code, outside).not.toBe(0);
    const typed = typedOn(hub);
    hub.write(`root/skerry-control-plane-${VERSION}.oci.tar`, controlPlane);
    hub.write('root/web.tar', web);
    hub.write('root/web.yaml', OWN);
    hub.write('root/shop.yaml', MANAGED);

    const answers = (port: number) =>
      until(
        `an answer at ${port}`,
        async () => (await hub.sh(`curl -sf -m 2 http://127.0.0.1:${port}`)).code === 0,
        SOON,
      );
    const isNode = (name: string) =>
      until(
        `the node ${name} to be there`,
        async () => {
          const { out } = await hub.sh('skerry-agent ms exec controller -- skerry get nodes');
          return new RegExp(`^${name} +True +RUNNING`, 'm').test(out);
        },
        SOON,
      );
    const beforeRemoval = async () => {
      await typed('skerry-agent image load -f web.tar');
      await typed('skerry-agent deploy -f web.yaml');
      await typed('skerry-agent ms exec -i controller -- skerry apply -f - < shop.yaml');
      for (const port of [8081, 8082]) await answers(port);

      await hub.powerOff();
      await network.plug(false);
      await run(network.command[0] as string, [...network.command.slice(1), 'sh', '-c', FORGET]);
      await hub.boot();
      await hub.untilActive();
      await until('the control plane', async () => (await runOfControlPlane(typeOn(hub))) !== '', SOON);
      for (const port of [8081, 8082]) await answers(port);
      await isNode('hub');

      await network.plug(true);
      await isNode('gw-2');
    };
    await typeHubPage({
      hub: typeOn(hub),
      other: async (command) => {
        copyFileSync(join(hub.root, 'root/join.json'), join(other.root, 'root/join.json'));
        return typeOn(other)(command);
      },
      beforeRemoval,
    });
    expect(await typedOn(hub)('skerry-agent ms ls')).toMatch(/web +RUNNING/);
  });
});
