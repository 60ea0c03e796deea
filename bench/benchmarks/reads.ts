import { waitFor } from '../../hack/wait.ts';
import { API_VERSION } from '../../src/api/names.ts';
import { type Benchmark, by, type Context, type Row } from '../benchmark.ts';
import { costOf, rateOf } from '../cost.ts';
import { liveHeap, longestBlock } from '../inspector.ts';
import { assertAllAnswered, closedLoop, openLoop } from '../load.ts';
import { percentile } from '../percentile.ts';
import { memoryOf } from '../processes.ts';
import { createStack, pathOf, type Stack, timeList } from '../stack.ts';
import { sender } from './poll.ts';

const APPLICATIONS = { short: 100, usual: 1_000, long: 1_000 };
/** applications of a node */
const SHARED = 5;
const MICROSERVICES = 10;
const ALL = APPLICATIONS.usual * MICROSERVICES;
/** Objects of a page of `kubectl get`. */
const PAGE = 500;
const POLLS_PER_SECOND = 300;
const nameOf = (i: number) => `line-${i}`;

interface Read {
  what: string;
  path: (i: number, uuids: readonly string[]) => string;
  /** microservices in a reply, which share its cost; all when absent */
  items?: number;
  times: Parameters<typeof by<number>>[1];
  budget: { p99: number; cpu: number };
}

const FEW = { short: 3, usual: 20, long: 100 };
const MANY = { short: 50, usual: 500, long: 2_000 };
const READS: Readonly<Record<string, Read>> = {
  applications: {
    what: `list ${APPLICATIONS.usual.toLocaleString('en-US')} applications of ${MICROSERVICES}`,
    path: () => '/application',
    times: FEW,
    budget: { p99: ALL * 0.06, cpu: 0.04 },
  },
  microservices: {
    what: `list ${ALL.toLocaleString('en-US')} microservices`,
    path: () => '/microservices',
    times: FEW,
    budget: { p99: ALL * 0.06, cpu: 0.04 },
  },
  ofApplication: {
    what: 'list the microservices of one application',
    path: (i, { length }) => `/microservices?application=${nameOf(i % (length / MICROSERVICES))}`,
    items: MICROSERVICES,
    times: MANY,
    budget: { p99: 50, cpu: 0.2 },
  },
  application: {
    what: `get one application of ${MICROSERVICES}`,
    path: (i, { length }) => `/application/${nameOf(i % (length / MICROSERVICES))}`,
    items: MICROSERVICES,
    times: MANY,
    budget: { p99: 50, cpu: 0.2 },
  },
  microservice: {
    what: 'get one microservice',
    path: (i, uuids) => `/microservices/${uuids[i % uuids.length]}`,
    items: 1,
    times: MANY,
    budget: { p99: 50, cpu: 2 },
  },
};

/** Lists and single reads of many microservices, what they cost, and whether others wait for them. */
export const reads: Benchmark = {
  name: 'reads',
  about: `lists and single reads over REST with ${APPLICATIONS.usual} applications of ${MICROSERVICES} microservices`,
  rows: {
    ...Object.fromEntries(Object.entries(READS).flatMap(([key, read]) => Object.entries(rowsOf(key, read)))),
    pages: { what: `read all applications at the API server, ${PAGE} a page as kubectl does, p50`, unit: 'ms' },
    pagesCpu: { what: 'the same, for each microservice', unit: 'CPU-ms' },
    pollsBeside: {
      what: `polls at ${POLLS_PER_SECOND}/s beside both lists without a pause, p99`,
      unit: 'ms',
      budget: { atMost: 50 },
    },
    blocked: {
      what: 'longest turn of the event loop of the controller during all of these reads',
      unit: 'ms',
      budget: { atMost: 50 },
    },
    heap: {
      what: 'controller: JavaScript objects for each microservice, its part of application and node included',
      unit: 'KiB',
      budget: { atMost: 16 },
    },
    memory: { what: 'controller: resident memory after these reads', unit: 'MiB', budget: { atMost: 1_024 } },
  },
  async run(context) {
    await using stack = await createStack(context.log);
    const empty = await liveHeap(stack.controller());
    await fill(context, stack);
    const heap = (await liveHeap(stack.controller())) - empty;

    const { microservices } = await stack.rest.call<{ microservices: { uuid: string }[] }>('GET', '/microservices');
    const count = by(context, APPLICATIONS) * MICROSERVICES;
    if (microservices.length !== count) throw new Error(`the list has ${microservices.length} microservices`);
    const uuids = microservices.map(({ uuid }) => uuid);
    const atRest = await rateOf(stack);
    const figures: Record<string, number> = { heap: heap / 1024 / count };
    figures.blocked = await longestBlock(stack.controller(), async () => {
      for (const [key, read] of Object.entries(READS))
        Object.assign(figures, await measure({ context, stack, key, read, uuids, atRest }));
    });

    const pages: number[] = [];
    const times = by(context, FEW);
    const ofPages = await costOf(stack, atRest, times * count, async () => {
      for (let i = 0; i < times; i++) pages.push(await timePages(stack));
    });
    figures.pages = percentile(pages, 0.5);
    figures.pagesCpu = ofPages.total;
    figures.pollsBeside = await pollsBeside(context, stack);
    figures.memory = memoryOf(stack.pids().controller).rss / 2 ** 20;
    return {
      figures,
      notes: [
        `${count / MICROSERVICES / SHARED} nodes, each with ${SHARED} of the applications, report all of them as running; one reader at a time, until the last byte has arrived`,
        `CPU is that of the controller, of pages that of the API server and etcd too; what they use at rest is taken off; lists ${times} times, single reads ${by(context, MANY)} times`,
      ],
    };
  },
};

