import { setTimeout as sleep } from 'node:timers/promises';
import { KubeConfig } from '@kubernetes/client-node';
import { waitFor } from '../../hack/wait.ts';
import { API_VERSION, DEFAULT_NAMESPACE, FIELD_MANAGERS } from '../../src/api/names.ts';
import type { Kind } from '../../src/kinds/definition.ts';
import {
  apiVersionOf,
  createClient,
  type KubeClient,
  type KubeObject,
  type Resource,
  writeStatus,
} from '../../src/kube/mod.ts';
import { KINDS, type Kinds } from '../../src/subjects/kinds.ts';
import { makeDraft } from '../../testing/example.ts';
import { EXAMPLES } from '../../testing/examples.ts';
import { type Benchmark, by, type Context, type Row } from '../benchmark.ts';
import { costOf, rateOf } from '../cost.ts';
import { percentile } from '../percentile.ts';
import { cpuMsOf } from '../processes.ts';
import { sumOf } from '../prometheus.ts';
import { describeRequests, haveStatuses, pathOf, type Stack } from '../stack.ts';

const EVERY_KIND = Object.values(KINDS as Kinds);
/**
 * The most that a write of a status may cost, against the yardstick: a merge patch of the same status of a kind without a schema. The
 * yardstick does not follow the product, so that figures of versions that write in other ways compare.
 */
const MOST = 2.4;

/** What the API server does for a write of a status: its schema, its rules, its managed fields. */
export const status: Benchmark = {
  name: 'status',
  about: 'what a write of a status costs the API server, by kind',
  rows: {
    cpu: { what: 'API server: a status of an application of 5 written', unit: 'CPU-ms' },
    free: {
      what: 'API server: a merge patch of the same status of a kind without a schema, the yardstick',
      unit: 'CPU-ms',
    },
    allocated: { what: 'API server: allocated for a status of an application of 5', unit: 'KiB' },
    allocatedFree: { what: 'API server: allocated for the yardstick', unit: 'KiB' },
    freeAlike: { what: 'API server: the same status of that kind, written as the product writes', unit: 'CPU-ms' },
    ...Object.fromEntries(EVERY_KIND.map((kind) => [`ratio@${kind.key}`, ratioOf(kind)])),
    back: { what: 'API server: a node of 5 that returns after it was silent, until it is written', unit: 'CPU-ms' },
    backWrites: { what: 'objects written for it', unit: '' },
  },
  async run(context) {
    const stack = await context.stack();
    await stack.settled(by(context, NODES));
    const back = await returned(context, stack);
    await createExamples(stack);
    // What the product wrote is the first status; while it is down, nobody else writes.
    let costs: Costs[] = [];
    await stack.restartController(async () => {
      costs = await measure(context, stack);
    });
    const application = costs.find(({ kind }) => kind === KINDS.applications) as Costs;
    return {
      figures: {
        cpu: application.own.cpu,
        free: application.free.cpu,
        freeAlike: application.freeAlike.cpu,
        allocated: application.own.allocated,
        allocatedFree: application.free.allocated,
        ...Object.fromEntries(costs.map(({ kind, own, free }) => [`ratio@${kind.key}`, own.cpu / free.cpu])),
        back: back.cpu,
        backWrites: back.writes,
      },
      notes: [
        `${by(context, ROUNDS)} times ${BLOCK} writes of each, the median, in turns with the yardstick; without the usage of the API server at rest`,
        ...costs.map(
          ({ kind, own, free }) =>
            `${kind.definition.kind}, CPU-ms and KiB allocated: ${describe(own)}; the yardstick: ${describe(free)}`,
        ),
        `written for a node that returns: ${back.what}`,
      ],
    };
  },
};

const describe = ({ cpu, allocated }: Cost) => `${cpu.toFixed(1)} and ${allocated.toFixed(0)}`;

function ratioOf({ definition }: Kind): Row {
  return {
    what: `API server: a status of kind ${definition.kind}, against the yardstick`,
    unit: '',
    budget: { atMost: MOST },
  };
}

const NODES = { short: 20, usual: 100, long: 1_000 };
const ROUNDS = { short: 1, usual: 3, long: 9 };
/** Enough that the API server collects the garbage of a block several times meanwhile: that is a third of its work. */
const BLOCK = 300;
const NAME = 'status-bench';

