import { setTimeout as sleep } from 'node:timers/promises';
import { waitFor } from '../../hack/wait.ts';
import { API_VERSION } from '../../src/api/names.ts';
import { type Benchmark, by, type Context, type Row } from '../benchmark.ts';
import { closedLoop } from '../load.ts';
import { percentile } from '../percentile.ts';
import { memoryOf, watchUsage } from '../processes.ts';
import type { LinkQuality } from '../simulation/link.ts';
import { createNodeLoad } from '../simulation/load.ts';
import { type Simulation, startSimulation } from '../simulation/simulation.ts';
import { countReady, createStack, describeRequests, pathOf, type Stack, timeList } from '../stack.ts';

const LINK: LinkQuality = { roundTripMs: 120, loss: 0.02, cuts: 0.002 };
const MICROSERVICES = 6;
const RATES = [100, 500, 1_500] as const;
const SIZES = [100, 1_000] as const;
/** with the memory budget of each for 10,000 nodes, MiB */
const PROCESSES = [
  ['controller', 1_024],
  ['API server', 2_560],
  ['etcd', 1_024],
] as const;

/**
 * Fleets of two sizes, so that growth is visible. Each node is the real agent with six microservices; only engine, disk
 * and network are simulated, and hundreds of agents share a process.
 */
export const nodes: Benchmark = {
  name: 'nodes',
  about: '1,000 nodes of 6 microservices, and 100 of them before: the real agent on a bad network',
  rows: {
    ...Object.fromEntries(SIZES.flatMap((size) => Object.entries(rowsOf(size)))),
    ...Object.fromEntries(
      PROCESSES.flatMap(([process, budget]) => [
        [`idle.${process}`, { what: `${process} without nodes: resident memory`, unit: 'MiB' }],
        [
          `loaded.${process}`,
          { what: `${process} with 1,000 nodes, the most: resident memory`, unit: 'MiB', budget: { atMost: budget } },
        ],
        [`after.${process}`, { what: `${process} when all of it is deleted: resident memory`, unit: 'MiB' }],
      ]),
    ),
  },
  async run(context) {
    await using stack = await createStack(context.log);
    using simulation = startSimulation();
    await simulation.call('link', { quality: LINK });
    const registry = await makeRegistry(stack);
    await stack.quiet();

    const figures: Record<string, number> = {};
    const notes = [
      `network: ${LINK.roundTripMs} ms round trip, ${LINK.loss * 100} % of segments lost, ${LINK.cuts * 100} % of requests cut; polls and reports of the load go without it`,
      'CPU is that of controller, API server and etcd; what they use at rest is taken off, except where rest is measured',
      'the budgets of memory are those for 10,000 nodes',
    ];
    const memory = watchMemory(stack);
    Object.assign(figures, memory.named('idle'));
    for (const size of by<readonly number[]>(context, { short: [100], usual: SIZES, long: SIZES })) {
      const measured = await measure({ context, stack, simulation, registry, size });
      for (const [key, value] of Object.entries(measured.figures)) figures[`${key}@${size}`] = value;
      notes.push(...measured.notes);
    }
    Object.assign(figures, memory.stop());
    context.log('Deleting all of it');
    await clear(stack);
    await stack.quiet(300_000);
    Object.assign(figures, memory.named('after'));
    return { figures, notes };
  },
};

