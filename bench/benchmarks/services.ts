import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../hack/ports.ts';
import { ROUTER_PROGRAM } from '../../hack/router.ts';
import { type LocalRouter, startLocalRouter } from '../../hack/stack/router-hub.ts';
import { waitFor } from '../../hack/wait.ts';
import { API_VERSION, DEFAULT_NAMESPACE, SERVICE_TAG } from '../../src/api/names.ts';
import type { Service } from '../../src/api/v3/service.ts';
import { ROUTER_HUB_NAMES } from '../../src/subjects/routers/rules/hub-objects.ts';
import { ROUTER_FILES } from '../../src/wire/router.ts';
import { type Benchmark, by, type Context, type Measured, type Row } from '../benchmark.ts';
import { startChild } from '../child.ts';
import { type Cost, costOf, restOf } from '../cost.ts';
import { liveHeap } from '../inspector.ts';
import { assertAllAnswered, closedLoop } from '../load.ts';
import { percentile } from '../percentile.ts';
import { routerConfigOf, startRouterOf } from '../router-edge.ts';
import { createStack, describeRequests, pathOf, type Requests, type Stack } from '../stack.ts';
import type { TcpProxyCalls } from '../tcp-proxy.ts';
import type { TestAgent } from '../test-agent.ts';

const NODES = { short: 100, usual: 1_000, long: 1_000 };
/** Services among which the same is done. */
const SIZES = [10, 1_000] as const;
const SERVICES = { short: [10], usual: SIZES, long: SIZES } as const;
/** Each node selects the services of one group: ten of 1,000. */
const GROUPS = 100;
/** Services that the routers of all nodes listen for, created one after another. */
const CREATED = { short: 2, usual: 3, long: 10 };
/** Edits of the tags of one node, one after another: as many that add a tag as that remove it. */
const EDITS = { short: 4, usual: 10, long: 50 };
const SENT_MIB = { short: 64, usual: 256, long: 2_048 };
const EVERYWHERE = 'everywhere';
const SPOT = 'spot';
/** Objects written for a service: itself three times, its Service of the cluster with its address, two events, and a status of eleven nodes. */
const WRITES = 20;

/** Services over routers: when listeners are there, what an edit costs among many of them, and what two routers carry. */
export const services: Benchmark = {
  name: 'services',
  about: 'services over the routers of 1,000 nodes: until all listen, edits of tags, writes, sizes, and bytes a second',
  rows: {
    ...Object.fromEntries(SIZES.flatMap((size) => Object.entries(rowsOf(size)))),
    ratioTag: {
      what: 'a tag of one node: CPU among 1,000 services in relation to 10',
      unit: '',
      budget: { atMost: 1.5 },
    },
    ready: { what: '1,000 services created, until all are ready', unit: 's' },
    readyCpu: { what: '1,000 services created: each, with the files of eleven nodes', unit: 'CPU-ms' },
    readyController: { what: '1,000 services created: of it, the controller', unit: 'CPU-ms' },
    readyWrites: {
      what: '1,000 services created: objects written for each',
      unit: '',
      budget: { atMost: WRITES },
    },
    heap: {
      what: 'memory of the controller for a service on eleven nodes, after a full collection',
      unit: 'KiB',
      budget: { atMost: 64 },
    },
    config: {
      what: 'configuration of a router that listens for ten of 1,000 services',
      unit: 'bytes',
      budget: { atMost: 16 * 1024 },
    },
    configAll: {
      what: 'configuration of a router that listens for 1,000 services',
      unit: 'bytes',
      budget: { atMost: 256 * 1024 },
    },
    hubWrites: {
      what: 'default router in the cluster, 1,000 services created: its ConfigMap written',
      unit: '',
      budget: { atMost: 60 },
    },
    hubConfig: {
      what: 'default router in the cluster: its ConfigMap with 1,000 services',
      unit: 'bytes',
      budget: { atMost: 900 * 1024 },
    },
    routed: { what: 'from a client over two routers to a server', unit: 'MiB/s' },
    proxied: { what: 'from a client over a plain TCP proxy to a server', unit: 'MiB/s' },
    ratioRouted: { what: 'two routers in relation to the proxy', unit: '', budget: { atLeast: 0.1 } },
  },
  async run(context) {
    const nodes = by(context, NODES);
    const main = await overNodes(context, nodes);
    const hub = by<readonly number[]>(context, SERVICES).includes(SIZES[1]) ? await inCluster(context) : {};
    return {
      figures: { ...main.figures, ...hub },
      notes: [
        `${nodes} nodes of test agents with edge routers, each of which selects the token of one of ${GROUPS} groups, and a token that all select; they report that their routers have every change at once`,
        `the default router is elsewhere, ${ROUTER_PROGRAM ? 'a real router' : 'the stand-in of a router'} as a process; the ConfigMap was counted in another installation, without nodes`,
        `${by(context, CREATED)} services for all nodes, and ${by(context, EDITS)} edits of tags, one after another; the writes of the user do not count`,
        ...(ROUTER_PROGRAM
          ? [
              `${by(context, SENT_MIB)} MiB each way, in one connection: default router, the router of an edge node, server`,
            ]
          : ['bytes a second are measured where ROUTER names a real router']),
        ...(main.notes ?? []),
      ],
    };
  },
};