function rowsOf(key: string, { what, items, budget }: Read): Record<string, Row> {
  return {
    [`${key}.p50`]: { what: `${what}, p50`, unit: 'ms' },
    [`${key}.p99`]: { what: `${what}, p99`, unit: 'ms', budget: { atMost: budget.p99 } },
    [`${key}.cpu`]: {
      what: items === 1 ? what : `${what}: for each microservice`,
      unit: 'CPU-ms',
      budget: { atMost: budget.cpu },
    },
  };
}

/** Nodes with test agents, and applications that all of these report as running. */
async function fill(context: Context, stack: Stack): Promise<void> {
  const { fleet, kube, metric } = stack;
  const count = by(context, APPLICATIONS);
  context.log(`Provisioning ${count / SHARED} nodes`);
  await fleet.grow(count / SHARED);
  context.log(`Creating ${count} applications`);
  const load = await closedLoop(count, 16, async (i) => {
    await kube.request('POST', pathOf('applications'), application(i));
  });
  assertAllAnswered(load);
  await waitFor(async () => (await metric('skerry_applications', ({ ready }) => ready === 'True')) === count, {
    what: `${count} applications to be ready`,
    timeoutMs: 600_000,
    intervalMs: 200,
  });
  await stack.quiet(120_000);
}

/** Applications that follow one another are on the same node. */
function application(i: number) {
  return {
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: { name: nameOf(i) },
    spec: {
      microservices: Array.from({ length: MICROSERVICES }, (_, part) => ({
        name: `part-${part}`,
        agent: { name: `gateway-${Math.floor(i / SHARED)}` },
        images: { amd64: `registry.example/plant/part-${part}:1.0`, arm64: `registry.example/plant/part-${part}:1.0` },
        container: {
          ports: [{ internal: 8080, external: 20_000 + (i % SHARED) * MICROSERVICES + part }],
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

interface Measurement {
  context: Context;
  stack: Stack;
  key: string;
  read: Read;
  uuids: readonly string[];
  atRest: Awaited<ReturnType<typeof rateOf>>;
}

async function measure({ context, stack, key, read, uuids, atRest }: Measurement): Promise<Record<string, number>> {
  const times = by(context, read.times);
  const latencies: number[] = [];
  await timeList(stack, read.path(0, uuids));
  const { controller } = await costOf(stack, atRest, times * (read.items ?? uuids.length), () =>
    context.profiled(
      key,
      async () => {
        for (let i = 0; i < times; i++) latencies.push(await timeList(stack, read.path(i, uuids)));
      },
      stack,
    ),
  );
  return {
    [`${key}.p50`]: percentile(latencies, 0.5),
    [`${key}.p99`]: percentile(latencies, 0.99),
    [`${key}.cpu`]: controller,
  };
}

/** ms until all pages of the applications have been read at the API server. */
async function timePages({ kube }: Stack): Promise<number> {
  const began = performance.now();
  let next = '';
  do {
    const path = `${pathOf('applications')}?limit=${PAGE}${next && `&continue=${next}`}`;
    next = (await kube.request<{ metadata: { continue?: string } }>('GET', path)).metadata.continue ?? '';
  } while (next);
  return performance.now() - began;
}

async function pollsBeside(context: Context, stack: Stack): Promise<number> {
  const seconds = by(context, { short: 2, usual: 5, long: 10 });
  // Before the lists begin: signing occupies the process that also reads them, and first polls wait for their connections.
  const send = sender(stack, POLLS_PER_SECOND * seconds);
  assertAllAnswered(await openLoop(POLLS_PER_SECOND, 2, sender(stack, POLLS_PER_SECOND * 2)));
  let listing = true;
  const lists = (async () => {
    while (listing) for (const key of ['applications', 'microservices']) await timeList(stack, pathIn(key));
  })();
  const polls = await openLoop(POLLS_PER_SECOND, seconds, send);
  listing = false;
  await lists;
  assertAllAnswered(polls);
  return percentile(polls.latencies, 0.99);
}

const pathIn = (key: string) => READS[key]?.path(0, []) ?? '';
