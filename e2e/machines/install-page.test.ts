import { execFile } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { findTools } from '../../hack/binaries.ts';
import { type Cluster, startCluster } from '../../hack/cluster/cluster.ts';
import { createOutside } from '../../hack/cluster/outside.ts';
import { debianRoot } from '../../hack/debian.ts';
import { findHelm } from '../../hack/helm.ts';
import { pushImage } from '../../hack/image.ts';
import { Machine } from '../../hack/machine.ts';
import { ROOT } from '../../hack/paths.ts';
import { startClock } from '../../hack/progress.ts';
import { sampleImage } from '../../hack/sample.ts';
import { until } from '../_stack.ts';

/**
 * docs/install.md as a reader types it who has nothing else: a release, the chart on a cluster of two nodes, the plugin, a fresh
 * Debian behind NAT, an application, and the machine taken out of service. Only what the page leaves to the reader is done here:
 * names mean addresses, and a mirror of docker.io has an image. The tests build on each other, and come with `make nightly`.
 */
const PAGE = readFileSync(join(ROOT, 'docs/install.md'), 'utf8');
/** A release that is there already, instead of the minutes that it takes to make one; its key is beside it. */
const DIST = process.env.SKERRY_DIST;
const HOST = 'skerry.example';
const LONG = 1_200_000;
const PATIENT = { timeoutMs: 240_000 };
const run = promisify(execFile);
const nightly = test.runIf(process.env.SKERRY_NIGHTLY);
const started = new AsyncDisposableStack();
const log = startClock((text) => process.stderr.write(text));
let dir: string;
let cluster: Cluster;
let machine: Machine;

/** The indented block of a section that begins so. */
function block(section: string, start: string): string {
  const text = PAGE.split(/^## /m).find((one) => one.startsWith(`${section}\n`)) ?? '';
  const blocks = [...text.matchAll(/(?:^ {4}.*\n)+/gm)].map(([each]) => each.replace(/^ {4}/gm, ''));
  const found = blocks.find((each) => each.startsWith(start));
  if (!found) throw new Error(`docs/install.md: "${section}" has no block that begins with "${start}"`);
  return found;
}

const folder = (name: string) => join(dir, name);

/** What a block says that an administrator types; files of this machine that it changes are of their own. */
async function type(commands: string, cwd = folder('dist')): Promise<string> {
  const own = [
    ['hosts', '/etc/hosts'],
    ['opt', '/opt'],
    ['local', '/usr/local/bin'],
  ].map(([name = '', path]) => `mount --bind '${folder(name)}' ${path}`);
  const env = {
    ...process.env,
    HOME: folder('home'),
    KUBECONFIG: cluster?.kubeconfig,
    // The Node of this checkout is not the reader's.
    PATH: [folder('bin'), '/usr/local/bin', '/usr/local/sbin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'].join(
      delimiter,
    ),
  };
  const script = [...own, 'exec sh -euc "$1"'].join(' && ');
  const { stdout } = await run('unshare', ['--mount', 'sh', '-c', script, 'sh', commands], {
    ...{ env, cwd, timeout: LONG, maxBuffer: 64 * 1024 ** 2 },
  });
  return stdout;
}

async function typeOnMachine(commands: string): Promise<string> {
  const said = await machine.sh(`set -eu\ncd /root\n${commands}`);
  expect(said, said.out.slice(-4000)).toMatchObject({ code: 0 });
  return said.out;
}

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  dir = mkdtempSync(join(tmpdir(), 'skerry-install-'));
  started.defer(async () => void (await run('rm', ['-rf', '--one-file-system', dir])));
  for (const name of ['home', 'opt', 'local', 'bin', 'srv']) mkdirSync(folder(name));
  const [{ kubectl }, helm] = [await findTools(['kubectl']), await findHelm()];
  for (const [name, path] of Object.entries({ kubectl, helm }))
    copyFileSync(path.includes('/') ? path : (await run('which', [path])).stdout.trim(), join(folder('bin'), name));
  cluster = started.use(await startCluster({ dir: folder('cluster'), nodes: 2, log }));
  writeFileSync(folder('hosts'), `127.0.0.1 localhost\n${cluster.nodes[0]?.address} ${HOST}\n`);
}, 900_000);
afterAll(() => started.disposeAsync(), 180_000);

/** docker.io on the machine, with a server on port 80 under the name that the page uses. */
async function makeMirror(): Promise<string> {
  await pushImage(
    inject('registryUrl'),
    'library/nginx',
    '1.27',
    await sampleImage({ entrypoint: ['/sample', '--address', ':80'] }),
  );
  const { hostname, port } = new URL(inject('registryUrl'));
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    client.pipe(upstream).pipe(client);
    client.on('error', () => upstream.destroy());
    upstream.on('error', () => client.destroy());
  });
  const host = cluster.network.address(1);
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  started.defer(() => void server.close());
  return `${host}:${(server.address() as { port: number }).port}`;
}

