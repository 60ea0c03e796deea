import { waitFor } from '../../hack/wait.ts';
import { ANNOTATIONS, DEFAULT_NAMESPACE, SYSTEM_AUTHORITY } from '../../src/api/names.ts';
import { platformSecretName } from '../../src/subjects/platform/rules/secret.ts';
import { type Benchmark, by, type Context, type Row } from '../benchmark.ts';
import { type ByteCounter, countBytes } from '../byte-counter.ts';
import { costOf, rateOf, restOf } from '../cost.ts';
import { createFleet, type Fleet } from '../fleet.ts';
import { createHttp } from '../http.ts';
import { liveHeap } from '../inspector.ts';
import { assertAllAnswered, closedLoop } from '../load.ts';
import { memoryOf } from '../processes.ts';
import { createStack, describeRequests, pathOf, type Requests, type Stack } from '../stack.ts';
import type { TestAgent } from '../test-agent.ts';

const SIZES = [100, 1_000] as const;
/** Number of changes of a host, one after another. */
const HOSTS = { short: 10, usual: 30, long: 100 };
const SETS = ['router-local-agent', 'router-local-server', 'router-site-server'];
/** With fewer nodes, what the first certificate loads would be most of the growth. */
const LEAST_FOR_HEAP = 1_000;
/** Writes for a node after the user's own write: its Secret, and a status for each step: nothing made, not on the machine, there. */
const WRITES = { ready: 4, host: 3, renewal: 2 };

/** What the controller sets up for each node besides containers, here the certificates of an edge router. */
export const platform: Benchmark = {
  name: 'platform',
  about: 'certificates of 1,000 nodes, and of 100 before: made at once, for another host, and with another authority',
  rows: Object.fromEntries(SIZES.flatMap((size) => Object.entries(rowsOf(size)))),
  async run(context) {
    await using stack = await createStack(context.log);
    await using counter = await countBytes(stack.url);
    await using http = createHttp(counter.url, 64);
    await using pollHttp = createHttp(counter.url, null);
    await using fleet = createFleet({ rest: stack.rest, http, pollHttp });
    const figures: Record<string, number> = {};
    const notes = [
      'nodes of test agents, which fetch the content that they lack and report it; a node is ready when its condition CertificatesReady is True',
      `the writes of the user do not count: the spec of the node, or the annotation of the authority; ${by(context, HOSTS)} changes of a host, one after another`,
      'CPU of controller, API server and etcd until all is written, less what they use and write at rest right before, such as signs of life',
      'bytes of HTTP in both directions, with polls and reports',
    ];
    for (const size of by<readonly number[]>(context, { short: [100], usual: SIZES, long: SIZES })) {
      const measured = await measure({ context, stack, fleet, counter, size });
      for (const [figure, value] of Object.entries(measured.figures)) figures[`${figure}@${size}`] = value;
      notes.push(...measured.notes);
    }
    return { figures, notes };
  },
};

function rowsOf(size: number): Record<string, Row> {
  const n = `${size.toLocaleString('en-US')} nodes`;
  const rows: Record<string, Row> = {
    ready: { what: `${n} made edge routers at once: until all have their certificates and say so`, unit: 's' },
    readyCpu: { what: `${n} made edge routers at once: each`, unit: 'CPU-ms' },
    readyController: { what: `${n} made edge routers at once: of it, the controller`, unit: 'CPU-ms' },
    readyWrites: {
      what: `${n} made edge routers at once: objects written for each`,
      unit: '',
      budget: { atMost: WRITES.ready + 0.2 },
    },
    readySecrets: {
      what: `${n} made edge routers at once: of them, Secrets`,
      unit: '',
      budget: { atMost: 1.1 },
    },
    secret: {
      what: `among ${n}: Secret of a node, as JSON`,
      unit: 'bytes',
      budget: { atMost: 12 * 1024 },
    },
    object: { what: `among ${n}: by how much the EdgeNode is longer with its platform`, unit: 'bytes' },
    ...(size >= LEAST_FOR_HEAP && {
      heap: {
        what: `among ${n}: memory of the controller for the platform of one, after a full collection`,
        unit: 'KiB',
        budget: { atMost: 30 },
      },
    }),
    hostCpu: { what: `among ${n}: another host of one, until it says that it has the certificates`, unit: 'CPU-ms' },
    hostController: { what: `among ${n}: another host of one: of it, the controller`, unit: 'CPU-ms' },
    hostWrites: {
      what: `among ${n}: another host of one: objects written`,
      unit: '',
      budget: { atMost: WRITES.host + 0.2 },
    },
    renewCpu: { what: `${n} get another key of an authority: each`, unit: 'CPU-ms' },
    renewController: { what: `${n} get another key of an authority: of it, the controller`, unit: 'CPU-ms' },
    renewWrites: {
      what: `${n} get another key of an authority: objects written for each`,
      unit: '',
      budget: { atMost: WRITES.renewal + 0.2 },
    },
    renewSecrets: {
      what: `${n} get another key of an authority: Secrets of nodes written`,
      unit: '',
      budget: { exactly: 0 },
    },
    renewFiles: {
      what: `${n} get another key of an authority: files that each fetches`,
      unit: '',
      budget: { exactly: 1 },
    },
    renewBytes: {
      what: `${n} get another key of an authority: on the link of each`,
      unit: 'bytes',
      budget: { atMost: 16 * 1024 },
    },
  };
  return Object.fromEntries(Object.entries(rows).map(([figure, row]) => [`${figure}@${size}`, row]));
}