function rowsOf(size: number): Record<string, Row> {
  const among = `among ${size.toLocaleString('en-US')} services`;
  const rows: Record<string, Row> = {
    first: { what: `${among}: a service created, until the first of 1,000 nodes has its listener`, unit: 'ms' },
    last: {
      what: `${among}: a service created, until the last of 1,000 nodes has its listener`,
      unit: 's',
      budget: { atMost: 15 },
    },
    tagCpu: { what: `${among}: a tag of one node, until it has the listener, or no longer`, unit: 'CPU-ms' },
    tagController: { what: `${among}: a tag of one node: of it, the controller`, unit: 'CPU-ms' },
    tagWrites: { what: `${among}: a tag of one node: objects written`, unit: '', budget: { atMost: 5.5 } },
  };
  return Object.fromEntries(Object.entries(rows).map(([figure, row]) => [`${figure}@${size}`, row]));
}

interface Run {
  context: Context;
  stack: Stack;
  router: LocalRouter;
  dir: string;
  /** services so far that all nodes select */
  made: number;
}

async function overNodes(context: Context, nodes: number): Promise<Measured> {
  await using started = new AsyncDisposableStack();
  const stack = started.use(await createStack(context.log, { ROUTERS_ENABLED: 'true' }));
  const dir = await mkdtemp(join(tmpdir(), 'skerry-bench-services-'));
  started.defer(() => rm(dir, { recursive: true, force: true }));
  const router = await startLocalRouter({ dir, kube: stack.kube, log: context.log });
  started.defer(() => router.stop());
  const run: Run = { context, stack, router, dir, made: 0 };
  context.log(`Provisioning ${nodes} nodes with routers`);
  await stack.fleet.grow(nodes);
  await patchAll(run, (i) => ({ routerMode: 'edge', tags: tagsOf(i) }));
  await waitFor(async () => stack.fleet.agents.every(({ files }) => files.sets.length === 4), {
    what: 'the files of all routers',
    timeoutMs: 600_000,
    intervalMs: 100,
  });
  await create(run, 'tagged', { tags: [SPOT] });
  const figures: Record<string, number> = {};
  const notes: string[] = [];
  for (const size of by<readonly number[]>(context, SERVICES)) {
    const grown = await grow(run, size);
    if (size === SIZES[1]) Object.assign(figures, grown.figures);
    notes.push(...(grown.notes ?? []));
    Object.assign(figures, of(size, await created(run)));
    const edits = await tagEdits(run, size);
    Object.assign(figures, of(size, edits.figures));
    notes.push(...edits.notes);
  }
  if (figures[`tagCpu@${SIZES[1]}`] !== undefined) {
    figures.ratioTag = (figures[`tagCpu@${SIZES[1]}`] ?? 0) / (figures[`tagCpu@${SIZES[0]}`] ?? 0);
    Object.assign(figures, await sizes(run));
  }
  if (ROUTER_PROGRAM) Object.assign(figures, await throughput(run, started));
  return { figures, notes };
}