nightly(
  'the page makes a release whose digests are right',
  async () => {
    const commands = block('A release', 'openssl ');
    const key = `cp '${join(DIST ?? '', '../release.key')}' $HOME/`;
    if (DIST) await type(commands.replace(/^openssl genpkey .*$/m, key).replace(/^make .*$/m, ''), join(DIST, '..'));
    else await type(commands, ROOT);
    cpSync(DIST ?? join(ROOT, 'dist'), folder('dist'), { recursive: true });
  },
  LONG,
);

nightly(
  'the page installs the chart on a cluster, with TLS of an own authority and releases for machines',
  async () => {
    for (const node of cluster.nodes) {
      await node.run('mount', '--bind', folder('srv'), '/srv');
      await node.run('sh', '-euc', `cd '${folder('dist')}'\n${block('A cluster', 'ctr ')}`);
    }
    await cluster.nodes[0]?.run('sh', '-euc', `cd '${folder('dist')}'\n${block('A cluster', 'mkdir ')}`);
    await type(block('A cluster', 'openssl '));
    const said = await type(block('A cluster', 'helm install ')).catch(explain);
    expect(said).toContain('successfully rolled out');
    expect(said).toMatch(/^edgenodes\.skerry\.dev: created$/m);
    expect(said).toContain('"status"');
  },
  LONG,
);

async function explain(error: Error): Promise<never> {
  const pods = await cluster.kubectl('--namespace', 'skerry', 'get', 'pods', '--output', 'wide');
  const events = await cluster.kubectl('--namespace', 'skerry', 'get', 'events');
  throw new Error(`${error.message}\n${pods}\n${events}`);
}

nightly(
  'the page installs the plugin, and makes a node of a fresh Debian that has no way in',
  async () => {
    await type(block('The plugin of kubectl', 'mkdir '));
    const outside = started.use(createOutside(cluster.network));
    machine = started.use(await Machine.create({ base: await debianRoot(log), within: outside.command }));
    const mirror = await makeMirror();
    machine.write('etc/hosts', readFileSync(folder('hosts')));
    const settings = { 'registry-mirrors': [`http://${mirror}`], 'insecure-registries': [mirror] };
    machine.write('etc/docker/daemon.json', JSON.stringify(settings));
    await machine.boot();
    const printed = await type(block('Machines', 'kubectl skerry provision '));
    const line = /Without an agent on it, as root:\n\n {2}(.*)\n/.exec(printed)?.[1] ?? '';
    const [shown = '', status = ''] = block('Machines', 'export CURL_CA_BUNDLE').split('\n');
    expect(line.replace(/skerry:[^"]+/, 'skerry://...')).toBe(shown);
    machine.write('root/ca.crt', readFileSync(join(folder('dist'), 'ca.crt')));
    expect(await typeOnMachine(line)).toContain('Provisioned as node gw-1 of https://skerry.example:30121');
    expect(await typeOnMachine(status)).toMatch(/Controller: +OK/);
    const installed = await machine.installEngine('docker');
    expect(installed, installed.out.slice(-2000)).toMatchObject({ code: 0 });
  },
  LONG,
);

nightly(
  'the page runs its first application on the machine',
  async () => {
    const nodes = await type(block('The first application', 'kubectl -n skerry wait '));
    expect(nodes).toMatch(/^gw-1 +True +RUNNING +0\/0 +/m);
    await type(block('The first application', 'kubectl -n skerry apply '));
    await until(
      'the application to answer',
      () => typeOnMachine(block('The first application', 'curl ')).catch(() => ''),
      PATIENT,
    );
  },
  LONG,
);

nightly(
  'the page takes the machine out of service, and makes it another node with the package alone',
  async () => {
    await typeOnMachine(block('Machines', 'skerry-agent deprovision '));
    expect((await machine.sh('docker ps --all --quiet; docker network ls; ls /opt /etc /var/lib')).out).not.toMatch(
      /^[0-9a-f]{12}$|skerry/m,
    );
    const release = join(folder('dist'), 'releases/0.1.0');
    const [install = ''] = block('Machines', 'apt-get install ').split('\n');
    const name = /\.\/(\S+)/.exec(install)?.[1] ?? '';
    machine.write(`root/${name}`, readFileSync(join(release, name)));
    await typeOnMachine(block('Machines', 'apt-get install '));
    const printed = await type(block('Machines', 'kubectl skerry provision ').replace('gw-1', 'gw-2'));
    const line = /within 20 minutes:\n\n {2}(.*)\n/.exec(printed)?.[1] ?? '';
    expect(line.replace(/skerry:[^"]+/, 'skerry://...')).toBe(block('Machines', 'SKERRY_JOIN=').trim());
    expect(await typeOnMachine(line)).toContain('Provisioned as node gw-2');
    await type('kubectl -n skerry wait --for=condition=Ready edgenode/gw-2 --timeout=180s');
  },
  LONG,
);
