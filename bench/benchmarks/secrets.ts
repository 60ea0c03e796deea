import { waitFor } from '../../hack/wait.ts';
import { API_VERSION } from '../../src/api/names.ts';
import { type Benchmark, by, type Context, type Row } from '../benchmark.ts';
import { type Cost, costOf, rateOf } from '../cost.ts';
import { assertAllAnswered, closedLoop } from '../load.ts';
import { percentile } from '../percentile.ts';
import { createStack, describeRequests, pathOf, type Requests, type Stack } from '../stack.ts';
import type { TestAgent } from '../test-agent.ts';

const NODES = { short: 100, usual: 1_000, long: 1_000 };
const ROUNDS = { short: 1, usual: 3, long: 10 };
/** Rounds before the measured ones: a controller that has just started compiles what it runs until about the sixth. */
const WARM_UP_ROUNDS = { short: 1, usual: 6, long: 6 };

/** How an entry gets the content of a Secret. */
interface Way {
  secret: string;
  what: string;
  /** the value that an agent has */
  valueIn(agent: TestAgent): string | undefined;
  /** Content of a directory is replaced in the running container; a variable replaces the container. */
  replaces: boolean;
  budget: { cpu: number; writes: number };
}

const WAYS: Readonly<Record<string, Way>> = {
  mounted: {
    secret: 'files',
    what: 'a Secret that {n} nodes mount',
    valueIn({ volumeMounts }) {
      const content = volumeMounts?.find(({ name }) => name === 'files')?.data.value;
      return content && Buffer.from(content, 'base64').toString();
    },
    replaces: false,
    budget: { cpu: 3, writes: 0.01 },
  },
  variable: {
    secret: 'settings',
    what: 'a Secret in a variable on {n} nodes',
    valueIn({ microservices }) {
      const [entry] = microservices ?? [];
      return entry && !('hold' in entry) ? entry.env.find(({ key }) => key === 'VALUE')?.value : undefined;
    },
    replaces: true,
    // Two statuses of the application and one of the node, and the events of Ready.
    budget: { cpu: 100, writes: 5 },
  },
};

/** One Secret that concerns every node changes. */
export const secrets: Benchmark = {
  name: 'secrets',
  about: 'a change of one Secret that concerns 1,000 nodes, until all are told',
  rows: Object.fromEntries(Object.entries(WAYS).flatMap(([key, way]) => Object.entries(rowsOf(key, way)))),
  async run(context) {
    await using stack = await createStack(context.log);
    const nodes = by(context, NODES);
    await fill(context, stack, nodes);
    const atRest = await rateOf(stack);
    const figures: Record<string, number> = {};
    const notes = [
      `${nodes} nodes of test agents, each with an application of one microservice that uses both Secrets; ${by(context, ROUNDS)} changes over REST of each`,
      `${by(context, WARM_UP_ROUNDS)} changes before them are not measured`,
      'told is when its long poll returned; it has then fetched the content, and reports what it runs',
      'CPU is that of controller, API server and etcd until all is written; what they use at rest is taken off',
    ];
    for (const [key, way] of Object.entries(WAYS)) {
      context.log(`${way.secret}: ${by(context, ROUNDS)} changes`);
      const { reads, writes, ...measured } = await measure({ context, stack, key, way, atRest });
      for (const [figure, value] of Object.entries(measured)) figures[`${key}.${figure}`] = value;
      const each = nodes * by(context, ROUNDS);
      figures[`${key}.writes`] = writes.total / each;
      figures[`${key}.reads`] = reads.total / each;
      notes.push(
        `${key}: written for each node: ${describeRequests(writes, each)}; read: ${describeRequests(reads, each)}`,
      );
    }
    return { figures, notes };
  },
};

function rowsOf(key: string, { what: text, budget }: Way): Record<string, Row> {
  const what = text.replace('{n}', NODES.usual.toLocaleString('en-US'));
  const rows: Record<string, Row> = {
    p50: { what: `${what} changes: from the request until a node was told, p50`, unit: 'ms' },
    last: { what: `${what} changes: from the request until the last was told`, unit: 'ms', budget: { atMost: 5_000 } },
    cpu: { what: `${what} changes: for each node`, unit: 'CPU-ms', budget: { atMost: budget.cpu } },
    cpuController: { what: `${what} changes: of it, the controller`, unit: 'CPU-ms' },
    writes: { what: `${what} changes: objects written for each node`, unit: '', budget: { atMost: budget.writes } },
    reads: { what: `${what} changes: reads of the API for each node`, unit: '', budget: { atMost: 0.01 } },
  };
  return Object.fromEntries(Object.entries(rows).map(([figure, row]) => [`${key}.${figure}`, row]));
}

