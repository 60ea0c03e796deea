import { setTimeout as sleep } from 'node:timers/promises';
import { waitFor } from '../../hack/wait.ts';
import { API_VERSION } from '../../src/api/names.ts';
import { type Benchmark, by, type Context, type Row } from '../benchmark.ts';
import { costOf, rateOf } from '../cost.ts';
import { applicationBody, MICROSERVICES } from '../fleet.ts';
import { closedLoop, openLoop } from '../load.ts';
import { percentile } from '../percentile.ts';
import { createStack, describeRequests, haveStatuses, pathOf, type Stack, timeList } from '../stack.ts';
import type { TestAgent } from '../test-agent.ts';

const SIZES = [100, 1_000] as const;
/** Number of edits, which are measured one by one, so that none waits for another. */
const TIMES = { short: 4, usual: 15, long: 50 };
const PAUSE_MS = 300;
/** Number of nodes with an agent; the measured edits are on these nodes. */
const AGENTS = { short: 20, usual: 100, long: 1_000 };
/** The share of the fleet that continues to poll while the others are silent. */
const STAY = 0.2;
const POLLS_PER_SECOND = 100;

/** The same edits among few and among many applications, and the cost of many nodes that fall silent at once. */
export const growth: Benchmark = {
  name: 'growth',
  about: 'create, edit and list at 100 and 1,000 applications of 5; a fleet falls silent and returns',
  rows: {
    ...Object.fromEntries(SIZES.flatMap((size) => Object.entries(rowsOf(size)))),
    silent: { what: 'a node of 5 that falls silent with 4 of 5 others, until it is written', unit: 'CPU-ms' },
    silentP99: {
      what: `polls of the others at ${POLLS_PER_SECOND}/s while these fall silent, p99`,
      unit: 'ms',
      budget: { atMost: 50 },
    },
    silentSeconds: { what: 'until all that fell silent are written', unit: 's' },
    back: { what: 'the same nodes return at once: a node, until it is written', unit: 'CPU-ms' },
    backP99: {
      what: `polls of the others at ${POLLS_PER_SECOND}/s while they return, p99`,
      unit: 'ms',
      budget: { atMost: 50 },
    },
    backSeconds: { what: 'until all that returned are written', unit: 's' },
  },
  async run(context) {
    await using stack = await createStack(context.log);
    const figures: Record<string, number> = {};
    const notes = [
      'CPU is that of controller, API server and etcd; what they use at rest is taken off',
      `created and edited one by one, ${PAUSE_MS} ms apart, ${by(context, TIMES)} of each; the CPU is until the node runs it and all is written`,
    ];
    for (const size of by<readonly number[]>(context, { short: [100], usual: SIZES, long: SIZES })) {
      const measured = await edits(context, stack, size);
      for (const [key, value] of Object.entries(measured)) figures[`${key}@${size}`] = value;
    }
    const fall = await silence(context, stack);
    return { figures: { ...figures, ...fall.figures }, notes: [...notes, ...fall.notes] };
  },
};

function rowsOf(size: number): Record<string, Row> {
  const among = `among ${size.toLocaleString('en-US')} applications`;
  const rows: Record<string, Row> = {
    create: {
      what: `${among}: create one of 5 microservices, until answered, p50`,
      unit: 'ms',
      budget: { atMost: 40 },
    },
    createCpu: { what: `${among}: all that it costs until its node runs it and all is written`, unit: 'CPU-ms' },
    createController: { what: `${among}: of what a create costs, the controller`, unit: 'CPU-ms' },
    edit: { what: `${among}: edit one, until answered, p50`, unit: 'ms' },
    editCpu: { what: `${among}: all that the edit costs until its node runs it and all is written`, unit: 'CPU-ms' },
    editController: { what: `${among}: of what an edit costs, the controller`, unit: 'CPU-ms' },
    list: { what: `${among}: list them, p50`, unit: 'ms', budget: { atMost: (size * 3) / 10 } },
  };
  return Object.fromEntries(Object.entries(rows).map(([key, row]) => [`${key}@${size}`, row]));
}

async function edits(context: Context, stack: Stack, size: number): Promise<Record<string, number>> {
  const { log } = context;
  const { fleet, rest } = stack;
  const times = by(context, TIMES);
  log(`${size} applications`);
  await fleet.grow(by(context, AGENTS));
  // Applications that are not edited are on nodes without an agent: they only exist.
  await fill(stack, size - 2 * times - fleet.applications.length);
  await fleet.deploy(fleet.applications.length + times, { concurrency: 4 });
  await stack.quiet(900_000);
  const atRest = await rateOf(stack);

  const created: number[] = [];
  const create = await costOf(stack, atRest, times, () =>
    context.profiled(
      `create among ${size}`,
      async () => {
        for (let i = 0; i < times; i++) {
          created.push(...(await fleet.deploy(fleet.applications.length + 1)));
          await sleep(PAUSE_MS);
        }
        await stack.quiet(600_000);
      },
      stack,
    ),
  );
  const edited: number[] = [];
  const edit = await costOf(stack, atRest, times, async () => {
    for (let i = 0; i < times; i++) {
      const name = fleet.applications[i] as string;
      const body = applicationBody(name, (fleet.agents[i] as TestAgent).uuid, `edited-among-${size}-${i}`);
      const began = performance.now();
      await rest.call('PUT', `/application/${name}`, body);
      edited.push(performance.now() - began);
      await sleep(PAUSE_MS);
    }
    await stack.quiet(600_000);
  });
  const listed: number[] = [];
  for (let i = 0; i < times; i++) listed.push(await timeList(stack, '/application'));
  return {
    create: percentile(created, 0.5),
    createCpu: create.total,
    createController: create.controller,
    edit: percentile(edited, 0.5),
    editCpu: edit.total,
    editController: edit.controller,
    list: percentile(listed, 0.5),
  };
}