const of = (size: number, figures: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(figures).map(([figure, value]) => [`${figure}@${size}`, value]));

const token = (name: string) => `${SERVICE_TAG}: ${name}`;
const groupOf = (i: number) => `group-${i % GROUPS}`;
const tagsOf = (i: number) => [token(groupOf(i)), token(EVERYWHERE)];
const agentAt = ({ stack: { fleet } }: Run, i: number) => fleet.agents[i % fleet.agents.length] as TestAgent;

async function patchAll(run: Run, specOf: (i: number) => object): Promise<void> {
  const { agents } = run.stack.fleet;
  assertAllAnswered(await closedLoop(agents.length, 16, (i) => patch(run, agentAt(run, i).name, specOf(i))));
}

async function patch({ stack: { kube } }: Run, name: string, spec: object): Promise<void> {
  await kube.request('PATCH', pathOf('edgenodes', name), { spec }, 'application/merge-patch+json');
}

const objectOf = (name: string, spec: object) => ({
  apiVersion: API_VERSION,
  kind: 'Service',
  metadata: { name, namespace: DEFAULT_NAMESPACE },
  spec,
});

/** Creates a service that leads to the machine of the first node, unless `spec` says otherwise. */
async function create(run: Run, name: string, spec: object): Promise<void> {
  const { kube } = run.stack;
  const whole = { type: 'agent', resource: agentAt(run, 0).name, targetPort: 22, ...OF_CLUSTER, ...spec };
  await kube.request('POST', pathOf('services'), objectOf(name, whole));
}
const OF_CLUSTER = { servicePort: 80, clusterType: 'ClusterIP' } as const;

const all = async ({ kube }: Stack): Promise<Service[]> =>
  (await kube.request<{ items: Service[] }>('GET', pathOf('services'))).items;
const isReady = ({ status }: Service) => status?.provisioningStatus === 'ready';

/** Services with a backend each on another node, until there are this number. */
async function grow(run: Run, size: number): Promise<Measured> {
  const { context, stack } = run;
  const first = (await all(stack)).length;
  const count = size - first;
  await stack.quiet(600_000);
  context.log(`Creating services, until there are ${size}`);
  const before = await liveHeap(stack.controller());
  const rest = await restOf(stack);
  const wrote = await stack.watchWrites();
  const began = performance.now();
  let seconds = 0;
  const cost = await costOf(stack, rest.cost, count, () =>
    context.profiled(
      `ready among ${size}`,
      async () => {
        const load = await closedLoop(count, 16, (n) => {
          const i = first + n;
          return create(run, `service-${i}`, { resource: agentAt(run, i).name, targetPort: 8080, tags: [groupOf(i)] });
        });
        assertAllAnswered(load);
        await waitFor(async () => (await all(stack)).every(isReady), {
          what: `${size} services to be ready`,
          timeoutMs: 900_000,
          intervalMs: 1_000,
        });
        seconds = (performance.now() - began) / 1_000;
        await stack.quiet(900_000);
      },
      stack,
    ),
  );
  const others = (rest.writes * (performance.now() - began)) / 1_000;
  const writes = await wrote();
  return {
    figures: {
      ready: seconds,
      readyCpu: cost.total,
      readyController: cost.controller,
      readyWrites: (writes.total - others) / count - 1,
      heap: ((await liveHeap(stack.controller())) - before) / 1024 / count,
    },
    notes: [`${size} services: written for each that was created: ${describeRequests(writes, count)}`],
  };
}

