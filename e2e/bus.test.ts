import { readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, credsAuthenticator } from 'nats';
import type { Logger } from 'pino';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { busServerImage } from '../hack/bus-image.ts';
import { findEngine, removeEngineData } from '../hack/engine.ts';
import { callEngine } from '../hack/engine-api.ts';
import { pushImage } from '../hack/image.ts';
import { freePort } from '../hack/ports.ts';
import { createApp } from '../src/app.ts';
import { silentLog } from '../src/lib/log.ts';
import { testConfig } from '../testing/test-config.ts';
import { busClientImage, type Heard, heardAt } from './_bus.ts';
import { type AgentProcess, type ControllerProcess, createStack, get, type Stack, until } from './_stack.ts';

/**
 * The message bus on two machines, with an engine of another kind on each: the bus servers are real, and clients in containers
 * have nothing but what the controller gives microservices with access.
 */
let stack: Stack;
const started = new AsyncDisposableStack();
const agents: AgentProcess[] = [];
const engines: { kind: string; url: string }[] = [];
const ports: { server: number; mqtt: number; leaf: number }[] = [];
let client: string;
const at: Record<string, number> = {};

/** The address of this machine that containers of every engine reach. */
const MACHINE =
  Object.values(networkInterfaces())
    .flat()
    .find((one) => one?.family === 'IPv4' && !one.internal)?.address ?? '127.0.0.1';

beforeAll(async () => {
  stack = started.use(await createStack());
  const registryUrl = inject('registryUrl');
  const registry = new URL(registryUrl).host;
  const first = { kind: 'docker', url: inject('engineUrl') };
  const dir = await mkdtemp(join(tmpdir(), 'skerry-bus-'));
  started.defer(() => removeEngineData(dir));
  const second = started.use(await findEngine({ dir, kind: 'podman', registry }));
  engines.push(first, second);
  const repository = `${stack.namespace}/bus`;
  await pushImage(registryUrl, repository, 'server', await busServerImage());
  await pushImage(registryUrl, repository, 'client', await busClientImage());
  client = `${registry}/${repository}:client`;
  const server = `${registry}/${repository}:server`;
  const config = testConfig(stack.controllerKubeconfig, stack.namespace, {
    BUS_ENABLED: 'true',
    BUS_IMAGE_1: server,
    BUS_IMAGE_2: server,
  });
  const app = started.use(await createApp(config, { log: silentLog as unknown as Logger }));
  await app.start();
  const controller = { url: `http://127.0.0.1:${app.addresses.rest}` } as ControllerProcess;
  const { url } = controller;
  await until('the controller to be ready', async () => (await fetch(`${url}/api/v3/status`)).ok);
  for (const [i, { kind, url }] of engines.entries()) {
    const [server, mqtt, leaf] = [await freePort(), await freePort(), await freePort()];
    ports.push({ server, mqtt, leaf });
    const settings = { containerEngine: kind, containerEngineUrl: url };
    agents.push(await stack.startAgent(`gw-${i + 1}`, controller, { settings }));
  }
  const settings = (i: number) => {
    const { server, mqtt, leaf } = ports[i] ?? { server: 0, mqtt: 0, leaf: 0 };
    return {
      busServerPort: server,
      busMqttPort: mqtt,
      busLeafPort: leaf,
      jsStorageSize: '64m',
      jsMemoryStoreSize: '64m',
    };
  };
  await set('gw-1', { busMode: 'server', host: MACHINE, ...settings(0) });
  await set('gw-2', { busMode: 'leaf', upstreamBusServers: ['gw-1'], ...settings(1) });
}, 300_000);
afterAll(() => started.disposeAsync(), 60_000);

const set = (name: string, spec: Record<string, unknown>) =>
  stack.kube.request(
    'PATCH',
    `/apis/skerry.dev/v3/namespaces/${stack.namespace}/edgenodes/${name}`,
    { spec },
    'application/merge-patch+json',
  );

async function apply(name: string, microservices: Readonly<Record<string, { node: string; rule?: string }>>) {
  const entries = [];
  for (const [entry, { node, rule }] of Object.entries(microservices)) {
    at[entry] ??= await freePort();
    entries.push({
      name: entry,
      agent: { name: node },
      images: { amd64: client, arm64: client },
      busConfig: { busAccess: true, ...(rule && { busRule: rule }) },
      container: { ports: [{ internal: 8080, external: at[entry] }], env: [{ key: 'NAME', value: entry }] },
    });
  }
  await stack.apply({
    apiVersion: 'skerry.dev/v3',
    kind: 'Application',
    metadata: { name },
    spec: { busConfig: { busAccess: true }, microservices: entries },
  });
}

const heard = (name: string) => heardAt(at[name] ?? 0);
const hears = (name: string, from: string, more = 0) =>
  until(
    `${name} to receive more than ${more} messages of ${from}`,
    async () => {
      const found = await heard(name);
      return found && (found.heard[from] ?? 0) > more && found;
    },
    { timeoutMs: 120_000 },
  );
const credsOf = (name: string) => until(`the credentials of ${name}`, () => get(`http://127.0.0.1:${at[name]}/creds`));

