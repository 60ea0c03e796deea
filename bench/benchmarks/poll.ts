import { type Benchmark, by } from '../benchmark.ts';
import { measureFloor } from '../floor.ts';
import { assertAllAnswered, closedLoop, openLoop, type Send } from '../load.ts';
import { spread } from '../percentile.ts';
import { watchUsage } from '../processes.ts';
import type { Stack } from '../stack.ts';

/** The cost of a poll when nothing is due: the most frequent request of all. */
export const poll: Benchmark = {
  name: 'poll',
  about: 'polls with full token verification, nothing due',
  rows: {
    cpu: {
      what: 'agent poll with full token verification',
      unit: 'CPU-ms',
      budget: { atMost: 0.4 },
      baseline: '26-30',
    },
    cpuController: { what: 'of it, the controller', unit: 'CPU-ms' },
    floor: { what: 'a bare Node server that verifies one signature and answers', unit: 'CPU-ms' },
    rate: { what: 'polls, as fast as 8 connections get answers', unit: '/s', baseline: '60 at most' },
    p99Closed: { what: 'p99 of these', unit: 'ms' },
    p99: { what: 'polls at 1,500/s, p99', unit: 'ms', budget: { atMost: 50 } },
  },
  async run(context) {
    const stack = await context.stack();
    await stack.settled(NODES);
    const count = by(context, { short: 1_000, usual: 3_000, long: 20_000 });
    await closedLoop(by(context, { short: 1_000, usual: 3_000, long: 3_000 }), CONCURRENCY, sender(stack, 3_000));

    const send = sender(stack, count);
    const used = watchUsage(stack.pids());
    const closed = await context.profiled('poll', () => closedLoop(count, CONCURRENCY, send));
    const usage = used();
    assertAllAnswered(closed);
    const floor = await measureFloor(count, CONCURRENCY);

    const seconds = by(context, { short: 3, usual: 10, long: 30 });
    const dueSend = sender(stack, RATE * seconds);
    const own = process.cpuUsage();
    const open = await openLoop(RATE, seconds, dueSend);
    const { user, system } = process.cpuUsage(own);
    assertAllAnswered(open);
    return {
      figures: {
        cpu: usage.cpuMs.total / count,
        cpuController: (usage.cpuMs.controller ?? 0) / count,
        floor,
        rate: count / closed.seconds,
        p99Closed: spread(closed.latencies).p99,
        p99: spread(open.latencies).p99,
      },
      notes: [
        `${count} polls of ${stack.fleet.agents.length} nodes; CPU of controller, API server and etcd, what they use at rest included`,
        `the process that polls has the same cores and takes ${((user + system) / 1_000 / RATE / seconds).toFixed(2)} CPU-ms for a poll; latency counts from when a poll was due`,
      ],
    };
  },
};

const NODES = 200;
const CONCURRENCY = 8;
const RATE = 1_500;

/** Polls of all nodes in turn, with tokens that were signed beforehand. */
export function sender({ fleet: { agents } }: Stack, count: number): Send {
  const each = Math.ceil(count / agents.length);
  const tokens = agents.map((agent) => agent.tokens(each));
  return async (i) => {
    const at = i % agents.length;
    const { status, text } = (await agents[at]?.poll(tokens[at]?.[Math.floor(i / agents.length)])) ?? {};
    if (status !== 200) throw new Error(`a poll was answered ${status} ${text}`);
  };
}