function rowsOf(size: number): Record<string, Row> {
  const n = `${size.toLocaleString('en-US')} nodes`;
  const rows: Record<string, Row> = {
    provisioning: { what: `${n}: provisioned over that network`, unit: 'nodes/s' },
    running: { what: `${n}: first application applied to all ${MICROSERVICES} x ${size} Ready`, unit: 's' },
    cost: { what: `${n}: an application applied, until its node runs it and says so`, unit: 'CPU-ms' },
    starts: {
      what: `${n}: containers started for each that was wanted`,
      unit: '',
      budget: { exactly: 1 },
    },
    restController: { what: `${n} at rest: controller, CPU of one core`, unit: '%' },
    restRest: { what: `${n} at rest: API server and etcd, CPU of one core`, unit: '%' },
    writes: { what: `${n} at rest: objects written for a node in 5 minutes`, unit: '', budget: { atMost: 1 } },
    poll: { what: `${n}: a poll, at ${RATES.join(', ')}/s together`, unit: 'CPU-ms', budget: { atMost: 0.4 } },
    ...Object.fromEntries(
      RATES.map((rate) => [
        `p99.${rate}`,
        { what: `${n}: polls at ${rate.toLocaleString('en-US')}/s, p99`, unit: 'ms', budget: { atMost: 50 } } as Row,
      ]),
    ),
    heartbeat: { what: `${n}: a heartbeat at 200/s`, unit: 'CPU-ms', budget: { atMost: 0.6 } },
    reconcile: { what: `${n}: an edit of an application, until its status is written`, unit: 'CPU-ms' },
    listNodes: { what: `${n}: list of them, p50`, unit: 'ms', budget: { atMost: size / 10 } },
    listApplications: {
      what: `${n}: list of ${size} applications of ${MICROSERVICES}, p50`,
      unit: 'ms',
      budget: { atMost: (size * 3) / 10 },
    },
    p99Beside: { what: `${n}: polls at 300/s beside lists without a pause, p99`, unit: 'ms', budget: { atMost: 50 } },
    allP50: { what: `${n}: a registry edited that all use, until a node has stored it, p50`, unit: 'ms' },
    allLast: { what: `${n}: the same, until the last has stored it`, unit: 'ms' },
    allCost: { what: `${n}: the same, for each node`, unit: 'CPU-ms' },
    reconnected: {
      what: `${n}: start of the controller to all agents connected`,
      unit: 's',
      budget: { atMost: 6 },
    },
  };
  return Object.fromEntries(Object.entries(rows).map(([key, row]) => [`${key}@${size}`, row]));
}

interface Size {
  context: Context;
  stack: Stack;
  simulation: Simulation;
  /** id of the registry that all nodes use */
  registry: number;
  /** nodes */
  size: number;
}