/** Whether the server of a node lets in a client with these credentials. */
async function isLetIn(node: number, creds: string): Promise<boolean> {
  const authenticator = credsAuthenticator(new TextEncoder().encode(creds));
  const servers = `nats://127.0.0.1:${ports[node]?.server}`;
  try {
    await (await connect({ servers, authenticator, reconnect: false, timeout: 2_000 })).close();
    return true;
  } catch (error) {
    if (/authorization/i.test(String(error))) return false;
    throw error;
  }
}

test('containers of one application talk over a leaf and a server on two machines, and another application receives nothing', async () => {
  for (const name of ['gw-1', 'gw-2'])
    await until(
      `the bus server of ${name}`,
      async () => {
        const { conditions = [] } = (await stack.node(name))?.status ?? {};
        return conditions.find(({ type, status }) => type === 'BusReady' && status === 'True');
      },
      { timeoutMs: 120_000 },
    );
  await apply('plant', { north: { node: 'gw-1' }, south: { node: 'gw-2' } });
  await apply('shop', { stranger: { node: 'gw-2' } });
  await hears('north', 'south');
  const south = await hears('south', 'north');
  expect(south.server).toBe(`nats://bus.default.svc.bridge.local:${ports[1]?.server}`);
  const stranger = (await hears('stranger', 'stranger')) as Heard;
  expect(Object.keys(stranger.heard)).toEqual(['stranger']);
}, 300_000);

test('a message arrives once', async () => {
  const [before, sent] = [await heard('north'), await heard('south')];
  await hears('south', 'south', (sent?.heard.south ?? 0) + 20);
  const [after, now] = [await heard('north'), await heard('south')];
  const received = (after?.heard.south ?? 0) - (before?.heard.south ?? 0);
  const published = (now?.heard.south ?? 0) - (sent?.heard.south ?? 0);
  expect(received).toBeLessThan(published * 1.5);
  expect(received).toBeGreaterThan(published * 0.5);
});

test('another rule ends the connection and the former credentials, and the container runs on with its new file', async () => {
  const former = await credsOf('south');
  const before = await heard('south');
  expect(await isLetIn(1, former)).toBe(true);
  await apply('plant', { north: { node: 'gw-1' }, south: { node: 'gw-2', rule: 'default-leaf-user' } });
  await until('the former credentials to be refused on both machines', async () => {
    const [here, there] = [await isLetIn(0, former), await isLetIn(1, former)];
    return !here && !there;
  });
  await apply('plant', { north: { node: 'gw-1' }, south: { node: 'gw-2' } });
  const connected = await until('another connection', async () => {
    const now = await heard('south');
    return now && now.error === '' && now.connects > (before?.connects ?? 0) && now;
  });
  await hears('north', 'south', (await heard('north'))?.heard.south ?? 0);
  expect(connected.started).toBe(before?.started);
  expect(await credsOf('south')).not.toBe(former);
}, 180_000);

test('a server whose agent was away refuses within 5 s of its return who was revoked meanwhile', async () => {
  const former = await credsOf('north');
  await agents[1]?.kill();
  await apply('plant', { north: { node: 'gw-1', rule: 'default-leaf-user' }, south: { node: 'gw-2' } });
  await until('the other server to refuse', async () => !(await isLetIn(0, former)));
  expect(await isLetIn(1, former)).toBe(true);
  await agents[1]?.start();
  const began = performance.now();
  await until('the server that was away to refuse', async () => !(await isLetIn(1, former)), { intervalMs: 100 });
  expect(performance.now() - began).toBeLessThan(5_000);
}, 180_000);

test('the bus opens the ports of the table in the page of the platform, and no other port of the machine', async () => {
  const page = readFileSync(join(import.meta.dirname, '../docs/resources/platform.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `(bus\w+Port)`, \d+ \| [^|]* \| ([^|]*) \|/gm)];
  for (const [i, mode] of (['server', 'leaf'] as const).entries()) {
    const spec = (await stack.node(`gw-${i + 1}`))?.spec as unknown as Record<string, number>;
    const allowed = rows.filter(([, , modes]) => modes?.includes(mode)).map(([, field = '']) => spec[field]);
    const { url } = engines[i] ?? { url: '' };
    const list = await callEngine<{ Id: string; Labels: Record<string, string> }[]>(url, 'GET', '/containers/json');
    const own = list.filter(({ Labels }) => Labels['skerry.dev/microservice'] === 'bus');
    expect(own).toHaveLength(1);
    const { State, HostConfig } = await callEngine<{
      State: { Pid: number };
      HostConfig: { NetworkMode: string; PortBindings: Record<string, { HostPort: string }[]> };
    }>(url, 'GET', `/containers/${own[0]?.Id}/json`);
    const published = Object.values(HostConfig.PortBindings).flatMap((some) => some.map((one) => Number(one.HostPort)));
    expect(published.sort()).toEqual([...allowed].sort());
    expect(HostConfig.NetworkMode).not.toBe('host');
    const open = listeners(State.Pid).filter(({ isLoopback }) => !isLoopback);
    expect(open.map(({ port }) => port).sort()).toEqual([...allowed].sort());
  }
});

/** Ports on which something listens in the network of a process. */
function listeners(pid: number): { port: number; isLoopback: boolean }[] {
  const found = ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state]) => state === '0A')
      .map(([, local = '']) => {
        const [address = '', port = ''] = local.split(':');
        return { port: Number.parseInt(port, 16), isLoopback: address.length === 8 && address.endsWith('7F') };
      }),
  );
  return [...new Map(found.map((one) => [`${one.port}${one.isLoopback}`, one])).values()];
}