/** Services that all nodes listen for: when the first and the last of them have the listener, medians. */
async function created(run: Run): Promise<Record<string, number>> {
  const { context, stack } = run;
  const { agents } = stack.fleet;
  const [firsts, lasts]: [number[], number[]] = [[], []];
  for (let i = 0; i < by(context, CREATED); i++) {
    const name = `all-${run.made++}`;
    context.log(`Creating the service ${name}, which all nodes select`);
    const times = new Map<TestAgent, number>();
    for (const agent of agents) {
      const { digest } = agent.files;
      agent.onTold = () => {
        if (agent.files.digest !== digest && !times.has(agent)) times.set(agent, performance.now());
      };
    }
    await create(run, name, { tags: [EVERYWHERE] });
    const answered = performance.now();
    await waitFor(async () => times.size === agents.length, {
      what: `the service ${name} at all nodes`,
      timeoutMs: 300_000,
      intervalMs: 50,
    });
    for (const agent of agents) agent.onTold = undefined;
    firsts.push(Math.min(...times.values()) - answered);
    lasts.push((Math.max(...times.values()) - answered) / 1_000);
    await stack.quiet(600_000);
  }
  return { first: percentile(firsts, 0.5), last: percentile(lasts, 0.5) };
}

/** One node selects one more service, and no longer, in turns. */
async function tagEdits(run: Run, size: number): Promise<{ figures: Record<string, number>; notes: string[] }> {
  const { context, stack } = run;
  const count = by(context, EDITS);
  context.log(`${count} edits of the tags of a node among ${size} services`);
  const agent = agentAt(run, 1);
  const rest = await restOf(stack);
  const wrote = await stack.watchWrites();
  const began = performance.now();
  const cost: Cost = await costOf(stack, rest.cost, count, () =>
    context.profiled(
      `tag among ${size}`,
      async () => {
        for (let i = 0; i < count; i++) {
          const { digest } = agent.files;
          await patch(run, agent.name, { tags: [...tagsOf(1), ...(i % 2 === 0 ? [token(SPOT)] : [])] });
          await waitFor(async () => agent.files.digest !== digest, {
            what: `the files of a node after the edit ${i}`,
            intervalMs: 20,
          });
        }
        await stack.quiet(300_000);
      },
      stack,
    ),
  );
  const others = (rest.writes * (performance.now() - began)) / 1_000;
  const writes: Requests = await wrote();
  return {
    figures: {
      tagCpu: cost.total,
      tagController: cost.controller,
      tagWrites: (writes.total - others) / count - 1,
    },
    notes: [`${size} services: written for a tag of one node: ${describeRequests(writes, count)}`],
  };
}

/** Texts of the configurations of routers among many services. */
async function sizes(run: Run): Promise<Record<string, number>> {
  const agent = agentAt(run, 2);
  const bytes = async () => Buffer.byteLength(routerConfigOf(await agent.files.content()));
  const config = await bytes();
  const { digest } = agent.files;
  await patch(run, agent.name, { tags: [token('all')] });
  await waitFor(async () => agent.files.digest !== digest, { what: 'a node to select all services' });
  return { config, configAll: await bytes() };
}

/** One connection from a client over the default router and the router of a node to a server. */
async function throughput(run: Run, started: AsyncDisposableStack): Promise<Record<string, number>> {
  const { context, stack, router, dir } = run;
  context.log('Bytes over two routers, and over a plain TCP proxy');
  const agent = agentAt(run, 3);
  const sink = await startSink(started);
  await patch(run, agent.name, { messagingPort: await freePort() });
  await create(run, 'sink', { resource: agent.name, targetPort: sink.port });
  await waitFor(async () => (await all(stack)).every(isReady), {
    what: 'the service of the server',
    timeoutMs: 60_000,
  });
  await stack.quiet(300_000);
  const edge = await startRouterOf(agent, join(dir, agent.name));
  started.defer(() => edge.stop());
  const service = (await all(stack)).find(({ metadata }) => metadata.name === 'sink');
  const routed = { host: router.host, port: service?.status?.bridgePort ?? 0 };
  await waitFor(() => sink.receive(routed, 1), { what: 'a connection over two routers', timeoutMs: 60_000 });
  const proxy = started.use(startChild<TcpProxyCalls>(join(import.meta.dirname, '../tcp-proxy.ts'), 'the proxy'));
  const proxied = { host: '127.0.0.1', port: await proxy.call('listen', { to: sink.port }) };
  const bytes = by(context, SENT_MIB) * 2 ** 20;
  const rate = async (to: typeof routed) => {
    await sink.receive(to, bytes / 8);
    return bytes / 2 ** 20 / (await sink.receive(to, bytes));
  };
  const figures = { routed: await rate(routed), proxied: await rate(proxied) };
  return { ...figures, ratioRouted: figures.routed / figures.proxied };
}