async function fill({ log }: Context, stack: Stack, nodes: number): Promise<void> {
  const { fleet, kube, rest } = stack;
  for (const name of ['files', 'settings'])
    await rest.call('POST', '/secrets', { name, type: 'Opaque', data: { value: 'first' } });
  await rest.call('POST', '/volumeMounts', { name: 'files', secretName: 'files' });
  log(`Provisioning ${nodes} nodes`);
  await fleet.grow(nodes);
  log('Creating an application on each');
  const load = await closedLoop(nodes, 16, async (i) => {
    await kube.request('POST', pathOf('applications'), application(i));
  });
  assertAllAnswered(load);
  await allReady(stack);
  await stack.quiet(120_000);
}

const application = (i: number) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name: `line-${i}` },
  spec: {
    microservices: [
      {
        name: 'reader',
        agent: { name: `gateway-${i}` },
        images: { amd64: 'registry.example/plant/reader:1.0' },
        container: {
          env: [{ key: 'VALUE', valueFromSecret: 'settings/value' }],
          volumes: [
            { hostDestination: 'files', containerDestination: '/files', accessMode: 'ro', type: 'volumeMount' },
          ],
        },
      },
    ],
  },
});

/** Ready by the controller's own count, which does not have a change that it has not seen yet. */
async function allReady({ fleet, metric }: Stack): Promise<void> {
  const count = fleet.agents.length;
  await waitFor(async () => (await metric('skerry_applications', ({ ready }) => ready === 'True')) === count, {
    what: `${count} applications to be ready`,
    timeoutMs: 600_000,
    intervalMs: 200,
  });
}

interface Measurement {
  context: Context;
  stack: Stack;
  key: string;
  way: Way;
  atRest: Cost;
}

interface Measured {
  p50: number;
  last: number;
  cpu: number;
  cpuController: number;
  writes: Requests;
  reads: Requests;
}

async function measure({ context, stack, key, way, atRest }: Measurement): Promise<Measured> {
  const { agents } = stack.fleet;
  const rounds = by(context, ROUNDS);
  const times: number[] = [];
  const lasts: number[] = [];
  await warmUp(context, stack, key, way);
  const wrote = await stack.watchWrites();
  const read = await stack.watchReads();
  const { total, controller } = await costOf(stack, atRest, rounds * agents.length, () =>
    context.profiled(
      key,
      async () => {
        for (let round = 0; round < rounds; round++) {
          const told = await change(stack, way, `${key}-${round}`);
          times.push(...told);
          lasts.push(Math.max(...told));
          if (way.replaces) await allReady(stack);
          await stack.quiet(300_000);
        }
      },
      stack,
    ),
  );
  return {
    p50: percentile(times, 0.5),
    last: percentile(lasts, 0.5),
    cpu: total,
    cpuController: controller,
    writes: await wrote(),
    reads: await read(),
  };
}

/** Changes the Secret several times, and waits for the events of these changes only at the end. */
async function warmUp(context: Context, stack: Stack, key: string, way: Way): Promise<void> {
  for (let round = 0; round < by(context, WARM_UP_ROUNDS); round++) {
    await change(stack, way, `${key}-warm-up-${round}`);
    if (way.replaces) await allReady(stack);
  }
  await stack.quiet(900_000);
}

/** Changes the Secret; ms until each agent has it, from the request on: the first agents have it before the response. */
async function change({ fleet: { agents }, rest }: Stack, { secret, valueIn }: Way, value: string): Promise<number[]> {
  const told = new Map<TestAgent, number>();
  for (const agent of agents)
    agent.onTold = (at) => {
      if (valueIn(agent) === value && !told.has(agent)) told.set(agent, at);
    };
  const began = performance.now();
  await rest.call('PATCH', `/secrets/${secret}`, { data: { value } });
  await waitFor(async () => told.size === agents.length, {
    what: `all ${agents.length} nodes to have the change`,
    timeoutMs: 300_000,
    intervalMs: 10,
  });
  for (const agent of agents) agent.onTold = undefined;
  return [...told.values()].map((at) => at - began);
}
