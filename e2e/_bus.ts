import { mkdtempSync, readFileSync, realpathSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { connect, credsAuthenticator, type NatsConnection } from 'nats';
import { inject } from 'vitest';
import { busServerImage } from '../hack/bus-image.ts';
import { findEngine, removeEngineData } from '../hack/engine.ts';
import { callEngine } from '../hack/engine-api.ts';
import { buildImage, buildIndex, type Image, pushImage } from '../hack/image.ts';
import { freePort } from '../hack/ports.ts';
import { programFiles } from '../hack/shell-image.ts';
import { FinalError } from '../hack/wait.ts';
import { CONTAINER_LABELS } from '../src/api/names.ts';
import { startControllerHere } from './_controller-here.ts';
import { enginesApart } from './_engines-apart.ts';
import { type AgentProcess, type ControllerProcess, createStack, get, type Rest, type Stack, until } from './_stack.ts';

/** The address of this machine that containers of every engine reach. */
export const MACHINE =
  Object.values(networkInterfaces())
    .flat()
    .find((one) => one?.family === 'IPv4' && !one.internal)?.address ?? '127.0.0.1';

interface Engine {
  kind: string;
  url: string;
}

/** A node with an engine of its own and ports for a bus server. */
export interface BusMachine {
  node: string;
  engine: Engine;
  agent: AgentProcess;
  ports: { server: number; mqtt: number; leaf: number };
}

interface Options {
  /** the controller's URL for the agent of a node; itself when absent */
  urlOf?: (node: string, controller: string) => Promise<string>;
}

/**
 * Two machines of the message bus, `gw-1` with docker and `gw-2` with podman, and clients in containers that have nothing but what the
 * controller gives microservices with access.
 */
export interface BusMachines extends AsyncDisposable {
  stack: Stack;
  controller: ControllerProcess;
  rest: Rest;
  machines: readonly [BusMachine, BusMachine];
  /** Sets fields of a node, besides ports and small stores. */
  set(node: string, spec: Record<string, unknown>): Promise<void>;
  /** Waits until a node says that its bus server has all that it needs. */
  untilBusReady(node: string): Promise<void>;
  /** Applies an application of clients. */
  apply(name: string, microservices: Readonly<Record<string, { node: string; rule?: string }>>): Promise<void>;
  /** What a client says of itself; undefined while it does not answer. */
  heard(name: string): Promise<Heard | undefined>;
  /** Waits until a client has received more than this number of messages of another one. */
  hears(name: string, from: string, more?: number): Promise<Heard>;
  /** The credentials in the container of a client. */
  credsOf(name: string): Promise<string>;
  /** Whether the server of a machine lets in a client with these credentials. */
  isLetIn(machine: BusMachine, creds: string): Promise<boolean>;
  /** The first process of the bus server in its container. */
  serverOf(machine: BusMachine): Promise<BusContainer>;
}

interface BusContainer {
  id: string;
  State: { Pid: number };
  HostConfig: { NetworkMode: string; PortBindings: Record<string, { HostPort: string }[]> };
}

export async function startBusMachines({ urlOf = async (_, url) => url }: Options = {}): Promise<BusMachines> {
  const started = new AsyncDisposableStack();
  started.use(await enginesApart());
  const stack = started.use(await createStack());
  const registryUrl = inject('registryUrl');
  const registry = new URL(registryUrl).host;
  const dir = await mkdtemp(join(tmpdir(), 'skerry-bus-'));
  started.defer(() => removeEngineData(dir));
  const podman = started.use(await findEngine({ dir, kind: 'podman', registry }));
  const engines: Engine[] = [{ kind: 'docker', url: inject('engineUrl') }, podman];
  const repository = `${stack.namespace}/bus`;
  await pushImage(registryUrl, repository, 'server', await busServerImage());
  await pushImage(registryUrl, repository, 'client', await busClientImage());
  const client = `${registry}/${repository}:client`;
  const server = `${registry}/${repository}:server`;
  const settings = { BUS_ENABLED: 'true', BUS_IMAGE_1: server, BUS_IMAGE_2: server };
  const { controller } = started.use(await startControllerHere(stack, settings));
  const machines: BusMachine[] = [];
  for (const [i, engine] of engines.entries()) {
    const node = `gw-${i + 1}`;
    const settings = { containerEngine: engine.kind, containerEngineUrl: engine.url };
    const url = await urlOf(node, controller.url);
    const agent = await stack.startAgent(node, controller, { settings, url });
    const ports = { server: await freePort(), mqtt: await freePort(), leaf: await freePort() };
    machines.push({ node, engine, agent, ports });
  }
  const [first, second] = machines;
  if (!first || !second) throw new Error('a machine is missing');
  const at: Record<string, number> = {};
  const heard = (name: string) => heardAt(at[name] ?? 0);
  return {
    ...{ stack, controller, machines: [first, second], rest: stack.rest(controller), heard },
    async set(node, spec) {
      const { server, mqtt, leaf } = machines.find((one) => one.node === node)?.ports ?? {};
      const ports = { busServerPort: server, busMqttPort: mqtt, busLeafPort: leaf };
      const body = { spec: { ...ports, jsStorageSize: '64m', jsMemoryStoreSize: '64m', ...spec } };
      const path = `/apis/skerry.dev/v3/namespaces/${stack.namespace}/edgenodes/${node}`;
      await stack.kube.request('PATCH', path, body, 'application/merge-patch+json');
    },
    async untilBusReady(node) {
      const isReady = async () => {
        const { conditions = [] } = (await stack.node(node))?.status ?? {};
        const { status, reason, message } = conditions.find(({ type }) => type === 'BusReady') ?? {};
        if (status !== 'True') throw new Error(`${reason}: ${message}`);
        return true;
      };
      await until(`the bus server of ${node}`, isReady, { timeoutMs: 120_000 });
    },
    async apply(name, microservices) {
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
    },
    hears: (name, from, more = 0) =>
      until(
        `${name} to receive more than ${more} messages of ${from}`,
        async () => {
          const found = await heard(name);
          return found && (found.heard[from] ?? 0) > more && found;
        },
        { timeoutMs: 120_000 },
      ),
    credsOf: (name) => until(`the credentials of ${name}`, () => get(`http://127.0.0.1:${at[name]}/creds`)),
    isLetIn: ({ ports }, creds) =>
      until('a server to let a client in, or to refuse it', async () => {
        try {
          await (await connectAs(creds, `nats://127.0.0.1:${ports.server}`)).close();
          return { isIn: true };
        } catch (error) {
          // A server closes the connection after its refusal, which the client may learn first.
          if (/EPIPE|ECONNRESET/.test(String(error))) return undefined;
          if (/authorization/i.test(String(error))) return { isIn: false };
          throw new FinalError(String(error));
        }
      }).then(({ isIn }) => isIn),
    async serverOf({ node, engine: { url } }) {
      const uuid = (await stack.node(node))?.status?.uuid;
      // Other tests have nodes at the same engine, whose containers outlive their agents.
      const isOwn = ({ Labels }: { Labels: Record<string, string> }) =>
        Labels[CONTAINER_LABELS.microservice] === 'bus' && Labels[CONTAINER_LABELS.node] === uuid;
      // A container that was replaced may end a moment after the next one is ready.
      const id = await until(`one container of the bus server of ${node} to run`, async () => {
        const list = await callEngine<{ Id: string; Labels: Record<string, string> }[]>(url, 'GET', '/containers/json');
        const [own, ...more] = list.filter(isOwn);
        return own && more.length === 0 && own.Id;
      });
      return { ...(await callEngine<BusContainer>(url, 'GET', `/containers/${id}/json`)), id };
    },
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}

/** A client of this process, which never connects again. */
export function connectAs(creds: string, servers: string): Promise<NatsConnection> {
  const authenticator = credsAuthenticator(new TextEncoder().encode(creds));
  return connect({ servers, authenticator, reconnect: false, timeout: 2_000 });
}

/** An image of the client in `_bus-client.ts`: Node of this machine with the program in one file. */
async function busClientImage(): Promise<Image> {
  const outfile = join(mkdtempSync(join(tmpdir(), 'skerry-bus-client-')), 'client.mjs');
  await build({
    entryPoints: [join(import.meta.dirname, '_bus-client.ts')],
    ...{ outfile, bundle: true, platform: 'node', format: 'esm', target: 'node24' },
    banner: {
      js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
    },
  });
  const files = [
    ...programFiles({ node: realpathSync(process.execPath) }),
    { path: '/client.mjs', content: readFileSync(outfile) },
    { path: '/etc/nsswitch.conf', content: 'hosts: files dns\n' },
    { path: '/tmp' },
  ];
  return buildIndex([buildImage({ entrypoint: ['node', '/client.mjs'], env: { PATH: '/bin' }, ports: [8080], files })]);
}

/** What a client says of itself. */
export interface Heard {
  /** when its process started, Unix ms */
  started: number;
  /** how often it has connected */
  connects: number;
  /** messages by the name of who sent them */
  heard: Record<string, number>;
  error: string;
  server: string;
}

async function heardAt(port: number): Promise<Heard | undefined> {
  const text = await get(`http://127.0.0.1:${port}/`);
  return text === undefined ? undefined : (JSON.parse(text) as Heard);
}