interface Sink {
  port: number;
  /** Sends bytes over a connection to this address; seconds until the server has received all of them. */
  receive(to: { host: string; port: number }, bytes: number): Promise<number>;
}

/** A server that answers with one byte once it has received as many as the first eight say. */
async function startSink(started: AsyncDisposableStack): Promise<Sink> {
  const server = createServer((socket) => {
    let left: number | undefined;
    let head = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('data', (piece) => {
      if (left === undefined) {
        head = Buffer.concat([head, piece]);
        if (head.length < HEAD) return;
        left = Number(head.readBigUInt64BE()) - (head.length - HEAD);
      } else left -= piece.length;
      if (left <= 0) socket.write('.');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  started.defer(() => void server.close());
  const at = server.address();
  return {
    port: typeof at === 'object' && at ? at.port : 0,
    receive: (to, bytes) =>
      new Promise((resolve, reject) => {
        const socket = connect(to);
        const piece = Buffer.alloc(PIECE);
        const began = performance.now();
        let left = bytes;
        const send = () => {
          while (left > 0) {
            const next = piece.subarray(0, Math.min(left, PIECE));
            left -= next.length;
            if (!socket.write(next)) return;
          }
        };
        socket.once('connect', () => {
          const head = Buffer.alloc(HEAD);
          head.writeBigUInt64BE(BigInt(bytes));
          socket.write(head);
          send();
        });
        socket.on('drain', send);
        socket.once('data', () => {
          socket.destroy();
          resolve((performance.now() - began) / 1_000);
        });
        socket.once('error', reject).once('close', () => reject(new Error('the connection was closed')));
      }),
  };
}
const HEAD = 8;
const PIECE = 64 * 1024;

/** The ConfigMap of a default router that the controller makes, while many services are created. */
async function inCluster({ log }: Context): Promise<Record<string, number>> {
  await using stack = await createStack(log, { ROUTERS_ENABLED: 'true', ROUTER_HUB: 'true' });
  const path = `/api/v1/namespaces/${DEFAULT_NAMESPACE}/configmaps/${ROUTER_HUB_NAMES.config}`;
  interface ConfigMap {
    metadata: { resourceVersion: string };
    data?: Record<string, string>;
  }
  const config = async () => (await stack.kube.get<ConfigMap>(path))?.data?.[ROUTER_FILES.config] ?? '';
  await waitFor(async () => (await config()) !== '', { what: 'the ConfigMap of the default router' });
  const [, count] = SIZES;
  log(`Creating ${count} services with a default router in the cluster`);
  // ConfigMaps have no generation: their versions are looked at more often than one is written.
  const versions = new Set<string>();
  const stop = new AbortController();
  const looked = (async () => {
    while (!stop.signal.aborted) {
      const { metadata } = await stack.kube.request<ConfigMap>('GET', path);
      versions.add(metadata.resourceVersion);
      await sleep(LOOK_MS);
    }
  })();
  const load = await closedLoop(count, 16, async (i) => {
    const spec = { type: 'cluster', resource: `host-${i}.plant.svc`, targetPort: 80 };
    await stack.kube.request('POST', pathOf('services'), objectOf(`service-${i}`, spec));
  });
  assertAllAnswered(load);
  await waitFor(async () => (await config()).split('-listener"').length > count, {
    what: 'all services in the ConfigMap',
    timeoutMs: 600_000,
    intervalMs: 1_000,
  });
  stop.abort();
  await looked;
  return { hubWrites: versions.size - 1, hubConfig: Buffer.byteLength(await config()) };
}
const LOOK_MS = 50;
