import { type Benchmark, by, type Context } from '../benchmark.ts';
import { assertAllAnswered, openLoop } from '../load.ts';
import { percentile, spread } from '../percentile.ts';
import type { Stack } from '../stack.ts';
import { sender } from './poll.ts';

/** How long the lists of REST take, and how they affect agents that poll meanwhile. */
export const listing: Benchmark = {
  name: 'listing',
  about: 'lists of nodes and applications over REST',
  rows: {
    nodes200: { what: 'list 200 nodes, p50', unit: 'ms' },
    applications200: { what: 'list 200 applications of 5, p50', unit: 'ms' },
    perNode: { what: 'for each node', unit: 'ms', budget: { atMost: 0.1 }, baseline: '3.1' },
    perApplication: { what: 'for each application', unit: 'ms', budget: { atMost: 0.3 }, baseline: '21' },
    pollsBeside: { what: 'polls at 300/s beside lists without a pause, p99', unit: 'ms', budget: { atMost: 50 } },
    nodes1000: { what: 'list 1,000 nodes, p50', unit: 'ms', budget: { atMost: 100 }, baseline: '3,100' },
    applications1000: {
      what: 'list 1,000 applications of 5, p50',
      unit: 'ms',
      budget: { atMost: 300 },
      baseline: '21,000',
    },
    pollsBeside1000: {
      what: 'polls at 300/s beside these lists without a pause, p99',
      unit: 'ms',
      budget: { atMost: 50 },
    },
  },
  async run(context) {
    const stack = await context.stack();
    await stack.settled(200);
    const few = await measure(context, stack);
    const figures: Record<string, number> = {
      nodes200: few.nodes,
      applications200: few.applications,
      perNode: few.nodes / stack.fleet.agents.length,
      perApplication: few.applications / stack.fleet.applications.length,
      pollsBeside: few.pollsBeside,
    };
    if (context.length === 'long') {
      await stack.settled(1_000);
      const many = await measure(context, stack);
      figures.nodes1000 = many.nodes;
      figures.applications1000 = many.applications;
      figures.pollsBeside1000 = many.pollsBeside;
    }
    return { figures, notes: [`until the last byte has arrived; each list ${by(context, TIMES)} times`] };
  },
};

const TIMES = { short: 5, usual: 20, long: 20 };
const PATHS = { nodes: '/node-list', applications: '/application' };

async function measure(context: Context, stack: Stack) {
  const token = stack.token();
  const list = async (path: string) => {
    const began = performance.now();
    const headers = { authorization: `Bearer ${token}` };
    const { status, text } = await stack.http.send({ method: 'GET', path: `/api/v3${path}`, headers });
    if (status !== 200) throw new Error(`GET ${path}: ${status} ${text}`);
    return performance.now() - began;
  };
  const p50Of = async (path: string) => {
    await list(path);
    const times: number[] = [];
    for (let i = 0; i < by(context, TIMES); i++) times.push(await list(path));
    return percentile(times, 0.5);
  };
  const nodes = await context.profiled('list of nodes', () => p50Of(PATHS.nodes));
  const applications = await context.profiled('list of applications', () => p50Of(PATHS.applications));

  let listing = true;
  const lists = (async () => {
    while (listing) for (const path of Object.values(PATHS)) await list(path);
  })();
  const seconds = by(context, { short: 2, usual: 5, long: 10 });
  const polls = await openLoop(RATE, seconds, sender(stack, RATE * seconds));
  listing = false;
  await lists;
  assertAllAnswered(polls);
  return { nodes, applications, pollsBeside: spread(polls.latencies).p99 };
}

const RATE = 300;
