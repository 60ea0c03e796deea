import { execFile } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { inject } from 'vitest';
import { findEngine, removeEngineData } from '../hack/engine.ts';
import { callEngine, loadImage } from '../hack/engine-api.ts';
import { buildImage, buildIndex, type Image, pushImage, saveImage } from '../hack/image.ts';
import { freePort } from '../hack/ports.ts';
import { startDaemon } from '../hack/process.ts';
import { routerImage } from '../hack/router-image.ts';
import { programFiles } from '../hack/shell-image.ts';
import { type LocalRouter, startLocalRouter } from '../hack/stack/router-hub.ts';
import { API_VERSION } from '../src/api/names.ts';
import type { Service } from '../src/api/v3/index.ts';
import { serviceRoles } from '../src/manifests/roles.ts';
import { startControllerHere } from './_controller-here.ts';
import { createNetwork, type EdgeNetwork } from './_network.ts';
import { Relay } from './_relay.ts';
import { type AgentProcess, type ControllerProcess, createStack, get, type Rest, type Stack, until } from './_stack.ts';

const run = promisify(execFile);
/**
 * Ports of services of one test, beside others on this machine: `freePort` gives none of them, and no outgoing connection has one (Linux gives
 * those 32768 and above), which would keep the listener of a service closed.
 */
const BRIDGE_PORTS = { first: 30_000, last: 32_700, ofOneTest: 200 } as const;
const CONTROL_PORT = 8080;
export const ECHO_PORT = 9000;

/** A node with an engine of its own. */
export interface RouterMachine {
  node: string;
  engine: { kind: string; url: string };
  agent: AgentProcess;
}

/** A container that answers at a port, or that says lines to others. */
interface Peer {
  node: string;
  /** whether it is in the network of the machine, where it answers at this port */
  hostPort?: number;
}

/** What a client in a container received. */
interface Said {
  answer?: string;
  error?: string;
  /** whether the connection was opened for this line */
  isNew?: boolean;
}

/**
 * Two machines with routers: `quay-1` with docker on this machine, and `quay-2` with podman in a network that no connection from outside enters. The
 * default router is a process of this machine. Peers are containers that answer with their name, or that say lines to others.
 */
export interface RouterMachines extends AsyncDisposable {
  stack: Stack;
  controller: ControllerProcess;
  rest: Rest;
  hub: LocalRouter;
  machines: readonly [RouterMachine, RouterMachine];
  /** Runs a server in the network of the second machine itself, until it is disposed of. */
  serveOnSecond(name: string, port: number): Promise<AsyncDisposable>;
  /** Sets fields of a node. */
  set(node: string, spec: Record<string, unknown>): Promise<void>;
  /** Waits until a node says that its router has all that it needs. */
  untilRouterReady(node: string): Promise<void>;
  /** The router's container; undefined while there is none. */
  routerOf(machine: RouterMachine): Promise<RouterContainer | undefined>;
  /** Applies an application of peers. */
  apply(name: string, peers: Readonly<Record<string, Peer>>): Promise<void>;
  /** Has a peer of the first machine say a line by a connection of this id, which is opened unless it is open. */
  say(peer: string, id: string, target: string, line: string): Promise<Said>;
  /** Creates or changes a Service. */
  service(name: string, spec: Partial<Service['spec']>): Promise<void>;
  statusOf(name: string): Promise<Service['status']>;
  /** Waits until a Service has a port for its listeners. */
  bridgePortOf(name: string): Promise<number>;
}

interface RouterContainer {
  Id: string;
  State: { Pid: number; StartedAt: string };
  HostConfig: { NetworkMode: string; PortBindings: Record<string, { HostPort: string }[]> | null };
}