async function returned({ log }: Context, stack: Stack) {
  const count = stack.fleet.agents.length;
  const atRest = await rateOf(stack);
  const written = async (wrote: Awaited<ReturnType<Stack['watchWrites']>>) => {
    const what = `${count} nodes and their applications to be written`;
    await waitFor(async () => haveStatuses(await wrote(), count), { what, timeoutMs: 600_000, intervalMs: 1_000 });
    await stack.quiet(600_000);
  };
  log(`${count} nodes fall silent`);
  const silent = await stack.watchWrites();
  const comeBack = await stack.fleet.silence(count);
  await written(silent);
  log(`${count} nodes return`);
  const wrote = await stack.watchWrites();
  const cost = await costOf(stack, atRest, count, async () => {
    comeBack();
    await written(wrote);
  });
  const writes = await wrote();
  return { cpu: cost.apiServer, writes: writes.total / count, what: describeRequests(writes, count) };
}

/** Creates one object of each kind that the fleet has none of, and waits until the controller has written their statuses. */
async function createExamples(stack: Stack): Promise<void> {
  for (const { key, definition } of EVERY_KIND.filter((kind) => !nameInFleet(stack, kind))) {
    const example = EXAMPLES[key as keyof typeof EXAMPLES];
    const spec = example.spec(makeDraft(), example.names[0]);
    const object = { apiVersion: API_VERSION, kind: definition.kind, metadata: { name: NAME }, spec };
    await stack.kube.request('POST', pathOf(definition.plural), object);
    const judged = async () => {
      const { status } = await stack.kube.request<KubeObject>('GET', pathOf(definition.plural, NAME));
      return (status as Status | undefined)?.conditions !== undefined;
    };
    await waitFor(judged, { what: `the status of ${definition.plural}`, timeoutMs: 60_000 });
  }
  await stack.quiet();
}

const nameInFleet = ({ fleet }: Stack, { key }: Kind) =>
  ({ nodes: fleet.agents[0]?.name, applications: fleet.applications[0] })[key];

/** For one write: CPU-ms of the API server, and KiB that it allocated, which another load of the machine does not change. */
interface Cost {
  cpu: number;
  allocated: number;
}

interface Costs {
  kind: Kind;
  /** as the product writes */
  own: Cost;
  /** the yardstick */
  free: Cost;
  /** as the product writes, without a schema */
  freeAlike: Cost;
}

type Write = (object: KubeObject, status: Status) => Promise<KubeObject>;

async function measure(context: Context, stack: Stack): Promise<Costs[]> {
  await using client = createClient({ config: () => configOf(stack.kubeconfig) });
  await createFree(stack);
  const meter = await createMeter(stack);
  const costs: Costs[] = [];
  for (const kind of EVERY_KIND) {
    const resource = kind.resource as Resource;
    const ref = { namespace: DEFAULT_NAMESPACE, name: nameInFleet(stack, kind) ?? NAME };
    const object = await client.get(resource, ref);
    const name = kind.key.toLowerCase();
    const writers = [
      writer(meter, object, (last, status) => written(client, resource, last, status)),
      writer(meter, await copyOf(client, object, name), (last, status) => patched(client, last, status)),
      writer(meter, await copyOf(client, object, `${name}-alike`), (last, status) =>
        written(client, FREE, last, status),
      ),
    ] as const;
    // The first round fills caches and is not counted.
    for (const one of writers) await one.turn();
    for (let round = 0; round < by(context, ROUNDS); round++) for (const one of writers) await one.measure();
    const [own, free, freeAlike] = [await writers[0].cost(), await writers[1].cost(), await writers[2].cost()];
    costs.push({ kind, own, free, freeAlike });
    context.log(`  ${kind.definition.kind}: ${(own.cpu / free.cpu).toFixed(2)}`);
  }
  return costs;
}

/** Writes statuses of one object in blocks, and measures them. */
function writer(meter: Meter, object: KubeObject, write: Write) {
  let last = object;
  const times: number[] = [];
  async function turn() {
    for (let i = 0; i < BLOCK; i++) last = await write(last, turned(last.status as Status, i));
  }
  return {
    turn,
    async measure() {
      times.push((await meter.cpu(turn)) / BLOCK);
    },
    async cost(): Promise<Cost> {
      return { cpu: percentile(times, 0.5), allocated: (await meter.allocated(turn)) / BLOCK };
    },
  };
}