async function measure({ context, stack, simulation, registry, size }: Size) {
  const { log } = context;
  const figures: Record<string, number> = {};
  const notes: string[] = [];

  const connect = async () => createNodeLoad(await simulation.call('credentials', {}), stack.url);

  log(`${size} nodes: provisioning`);
  const earlier = await simulation.call('state', {});
  const before = earlier.nodes;
  const keys = await issueKeys(stack, before, size);
  const provisioned = await simulation.call('provision', { url: stack.url, keys, concurrency: 64 });
  for (const [text, count] of provisioned.failures) throw new Error(`${count} x provisioning: ${text}`);
  figures.provisioning = keys.length / provisioned.seconds;

  log(`${size} nodes: applications`);
  const wrote = await stack.watchWrites();
  const used = watchUsage(stack.pids());
  const began = performance.now();
  await closedLoop(size - before, 16, async (i) => {
    await stack.kube.request('POST', pathOf('applications'), application(before + i, registry));
  });
  await allReady(stack, size);
  figures.running = (performance.now() - began) / 1_000;
  await stack.quiet(300_000);
  figures.cost = used().cpuMs.total / (size - before);
  notes.push(`${size} nodes: written for an application: ${describeRequests(await wrote(), size - before)}`);
  const { starts, running } = await simulation.call('state', {});
  if (running !== size * MICROSERVICES) throw new Error(`${running} containers run`);
  figures.starts = (starts - earlier.starts) / (running - earlier.running);

  const restSeconds = by(context, { short: 10, usual: 60, long: 305 });
  log(`${size} nodes: at rest for ${restSeconds} s`);
  const wroteAtRest = await stack.watchWrites();
  const usedAtRest = watchUsage(stack.pids());
  await sleep(restSeconds * 1_000);
  const rest = usedAtRest();
  const restWrites = await wroteAtRest();
  const atRest = rest.cpuMs.total / rest.seconds;
  figures.restController = (rest.cpuMs.controller ?? 0) / rest.seconds / 10;
  figures.restRest = (rest.cpuMs.total - (rest.cpuMs.controller ?? 0)) / rest.seconds / 10;
  if (restSeconds >= 300) figures.writes = (restWrites.total / size) * (300 / rest.seconds);
  notes.push(`${size} nodes: written in ${restSeconds} s at rest: ${describeRequests(restWrites, 1)}`);

  /** CPU-ms for each of `count`, without the usage at rest */
  const costOf = async (count: number, work: () => Promise<unknown>) => {
    const usage = watchUsage(stack.pids());
    await work();
    const { cpuMs, seconds } = usage();
    return (cpuMs.total - atRest * seconds) / count;
  };

  log(`${size} nodes: polls and heartbeats`);
  const seconds = by(context, { short: 2, usual: 10, long: 30 });
  await using speech = await connect();
  // Warm-up: the first requests are slower.
  await speech.send('poll', 500, 3);
  await speech.send('report', 200, 5);
  const rates = RATES.filter((rate) => rate / size <= 16);
  const polls = rates.reduce((sum, rate) => sum + rate * seconds, 0);
  figures.poll = await costOf(polls, async () => {
    for (const rate of rates)
      figures[`p99.${rate}`] = percentile((await speech.send('poll', rate, seconds)).latencies, 0.99);
  });
  // Nodes whose last contact in the status is five minutes old are written meanwhile, as before and after.
  const background = async () => {
    const usage = watchUsage(stack.pids());
    await sleep(seconds * 1_000);
    const { cpuMs, seconds: passed } = usage();
    return cpuMs.total / passed;
  };
  const undisturbed = await background();
  const wroteMeanwhile = await stack.watchWrites();
  const reporting = watchUsage(stack.pids());
  await speech.send('report', 200, seconds);
  const reported = reporting();
  notes.push(
    `${size} nodes: written while they told that nothing changed: ${describeRequests(await wroteMeanwhile(), 1)}`,
  );
  const goesOn = ((undisturbed + (await background())) / 2) * reported.seconds;
  figures.heartbeat = (reported.cpuMs.total - goesOn) / (200 * seconds);

  log(`${size} nodes: edits`);
  const edits = by(context, { short: 10, usual: 100, long: 300 });
  figures.reconcile = await costOf(edits, async () => {
    await closedLoop(edits, 4, async (i) => {
      const patch = [
        { op: 'replace', path: '/spec/microservices/0/container/env/0/value', value: `edit-${Date.now()}` },
      ];
      await stack.kube.request('PATCH', pathOf('applications', nameOf(i % size)), patch, 'application/json-patch+json');
    });
    await allReady(stack, size);
    await stack.quiet(120_000);
  });

  log(`${size} nodes: lists`);
  figures.listNodes = await listed(context, stack, '/node-list');
  figures.listApplications = await listed(context, stack, '/application');
  const stop = new AbortController();
  const lists = listUntil(stack, stop.signal);
  await using later = await connect();
  const beside = await later.send('poll', Math.min(300, size * 10), seconds);
  stop.abort();
  await lists;
  figures.p99Beside = percentile(beside.latencies, 0.99);

  log(`${size} nodes: a change that concerns all`);
  const text = `edit-${Date.now()}@plant.example`;
  let answeredAt = 0;
  let stored: number[] = [];
  figures.allCost = await costOf(size, async () => {
    await stack.rest.call('PATCH', `/registries/${registry}`, { email: text });
    answeredAt = performance.timeOrigin + performance.now();
    stored = await waitFor(
      async () => {
        const times = (await simulation.call('stored', { document: 'registries', text })).filter(
          (at): at is number => typeof at === 'number',
        );
        return times.length === size ? times : undefined;
      },
      { what: 'all nodes to have the change', timeoutMs: 120_000, intervalMs: 50 },
    );
    await stack.quiet(120_000);
  });
  const times = stored.map((at) => Math.max(0, at - answeredAt));
  figures.allP50 = percentile(times, 0.5);
  figures.allLast = percentile(times, 1);

  log(`${size} nodes: the controller is killed and starts again`);
  const { beganAt } = await stack.restartController();
  await waitFor(async () => (await stack.metric('skerry_agent_long_polls')) >= size, {
    what: 'all agents to hold a poll',
    timeoutMs: 180_000,
    intervalMs: 50,
  });
  figures.reconnected = (performance.now() - beganAt) / 1_000;
  await stack.quiet(300_000);
  const after = await simulation.call('state', {});
  // Each edit replaces one container; no other container may have been started.
  if (after.running !== running || after.starts !== starts + edits)
    throw new Error(`${after.starts - starts} containers were started for ${edits} edits, ${after.running} run`);
  return { figures, notes };
}

