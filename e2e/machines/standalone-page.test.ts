import { randomUUID } from 'node:crypto';
import { copyFileSync } from 'node:fs';
import { connect } from 'node:net';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { pageArchives, pageImage, typePage } from '../../agent/src/_standalone-page.ts';
import { webView } from '../../agent/src/_web.ts';
import { FakeController } from '../../agent/src/link/_fake-controller.ts';
import { manifestOf } from '../../agent/src/local/_manifest.ts';
import { bundle } from '../../hack/build.ts';
import { debianRoot } from '../../hack/debian.ts';
import type { EngineKind } from '../../hack/engine.ts';
import { pushImage } from '../../hack/image.ts';
import { unpackLastRelease } from '../../hack/last-release.ts';
import { Machine } from '../../hack/machine.ts';
import { startDaemon } from '../../hack/process.ts';
import { startRegistry } from '../../hack/registry.ts';
import { BUILT_IN_REGISTRIES } from '../../src/api/names.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createNetwork } from '../_network.ts';
import { until } from '../_stack.ts';
import { passOn } from './_forward.ts';
import { makePackage, makeReleases } from './_releases.ts';
import { typedOn, typeOn } from './_typing.ts';

/**
 * A Debian with systemd as init whose cable is out, without a controller: docs/standalone.md as typed, from the package on, and upgrades.
 * What the page loads lies on the disk. The registry and the controller of the page are in reach at its loopback interface. It needs root, mmdebstrap and
 * minutes, and so runs with `make nightly` only.
 */
const VERSION = '0.1.0';
const started = new AsyncDisposableStack();
const dir = temporaryFolder();
const controller = new FakeController();
/** port of the loopback interface of every machine -> path of the socket behind it */
const reached = new Map<number, string>();
let base: string;
let debian: string;
let registry: string;
let archives: Record<string, Buffer>;

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  base = await debianRoot((text) => process.stderr.write(`${text}\n`));
  debian = (await makeReleases(dir, [VERSION])).package(VERSION);
  archives = await pageArchives();
  const open = started.use(await startRegistry({ dir: join(dir, 'open') }));
  await pushImage(open.url, 'shop/tool', '1', await pageImage('tool'));
  const closed = await startRegistry({ dir: join(dir, 'registry'), images: open.images, auth: 'basic' });
  registry = started.use(closed).host;
  await controller.listen();
  started.defer(() => controller.close());
  for (const url of [`http://${registry}`, controller.url]) {
    const port = Number(new URL(url).port);
    const path = join(dir, `${port}.sock`);
    const server = passOn(() => connect(port, '127.0.0.1'));
    await new Promise<void>((resolve) => server.listen(path, resolve));
    started.defer(() => void server.close());
    reached.set(port, path);
  }
}, 900_000);
afterAll(() => started.disposeAsync(), 60_000);

/** A machine without a way out, with an engine and what the page loads. */
async function newMachine(kind: EngineKind | 'embedded'): Promise<Machine> {
  const network = await createNetwork();
  onTestFinished(() => network[Symbol.asyncDispose]());
  await network.plug(false);
  const [command = '', ...args] = [...network.command, process.execPath, join(import.meta.dirname, '_forward.ts')];
  const pairs = [...reached].map(([port, path]) => `${port}=${path}`);
  const forward = await startDaemon({ name: 'forward', dir: temporaryFolder(), command, args: [...args, ...pairs] });
  onTestFinished(() => forward.stop());
  const machine = await Machine.create({ base, within: network.command, controllers: kind === 'embedded' });
  onTestFinished(() => machine[Symbol.asyncDispose]());
  expect(await machine.installEngine(kind)).toMatchObject({ code: 0 });
  copyFileSync(debian, join(machine.root, 'root', basename(debian)));
  for (const [name, archive] of Object.entries(archives)) machine.write(join('root', name), archive);
  machine.write(
    'etc/containers/registries.conf.d/test.conf',
    `[[registry]]\nlocation = "${registry}"\ninsecure = true\n`,
  );
  await machine.boot();
  if (kind === 'podman') await machine.say('systemctl', 'enable', '--now', 'podman.socket');
  for (const outside of ['192.0.2.1', '2001:db8::1'])
    expect((await machine.say('ip', 'route', 'get', outside)).code, outside).not.toBe(0);
  return machine;
}

const webManifest = () => {
  const manifest = JSON.parse(manifestOf('web', 'example.com/shop/web:1'));
  return JSON.stringify({ ...manifest, spec: { ...manifest.spec, registry: BUILT_IN_REGISTRIES.local.id } });
};

const onDebian = describe.runIf(process.env.SKERRY_NIGHTLY);