interface Meter {
  /** CPU-ms of the API server while `work` runs, without the usage at rest */
  cpu(work: () => Promise<void>): Promise<number>;
  /** KiB that the API server allocates meanwhile */
  allocated(work: () => Promise<void>): Promise<number>;
}

async function createMeter(stack: Stack): Promise<Meter> {
  const pid = stack.pids()['API server'];
  const page = async () => sumOf(await stack.kube.request<string>('GET', '/metrics'), 'go_memstats_alloc_bytes_total');
  const used = async (work: () => Promise<unknown>) => {
    const before = { cpu: cpuMsOf(pid), at: performance.now() };
    await work();
    return { cpu: cpuMsOf(pid) - before.cpu, ms: performance.now() - before.at };
  };
  const grown = async (work: () => Promise<unknown>) => {
    const before = await page();
    await work();
    return ((await page()) - before) / 1024;
  };
  const atRest = await used(() => sleep(10_000));
  // The page is large, and made for this.
  const ofPage = await grown(async () => {});
  return {
    async cpu(work) {
      // The garbage of the block before does not count for this one.
      await stack.kube.request('GET', '/debug/pprof/heap?gc=1&debug=1');
      const { cpu, ms } = await used(work);
      return cpu - (atRest.cpu / atRest.ms) * ms;
    },
    allocated: async (work) => (await grown(work)) - ofPage,
  };
}

const AS_CONTROLLER = { fieldManager: FIELD_MANAGERS.controller };

/** Writes a status as the product does; returns the object after it. */
async function written(client: KubeClient, resource: Resource, object: KubeObject, status: Status) {
  return (await writeStatus(client, resource, object, status, AS_CONTROLLER)).object;
}

/** Writes what differs in a status, as a merge patch. */
function patched(client: KubeClient, object: KubeObject, { conditions, microservices }: Status) {
  const { name, namespace, uid, resourceVersion } = object.metadata;
  const body = { metadata: { uid, resourceVersion }, status: { conditions, microservices } };
  const ref = { name, ...(namespace && { namespace }) };
  return client.patch(FREE, ref, { type: 'merge', body }, { ...AS_CONTROLLER, subresource: 'status' });
}

interface Status {
  conditions?: { type: string }[];
  microservices?: object[];
}

/** A status in which another condition holds and each microservice is in another state. */
function turned(status: Status, turn: number): Status {
  const isReady = turn % 2 === 0;
  const lastTransitionTime = new Date(turn * 1_000).toISOString();
  const ready = { status: isReady ? 'True' : 'False', lastTransitionTime, message: `look ${turn}` };
  return {
    ...status,
    ...(status.conditions && {
      conditions: status.conditions.map((condition) =>
        condition.type === 'Ready' ? { ...condition, ...ready } : condition,
      ),
    }),
    ...(status.microservices && {
      microservices: status.microservices.map((one) => ({ ...one, state: isReady ? 'RUNNING' : 'STARTING' })),
    }),
  };
}

const FREE: Resource = {
  group: 'bench.skerry.test',
  version: 'v1',
  plural: 'things',
  kind: 'Thing',
  namespaced: true,
};

async function createFree({ kube }: Stack): Promise<void> {
  const { group, version, plural, kind } = FREE;
  await kube.request('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural, kind },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
        },
      ],
    },
  });
  const path = `/apis/${group}/${version}/${plural}`;
  await waitFor(() => kube.request('GET', path).then(() => true), { what: 'the kind without a schema to be served' });
}

/** An object of the kind without a schema that has the labels, spec and status of another. */
async function copyOf(client: KubeClient, { metadata, spec, status }: KubeObject, name: string): Promise<KubeObject> {
  const { namespace, labels, annotations } = metadata;
  const copy = {
    apiVersion: apiVersionOf(FREE),
    kind: FREE.kind,
    metadata: { name, namespace, labels, annotations },
    spec,
  };
  return written(client, FREE, await client.create(FREE, copy as KubeObject, AS_CONTROLLER), status as Status);
}

function configOf(file: string): KubeConfig {
  const config = new KubeConfig();
  config.loadFromFile(file);
  return config;
}