/** Creates applications of five microservices at the API server until there are `count`, each on a node of its own. */
async function fill({ kube }: Stack, count: number): Promise<void> {
  const { items } = await kube.request<{ items: { metadata: { name: string } }[] }>('GET', pathOf('applications'));
  const before = items.filter(({ metadata: { name } }) => name.startsWith(FILL)).length;
  const load = await closedLoop(Math.max(0, count - before), 4, async (i) => {
    const name = `${FILL}${before + i}`;
    await kube.request('POST', pathOf('edgenodes'), {
      apiVersion: API_VERSION,
      kind: 'EdgeNode',
      metadata: { name },
      spec: { archId: 1 },
    });
    const microservices = Array.from({ length: MICROSERVICES }, (_, part) => ({
      name: `part-${part}`,
      agent: { name },
      images: { amd64: `registry.example/plant/part-${part}:1.0` },
      container: { ports: [{ internal: 8080, external: 20_000 + part }], env: [{ key: 'MODE', value: 'fast' }] },
      config: { rate: 5, part },
    }));
    await kube.request('POST', pathOf('applications'), {
      apiVersion: API_VERSION,
      kind: 'Application',
      metadata: { name },
      spec: { microservices },
    });
  });
  for (const [text, failed] of load.failures) throw new Error(`${failed} x ${text}`);
}

const FILL = 'other-';

async function silence(context: Context, stack: Stack) {
  const { fleet } = stack;
  const stay = Math.round(fleet.agents.length * STAY);
  const count = fleet.agents.length - stay;
  // The application with index i is on the node with index i.
  await fleet.deploy(fleet.agents.length, { concurrency: 4 });
  await stack.quiet(900_000);
  const polls = pollsOf(fleet.agents.slice(0, stay));
  context.log(`${count} of ${fleet.agents.length} nodes fall silent`);
  const atRest = await rateOf(stack, () => polls.during(sleep(10_000)));

  /** Measures until the statuses of `count` nodes and applications were written, and nothing more is written. */
  const turned = async (work: () => Promise<unknown>) => {
    const wrote = await stack.watchWrites();
    const began = performance.now();
    let seconds = 0;
    let latencies: number[] = [];
    const cost = await costOf(stack, atRest, count, async () => {
      await work();
      latencies = await polls.during(
        waitFor(async () => haveStatuses(await wrote(), count), {
          what: `${count} nodes and their applications to be written`,
          timeoutMs: 600_000,
          intervalMs: 1_000,
        }).then(() => {
          seconds = (performance.now() - began) / 1_000;
        }),
      );
      await stack.quiet(600_000);
    });
    return { cost, seconds, p99: percentile(latencies, 0.99), writes: describeRequests(await wrote(), count) };
  };

  const comeBack = await fleet.silence(count);
  // Their last long polls still count as contact for a while; until then nothing happens.
  await sleep(20_000);
  const silent = await turned(async () => {});
  context.log(`${count} nodes return`);
  const back = await turned(async () => comeBack());
  return {
    figures: {
      silent: silent.cost.total,
      silentP99: silent.p99,
      silentSeconds: silent.seconds,
      back: back.cost.total,
      backP99: back.p99,
      backSeconds: back.seconds,
    },
    notes: [
      `${count} of ${fleet.agents.length} nodes with an agent fall silent at once, which shows some 90 s later; the others poll; applications of other nodes are there as well`,
      `written for each that fell silent: ${silent.writes}`,
      `written for each that returned: ${back.writes}`,
    ],
  };
}

/** Polls of agents in turn, at a fixed rate, until other work has ended. */
function pollsOf(agents: readonly TestAgent[]) {
  return {
    async during(work: Promise<unknown>): Promise<number[]> {
      let going = true;
      const end = () => {
        going = false;
      };
      work.then(end, end);
      const latencies: number[] = [];
      for (let turn = 0; going; turn++) {
        const load = await openLoop(POLLS_PER_SECOND, 1, async (i) => {
          const agent = agents[(turn * POLLS_PER_SECOND + i) % agents.length] as TestAgent;
          const { status } = await agent.poll();
          if (status !== 200) throw new Error(`a poll was answered ${status}`);
        });
        latencies.push(...load.latencies);
      }
      await work;
      return latencies;
    },
  };
}