onDebian.each(['docker', 'podman', 'embedded'] as const)('on a Debian with the engine %s', (kind) => {
  test('docs/standalone.md holds as typed from the package to its purge, which leaves nothing', {
    timeout: 900_000,
  }, async () => {
    const machine = await newMachine(kind);
    const before = await machine.files();
    // A machine inside of a container may have no controller of memory, of whatever version; then nobody counts it.
    const { out: controllers } = await machine.sh('ls /sys/fs/cgroup; cat /sys/fs/cgroup/cgroup.controllers');
    const uncounted = /\bmemory\b(?!\.)/.test(controllers)
      ? []
      : ([
          [' 1.5 MiB ', ' '],
          [' 1.6 MiB ', ' '],
        ] as const);
    await typePage({
      type: typeOn(machine),
      here: [
        ...uncounted,
        [`skerry-agent-${VERSION}-linux-amd64.deb`, basename(debian)],
        ['registry.example:5000', registry],
        ['skerry://controller.example:51121/6f1c2a', controller.joinString],
        ['gw-1 of https://controller.example:51121', `fake of ${controller.url}`],
      ],
    });
    const ours = (await machine.files()).filter((path) => !before.includes(path));
    const isEngines = (path: string) => /^\.\/(root|etc\/(cni|docker|containers)|var\/lib\/containerd\/)/.test(path);
    expect(ours.filter((path) => !isEngines(path) || path.includes('skerry-agent/'))).toEqual([]);
  });
});

onDebian.each(['docker', 'podman'] as const)('on a Debian with %s', (kind) => {
  test('systemd stops the containers with the agent where shutdownPolicy says so, and else lets them run', {
    timeout: 600_000,
  }, async () => {
    const machine = await newMachine(kind);
    const typed = typedOn(machine);
    const running = async () => typed(`${kind} ps --no-trunc --format '{{.ID}}'`);
    await typed(`apt-get install ./${basename(debian)}`);
    await machine.untilActive();
    await until('an engine', async () => (await typed('skerry-agent status')).includes(`${kind} `));
    await typed('skerry-agent image load -f web-1.tar');
    machine.write('root/web.yaml', webManifest());
    await typed('skerry-agent deploy -f web.yaml');
    const container = await running();
    expect(container).toMatch(/^[0-9a-f]{64}$/);

    await typed('systemctl stop skerry-agent');
    expect(await running()).toBe(container);
    await typed('systemctl start skerry-agent');
    await machine.untilActive();
    await typed('skerry-agent config shutdownPolicy=drain-all shutdownGracePeriodSeconds=60');
    await typed('systemctl stop skerry-agent');
    expect(await running()).toBe('');
    expect((await machine.unit()).ActiveState).toBe('inactive');
    await typed('systemctl start skerry-agent');
    await machine.untilActive();
    await until('the container to run again', async () => (await running()) === container);
    expect(await typed('skerry-agent ms inspect web')).not.toContain('restartCount');

    // The end of its process is no stop.
    await typed('systemctl kill --kill-whom=main --signal=SIGKILL skerry-agent');
    await until('another process of the agent', async () => (await machine.unit()).NRestarts === '1');
    await machine.untilActive();
    expect(await running()).toBe(container);
  });

  test('an upgrade of the last release to this version, and from this one to the next, restarts no container and loses none', {
    timeout: 600_000,
  }, async () => {
    const machine = await newMachine(kind);
    const typed = typedOn(machine);
    const last = unpackLastRelease(join(dir, 'last-release'));
    const packages = {
      'last.deb': [last.agent, '0.0.9'],
      'next.deb': [(await bundle('skerry-agent', dir)).path, '0.9.0'],
    };
    for (const [name, [program = '', version = '']] of Object.entries(packages))
      await makePackage(dir, { program, version }, join(machine.root, 'root', name));
    await typed('apt-get install ./last.deb');
    await machine.untilActive();
    await until('an engine', async () => (await typed('skerry-agent status')).includes(`${kind} `));

    // The last release has containers of a controller alone, and leaves them to the machine.
    await typed(`${kind} load -i web-1.tar && ${kind} load -i web-2.tar`);
    const left = {
      uuid: randomUUID(),
      name: 'left',
      imageId: 'example.com/shop/web:1',
      revision: 'r1',
      external: 18081,
    };
    await typed(`skerry-agent provision '${controller.joinString}'`);
    controller.change({ microservices: [webView(left, { registryId: BUILT_IN_REGISTRIES.local.id })] });
    const runs = async () =>
      (
        await typed(
          `${kind} ps -aq --no-trunc | xargs -r ${kind} inspect --format '{{.Id}} {{.State.Running}} {{.State.StartedAt}}'`,
        )
      )
        .split('\n')
        .sort();
    await until('the container', async () => / true /.test((await runs()).join()));
    const [first] = await runs();
    await typed('skerry-agent deprovision --scope local --yes');
    const of = async () => expect(await typed('curl -s http://localhost:18081')).toContain('1');
    await of();

    await typed(`apt-get install ./${basename(debian)}`);
    await machine.untilActive();
    await until('the kept microservice', async () => (await typed('skerry-agent ms ls')).includes('left'));
    expect(await runs()).toEqual([first]);
    machine.write('root/web.yaml', webManifest());
    await typed('skerry-agent deploy -f web.yaml');
    const both = await runs();
    expect(both).toEqual(expect.arrayContaining([first]));
    expect(both).toHaveLength(2);

    await typed('apt-get install ./next.deb');
    await machine.untilActive();
    await until('both microservices', async () => {
      const listed = await typed('skerry-agent ms ls');
      return listed.includes(' left ') && listed.includes(' web ');
    });
    // The agent has compared what runs with its rows.
    await until('a look', async () => /Running: +2 /.test(await typed('skerry-agent status')));
    expect(await runs()).toEqual(both);
    await typed('skerry-agent ms rm left');
    await typed('skerry-agent ms rm web');
    expect((await runs()).join('')).toBe('');
  });
});
