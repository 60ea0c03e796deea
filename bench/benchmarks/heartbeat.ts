import { setTimeout as sleep } from 'node:timers/promises';
import { type Benchmark, by } from '../benchmark.ts';
import { assertAllAnswered, closedLoop, type Send } from '../load.ts';
import { spread } from '../percentile.ts';
import { watchUsage } from '../processes.ts';
import { describeRequests, type Stack } from '../stack.ts';

/** The cost of a report in which nothing has changed. */
export const heartbeat: Benchmark = {
  name: 'heartbeat',
  about: 'status reports with 5 microservices, nothing changed',
  rows: {
    cpu: {
      what: 'heartbeat with 5 microservices',
      unit: 'CPU-ms',
      budget: { atMost: 0.6 },
      baseline: '38-45',
    },
    cpuController: { what: 'of it, the controller', unit: 'CPU-ms' },
    rate: { what: 'heartbeats, as fast as 8 connections get answers', unit: '/s' },
    p99: { what: 'p99 of these', unit: 'ms' },
    written: {
      what: 'written to disk by etcd for a heartbeat, beyond what it writes at rest',
      unit: 'bytes',
      // Less than a page for hundreds of heartbeats is background noise.
      budget: { atMost: 10 },
      baseline: '316 KiB',
    },
    writes: { what: 'objects written for 1,000 heartbeats', unit: '', budget: { atMost: 1 } },
  },
  async run(context) {
    const stack = await context.stack();
    await stack.settled(NODES);
    const count = by(context, { short: 1_000, usual: 3_000, long: 20_000 });
    await closedLoop(by(context, { short: 1_000, usual: 3_000, long: 3_000 }), CONCURRENCY, sender(stack, 3_000));
    await stack.settled(NODES);

    const rested = watchUsage(stack.pids());
    await sleep(by(context, { short: 2_000, usual: 10_000, long: 20_000 }));
    const rest = rested();

    const send = sender(stack, count);
    const wrote = await stack.watchWrites();
    const used = watchUsage(stack.pids());
    const load = await context.profiled('heartbeat', () => closedLoop(count, CONCURRENCY, send));
    // The controller may write statuses shortly after the reports.
    await sleep(1_000);
    const usage = used();
    const writes = await wrote();
    assertAllAnswered(load);

    const atRest = (rest.writtenBytes.etcd ?? 0) / rest.seconds;
    const written = (usage.writtenBytes.etcd ?? 0) - atRest * usage.seconds;
    return {
      figures: {
        cpu: usage.cpuMs.total / count,
        cpuController: (usage.cpuMs.controller ?? 0) / count,
        rate: count / load.seconds,
        p99: spread(load.latencies).p99,
        written: stack.onDisk ? Math.max(0, written) / count : Number.NaN,
        writes: (writes.total * 1_000) / count,
      },
      notes: [
        `${count} reports of ${stack.fleet.agents.length} nodes, each with the whole list and moved figures; CPU of controller, API server and etcd, what they use at rest included`,
        `etcd writes ${Math.round(atRest)} bytes/s at rest (leases); objects written meanwhile: ${describeRequests(writes, 1)}`,
      ],
    };
  },
};

const NODES = 200;
const CONCURRENCY = 8;

function sender({ fleet: { agents } }: Stack, count: number): Send {
  const each = Math.ceil(count / agents.length);
  const tokens = agents.map((agent) => agent.tokens(each));
  return async (i) => {
    const at = i % agents.length;
    const { status, text } = (await agents[at]?.report(tokens[at]?.[Math.floor(i / agents.length)])) ?? {};
    if (status !== 204) throw new Error(`a report was answered ${status} ${text}`);
  };
}
