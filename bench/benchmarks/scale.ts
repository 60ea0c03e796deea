import { randomUUID } from 'node:crypto';
import { formatDuration } from '../../hack/progress.ts';
import { API_VERSION } from '../../src/api/names.ts';
import { type Benchmark, Skip } from '../benchmark.ts';
import { liveHeap } from '../inspector.ts';
import { assertAllAnswered, closedLoop } from '../load.ts';
import { memoryOf } from '../processes.ts';
import { pathOf, type Stack, timeList } from '../stack.ts';

/** A controller that starts in a full cluster: the time until it is ready, and the memory of all processes then. */
export const scale: Benchmark = {
  name: 'scale',
  about: 'start with 10,000 nodes and 10,000 applications of 6 (only with --long)',
  rows: {
    ready: {
      what: 'start with 10,000 nodes and 10,000 applications of 6, to ready',
      unit: 's',
      budget: { atMost: 30 },
    },
    controller: { what: 'controller then: resident memory', unit: 'MiB', budget: { atMost: 1024 } },
    heap: { what: 'controller then: JavaScript objects after a full collection', unit: 'MiB' },
    apiServer: { what: 'API server then: resident memory', unit: 'MiB', budget: { atMost: 2560 } },
    etcd: { what: 'etcd then: resident memory', unit: 'MiB', budget: { atMost: 1024 } },
    nodes: { what: 'list 10,000 nodes', unit: 'ms' },
    applications: { what: 'list 10,000 applications of 6', unit: 'ms' },
  },
  async run(context) {
    if (context.length !== 'long') throw new Skip('it takes half an hour; --long has it');
    const stack = await context.stack();
    context.log(`Creating ${COUNT} nodes and applications without a controller`);
    await stack.restartController(() => fill(stack));
    const began = performance.now();
    context.log('Waiting until the controller has written what there is to say of them');
    await stack.quiet(60 * 60_000);
    const settled = formatDuration(performance.now() - began);
    context.log(`It took ${settled}; starting the controller once more`);
    const { readyMs } = await stack.restartController();
    await stack.quiet(60 * 60_000);
    const nodes = await timeList(stack, '/node-list');
    const applications = await timeList(stack, '/application');
    const pids = stack.pids();
    const rss = (pid: number) => memoryOf(pid).rss / 2 ** 20;
    const controller = rss(pids.controller);
    return {
      figures: {
        ready: readyMs / 1_000,
        controller,
        heap: (await liveHeap(stack.controller())) / 2 ** 20,
        apiServer: rss(pids['API server']),
        etcd: rss(pids.etcd),
        nodes,
        applications,
      },
      notes: [
        `${COUNT} of each beside the ${stack.fleet.agents.length} nodes of the fleet, made without a controller; no agent speaks for them`,
        `the controller needed ${settled} to write the status of all of them the first time; the second start found it written`,
      ],
    };
  },
};

const COUNT = 10_000;

async function fill({ kube }: Stack): Promise<void> {
  const load = await closedLoop(2 * COUNT, 16, async (i) => {
    const n = Math.floor(i / 2);
    if (i % 2 === 0) await kube.request('POST', pathOf('edgenodes'), node(n));
    else await kube.request('POST', pathOf('applications'), application(n));
  });
  assertAllAnswered(load);
}

const node = (n: number) => ({
  apiVersion: API_VERSION,
  kind: 'EdgeNode',
  metadata: { name: `far-${n}` },
  spec: { uuid: randomUUID(), archId: 1, description: 'A machine far away' },
});

const application = (n: number) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name: `far-${n}` },
  spec: {
    microservices: Array.from({ length: 6 }, (_, i) => ({
      name: `part-${i}`,
      agent: { name: `far-${n}` },
      images: { amd64: `registry.example/plant/part-${i}:1.0`, arm64: `registry.example/plant/part-${i}:1.0` },
      container: {
        ports: [{ internal: 8080, external: 20_000 + i }],
        env: [
          { key: 'VALUE', value: 'first' },
          { key: 'MODE', value: 'fast' },
        ],
      },
      config: { rate: 5, part: i },
    })),
  },
});