interface Size {
  context: Context;
  stack: Stack;
  fleet: Fleet;
  counter: ByteCounter;
  /** nodes */
  size: number;
}

interface Measured {
  figures: Record<string, number>;
  notes: readonly string[];
}

async function measure(run: Size): Promise<Measured> {
  const { context, stack, fleet, size } = run;
  context.log(`${size} nodes: provisioning`);
  // All are to get their platform at once, also the nodes of the smaller size.
  await patchAll(run, () => ({ routerMode: 'none' }));
  await fleet.grow(size);
  await filesAre(run, (agent) => agent.files.sets.length === 0);
  await stack.quiet(300_000);
  const parts = [await allAtOnce(run), await otherHost(run), await otherAuthority(run)];
  return {
    figures: Object.assign({}, ...parts.map(({ figures }) => figures)),
    notes: parts.flatMap(({ notes }) => notes.map((note) => `${size} nodes: ${note}`)),
  };
}

/** Every node becomes an edge router. */
async function allAtOnce(run: Size): Promise<Measured> {
  const { context, stack, size } = run;
  context.log(`${size} nodes: all become edge routers`);
  const before = { heap: await liveHeap(stack.controller()), rss: rssOf(stack), object: await bytesOfNode(run) };
  const atRest = await rateOf(stack);
  const wrote = await stack.watchWrites();
  const began = performance.now();
  let seconds = 0;
  const cost = await costOf(stack, atRest, size, () =>
    context.profiled(
      `ready among ${size}`,
      async () => {
        await patchAll(run, (i) => ({ routerMode: 'edge', host: `gw-${i}.plant.example` }));
        await filesAre(run, ({ files }) => String(files.sets) === String(SETS));
        await allReady(run);
        seconds = (performance.now() - began) / 1_000;
        await stack.quiet(300_000);
      },
      stack,
    ),
  );
  const writes = without(await wrote(), 'edgenodes', size);
  const heap = (await liveHeap(stack.controller())) - before.heap;
  const rss = rssOf(stack) - before.rss;
  return {
    figures: {
      ready: seconds,
      readyCpu: cost.total,
      readyController: cost.controller,
      readyWrites: writes.total / size,
      readySecrets: secretsIn(writes) / size,
      secret: await bytesOfSecret(run),
      object: (await bytesOfNode(run)) - before.object,
      ...(size >= LEAST_FOR_HEAP && { heap: heap / 1024 / size }),
    },
    notes: [
      `written for a node that becomes an edge router: ${describeRequests(writes, size)}`,
      `resident memory of the controller grew by ${(rss / 1024 / size).toFixed(0)} KiB for each`,
    ],
  };
}

/** One node after another gets another host. */
async function otherHost(run: Size): Promise<Measured> {
  const { context, stack, fleet, size } = run;
  const count = by(context, HOSTS);
  context.log(`${size} nodes: ${count} of them get another host`);
  const rest = await restOf(stack);
  const wrote = await stack.watchWrites();
  const began = performance.now();
  const cost = await costOf(stack, rest.cost, count, () =>
    context.profiled(
      `host among ${size}`,
      async () => {
        for (let i = 0; i < count; i++) {
          const agent = fleet.agents[i] as TestAgent;
          const { digest } = agent.files;
          await patch(stack, agent.name, { host: `gw-${i}.${size}.plant.example` });
          await waitFor(async () => agent.files.digest !== digest, {
            what: `${agent.name} to have other files`,
            intervalMs: 20,
          });
        }
        await stack.quiet(300_000);
      },
      stack,
    ),
  );
  const others = (rest.writes * (performance.now() - began)) / 1_000;
  const writes = without(await wrote(), 'edgenodes', count);
  await allReady(run);
  return {
    figures: { hostCpu: cost.total, hostController: cost.controller, hostWrites: (writes.total - others) / count },
    notes: [`written for another host: ${describeRequests(writes, count)}`],
  };
}