export async function startRouterMachines(): Promise<RouterMachines> {
  await using started = new AsyncDisposableStack();
  const stack = started.use(await createStack());
  const network = started.use(await createNetwork());
  const registryUrl = inject('registryUrl');
  const registry = new URL(registryUrl).host;
  const dir = await mkdtemp(join(tmpdir(), 'skerry-services-'));
  started.defer(() => {
    removeEngineData(dir);
    return rm(dir, { recursive: true, force: true });
  });
  // Without the mounts of `ip netns exec`, which hide cgroups from an engine.
  const within = ['nsenter', `--net=/run/netns/${network.command.at(-1)}`];
  const engines = [
    { kind: 'docker', url: inject('engineUrl') },
    started.use(await findEngine({ dir, kind: 'podman', alwaysPrivate: true, within })),
  ] as const;
  const images: Record<string, string> = {};
  for (const [tag, image] of Object.entries({ router: await routerImage(), peer: await peerImage() })) {
    const { reference } = await pushImage(registryUrl, `${stack.namespace}/services`, tag, image);
    images[tag] = reference.replace(/^[^/]*/, registry);
    // The registry is out of reach from the network of the second machine.
    await loadImage(engines[1].url, saveImage(image, images[tag]));
  }
  for (const role of serviceRoles(stack.namespace)) await stack.kube.apply(role as never);
  const first = randomInt(BRIDGE_PORTS.first, BRIDGE_PORTS.last - BRIDGE_PORTS.ofOneTest);
  const { controller, port } = started.use(
    await startControllerHere(stack, {
      ...{ ROUTERS_ENABLED: 'true', BRIDGE_PORTS_RANGE: `${first}-${first + BRIDGE_PORTS.ofOneTest}` },
      ...{ ROUTER_IMAGE_1: images.router ?? '', ROUTER_IMAGE_2: images.router ?? '' },
    }),
  );
  const hub = await startLocalRouter({ dir, kube: stack.kube, namespace: stack.namespace, log: () => {} });
  started.defer(() => hub.stop());
  const relay = { host: '127.0.0.1', ports: [port] };
  const link = started.use(await Relay.start(relay, network.outside[0]));
  await leaveAlone(network, hub.host);
  const machines: RouterMachine[] = [];
  for (const [i, engine] of engines.entries()) {
    const node = `quay-${i + 1}`;
    const settings = { containerEngine: engine.kind, containerEngineUrl: engine.url };
    const place = i === 0 ? {} : { within, url: `http://${network.outside[0]}:${link.port}` };
    machines.push({ node, engine, agent: await stack.startAgent(node, controller, { settings, ...place }) });
  }
  const ports = {
    messagingPort: await freePort(),
    edgeRouterPort: await freePort(),
    interRouterPort: await freePort(),
  };
  const at: Record<string, number> = {};
  const owned = started.move();
  const pathOf = (plural: string, name: string) =>
    `/apis/${API_VERSION}/namespaces/${stack.namespace}/${plural}/${name}`;
  return {
    ...{ stack, controller, hub, rest: stack.rest(controller) },
    machines: machines as unknown as readonly [RouterMachine, RouterMachine],
    async set(node, spec) {
      const body = { spec: { ...ports, ...spec } };
      await stack.kube.request('PATCH', pathOf('edgenodes', node), body, 'application/merge-patch+json');
    },
    async serveOnSecond(name, port) {
      const [command = '', ...args] = [...within, process.execPath, join(import.meta.dirname, '_service-peer.ts')];
      const env = { ...process.env, NAME: name, ECHO_PORT: `${port}` };
      const daemon = await startDaemon({ name: `peer-${name}`, dir, command, args, env });
      return { [Symbol.asyncDispose]: () => daemon.kill() };
    },
    async untilRouterReady(node) {
      const isReady = async () => {
        const { conditions = [], observedGeneration } = (await stack.node(node))?.status ?? {};
        const ready = conditions.find(({ type }) => type === 'RouterReady');
        if (ready?.status !== 'True') throw new Error(`${ready?.reason}: ${ready?.message}`);
        return observedGeneration !== undefined;
      };
      await until(`the router of ${node}`, isReady, { timeoutMs: 120_000 });
    },
    async routerOf({ engine: { url } }) {
      const list = await callEngine<{ Id: string; Labels: Record<string, string> }[]>(url, 'GET', '/containers/json');
      const found = list.filter(({ Labels }) => Labels['skerry.dev/microservice'] === 'router');
      const [own] = await Promise.all(
        found.map(({ Id }) => callEngine<RouterContainer>(url, 'GET', `/containers/${Id}/json`)),
      );
      return own;
    },
    async apply(name, peers) {
      const entries = [];
      for (const [peer, { node, hostPort }] of Object.entries(peers)) {
        at[peer] ??= await freePort();
        const isOutside = node === 'quay-1' && hostPort === undefined;
        entries.push({
          name: peer,
          agent: { name: node },
          images: { amd64: images.peer, arm64: images.peer },
          container: {
            hostNetworkMode: hostPort !== undefined,
            ...(isOutside && { ports: [{ internal: CONTROL_PORT, external: at[peer] }] }),
            env: [
              { key: 'NAME', value: peer },
              { key: 'ECHO_PORT', value: `${hostPort ?? ECHO_PORT}` },
              ...(isOutside ? [{ key: 'CONTROL_PORT', value: `${CONTROL_PORT}` }] : []),
            ],
          },
        });
      }
      await stack.apply({
        ...{ apiVersion: API_VERSION, kind: 'Application', metadata: { name } },
        spec: { microservices: entries },
      });
    },
    async say(peer, id, target, line) {
      const query = new URLSearchParams({ id, target, line });
      const text = await get(`http://127.0.0.1:${at[peer]}/?${query}`);
      return text === undefined ? { error: `${peer} does not answer` } : JSON.parse(text);
    },
    service: (name, spec) => stack.apply({ apiVersion: API_VERSION, kind: 'Service', metadata: { name }, spec }),
    statusOf: async (name) => (await stack.kube.get<Service>(pathOf('services', name)))?.status,
    bridgePortOf: (name) =>
      until(`a port of ${name}`, async () => {
        const found = await stack.kube.get<Service>(pathOf('services', name));
        return found?.status?.bridgePort;
      }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Nothing enters a network from outside; what runs inside reaches this machine. */
async function leaveAlone({ command: [ip = '', ...args], outside: [gateway] }: EdgeNetwork, machine: string) {
  const inside = (...words: string[]) => run(ip, [...args, ...words]);
  await inside('ip', 'route', 'add', machine, 'via', gateway);
  const fresh = ['--match', 'conntrack', '--ctstate', 'NEW', '--jump', 'DROP'];
  await inside('iptables', '--table', 'mangle', '--append', 'PREROUTING', '--in-interface', 'eth0', ...fresh);
}

/** An image of the program in `_service-peer.ts`: Node of this machine with the program in one file. */
export async function peerImage(): Promise<Image> {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, '_service-peer.ts')],
    ...{ bundle: true, platform: 'node', format: 'esm', target: 'node24', write: false },
  });
  const files = [
    ...programFiles({ node: realpathSync(process.execPath) }),
    { path: '/peer.mjs', content: outputFiles[0]?.contents ?? '' },
    { path: '/etc/nsswitch.conf', content: 'hosts: files dns\n' },
    { path: '/tmp' },
  ];
  return buildIndex([
    buildImage({ entrypoint: ['node', '/peer.mjs'], env: { PATH: '/bin' }, ports: [CONTROL_PORT], files }),
  ]);
}