async function issueKeys({ rest }: Stack, from: number, to: number): Promise<string[]> {
  const keys: string[] = [];
  const load = await closedLoop(to - from, 16, async (i) => {
    const { uuid } = await rest.call<{ uuid: string }>('POST', '/node', { name: nameOf(from + i), archId: 1 });
    keys[i] = (await rest.call<{ key: string }>('GET', `/node/${uuid}/provisioning-key`)).key;
  });
  for (const [text, count] of load.failures) throw new Error(`${count} x ${text}`);
  return keys;
}

/** Returns its id. */
async function makeRegistry({ rest }: Stack): Promise<number> {
  const body = { url: 'registry.plant.example', isPublic: false, username: 'plant', password: 'of the plant' };
  return (await rest.call<{ id: number }>('POST', '/registries', body)).id;
}

async function allReady({ kube, metric }: Stack, count: number): Promise<void> {
  // The controller's own metric is cheap, but does not include an edit that it has not seen yet.
  const counted = () => metric('skerry_applications', ({ ready }) => ready === 'True');
  await waitFor(async () => (await counted()) === count, {
    what: `the controller to count ${count} applications that are ready`,
    timeoutMs: 900_000,
    intervalMs: 100,
  });
  const seen = async () => {
    const { all, ready } = await countReady(kube);
    return all === count && ready === count;
  };
  await waitFor(seen, {
    what: `${count} applications to be ready`,
    timeoutMs: 900_000,
    intervalMs: 1_000,
  });
}

async function listed(context: Context, stack: Stack, path: string): Promise<number> {
  await timeList(stack, path);
  const times: number[] = [];
  for (let i = 0; i < by(context, { short: 3, usual: 20, long: 20 }); i++) times.push(await timeList(stack, path));
  return percentile(times, 0.5);
}

async function listUntil(stack: Stack, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) for (const path of ['/node-list', '/application']) await timeList(stack, path);
}

async function clear({ kube, rest }: Stack): Promise<void> {
  const { items: applications } = await kube.request<List>('GET', pathOf('applications'));
  await closedLoop(applications.length, 16, async (i) => {
    await kube.request('DELETE', pathOf('applications', applications[i]?.metadata.name));
  });
  const { items } = await kube.request<List>('GET', pathOf('edgenodes'));
  await closedLoop(items.length, 16, async (i) => {
    await rest.call('DELETE', `/node/${items[i]?.status?.uuid}`);
  });
  const gone = async () => (await kube.request<List>('GET', pathOf('edgenodes'))).items.length === 0;
  await waitFor(gone, { what: 'all nodes to be gone', timeoutMs: 600_000, intervalMs: 500 });
}

interface List {
  items: { metadata: { name: string }; status?: { uuid?: string } }[];
}

const nameOf = (i: number) => `plant-${i}`;

/** Six microservices on one node, from a registry that all nodes use. */
function application(i: number, registry: number) {
  return {
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: { name: nameOf(i) },
    spec: {
      microservices: Array.from({ length: MICROSERVICES }, (_, part) => ({
        name: `part-${part}`,
        agent: { name: nameOf(i) },
        images: { amd64: `plant/part-${part}:1.0`, registry },
        container: {
          ports: [{ internal: 8080, external: 20_000 + part }],
          env: [
            { key: 'VALUE', value: 'first' },
            { key: 'MODE', value: 'fast' },
          ],
        },
        config: { rate: 5, part },
      })),
    },
  };
}

/** Samples the memory of the processes once a second; their pids may change when the controller restarts. */
function watchMemory(stack: Stack) {
  const most: Record<string, number> = {};
  const now = (prefix: string) =>
    Object.fromEntries(
      Object.entries(stack.pids()).map(([name, pid]) => [`${prefix}.${name}`, memoryOf(pid).rss / 2 ** 20]),
    );
  const timer = setInterval(() => {
    try {
      for (const [key, value] of Object.entries(now('loaded'))) most[key] = Math.max(most[key] ?? 0, value);
    } catch {
      // One of the processes is just being restarted.
    }
  }, 1_000);
  return {
    named: now,
    stop() {
      clearInterval(timer);
      return most;
    },
  };
}