/** The authority of one set gets another key, which all nodes are to trust before it signs. */
async function otherAuthority(run: Size): Promise<Measured> {
  const { context, stack, fleet, counter, size } = run;
  context.log(`${size} nodes: another key of an authority`);
  const before = new Map(fleet.agents.map((agent) => [agent, agent.files.digest]));
  const fetched = () => fleet.agents.reduce((sum, { files }) => sum + files.fetched, 0);
  const fetchedBefore = fetched();
  const rest = await restOf(stack);
  const wrote = await stack.watchWrites();
  const began = performance.now();
  const passed = counter.watch();
  let bytes = 0;
  const cost = await costOf(stack, rest.cost, size, () =>
    context.profiled(
      `renewal among ${size}`,
      async () => {
        const annotations = { [ANNOTATIONS.renew]: new Date().toISOString() };
        const path = pathOf('certificateauthorities', SYSTEM_AUTHORITY.routerSite);
        await stack.kube.request('PATCH', path, { metadata: { annotations } }, 'application/merge-patch+json');
        await filesAre(run, (agent) => agent.files.digest !== before.get(agent));
        const { up, down } = passed();
        bytes = up + down;
        await stack.quiet(300_000);
      },
      stack,
    ),
  );
  const others = (rest.writes * (performance.now() - began)) / 1_000;
  const writes = without(await wrote(), 'certificateauthorities', 1);
  await allReady(run);
  return {
    figures: {
      renewCpu: cost.total,
      renewController: cost.controller,
      renewWrites: (writes.total - others) / size,
      // One of the authority.
      renewSecrets: secretsIn(writes) - 1,
      renewFiles: (fetched() - fetchedBefore) / size,
      renewBytes: bytes / size,
    },
    notes: [`written for another key of an authority, for each: ${describeRequests(writes, size)}`],
  };
}

async function patchAll({ stack, fleet }: Size, specOf: (i: number) => object): Promise<void> {
  const { agents } = fleet;
  const load = await closedLoop(agents.length, 16, (i) => patch(stack, (agents[i] as TestAgent).name, specOf(i)));
  assertAllAnswered(load);
}

async function patch({ kube }: Stack, name: string, spec: object): Promise<void> {
  await kube.request('PATCH', pathOf('edgenodes', name), { spec }, 'application/merge-patch+json');
}

/** The agents know it first, so that no list of all nodes is read in vain. */
const filesAre = ({ fleet: { agents } }: Size, areDue: (agent: TestAgent) => boolean) =>
  waitFor(async () => agents.every(areDue), {
    what: `the files of all ${agents.length} nodes`,
    timeoutMs: 600_000,
    intervalMs: 50,
  });

interface Node {
  status?: { conditions?: { type: string; status: string }[] };
}

const allReady = ({ stack: { kube }, size }: Size) =>
  waitFor(
    async () => {
      const { items } = await kube.request<{ items: Node[] }>('GET', pathOf('edgenodes'));
      const isReady = ({ status }: Node) =>
        status?.conditions?.some((one) => one.type === 'CertificatesReady' && one.status === 'True');
      return items.filter(isReady).length === size;
    },
    { what: `${size} nodes to have their certificates`, timeoutMs: 600_000, intervalMs: 1_000 },
  );

/** Without writes of users to a resource. */
function without({ kinds, total }: Requests, resource: string, count: number): Requests {
  const kind = `PATCH ${resource}`;
  return { total: total - count, kinds: new Map([...kinds, [kind, (kinds.get(kind) ?? 0) - count]]) };
}

const secretsIn = ({ kinds }: Requests) =>
  [...kinds].reduce((sum, [kind, count]) => sum + (kind.endsWith(' secrets') ? count : 0), 0);

const rssOf = (stack: Stack) => memoryOf(stack.pids().controller).rss;

const bytesOf = async ({ kube }: Stack, path: string) =>
  Buffer.byteLength(JSON.stringify(await kube.request('GET', path)));

const last = ({ fleet: { agents } }: Size) => agents.at(-1) as TestAgent;
const bytesOfNode = (run: Size) => bytesOf(run.stack, pathOf('edgenodes', last(run).name));
const bytesOfSecret = (run: Size) =>
  bytesOf(run.stack, `/api/v1/namespaces/${DEFAULT_NAMESPACE}/secrets/${platformSecretName(last(run).uuid)}`);
