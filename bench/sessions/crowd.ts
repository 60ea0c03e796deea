import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sender } from '../benchmarks/poll.ts';
import { type Child, startChild } from '../child.ts';
import { rateOf } from '../cost.ts';
import { liveHeap } from '../inspector.ts';
import { assertAllAnswered, openLoop, type Send } from '../load.ts';
import { spread } from '../percentile.ts';
import { memoryOf, watchUsage } from '../processes.ts';
import type { Stack } from '../stack.ts';
import type { Calls, Planned } from './calls.ts';

/** Many sessions at once, with their users and agents in a process of their own. */

/** A line of a log, bytes. */
const LINE = 120;
const POLLS_PER_SECOND = 1_500;
const PER_TARGET = 5;
/** Until the beginnings and ends of sessions are recorded. */
const CALM_MS = 5_000;

const startEnds = () => startChild<Calls>(join(import.meta.dirname, 'host.ts'), 'both ends of many sessions');

/** `count` sessions, spread over all microservices of the fleet. */
function plan({ fleet }: Stack, count: number): Planned[] {
  const targets = fleet.agents.flatMap((agent) => (agent.microservices ?? []).map(({ uuid }) => ({ agent, uuid })));
  const each = Math.ceil(count / targets.length);
  if (each > PER_TARGET)
    throw new Error(`${count} sessions need ${count / PER_TARGET} microservices, there are ${targets.length}`);
  return targets
    .flatMap(({ agent, uuid }) => agent.tokens(each).map((token) => ({ microservice: uuid, token })))
    .slice(0, count);
}

const open = (stack: Stack, ends: Child<Calls>, kind: 'exec' | 'log', count: number) =>
  ends.call('open', { url: stack.url, token: stack.token(), kind, sessions: plan(stack, count) });

/** Memory and CPU of the controller for each of `count` log sessions that are open at once. */
export async function measureLogs(stack: Stack, count: number, seconds: number) {
  using ends = startEnds();
  const { controller } = stack.pids();
  const heap = async () => (await liveHeap(stack.controller())) / 1024;
  const rss = () => memoryOf(controller).rss / 1024;
  const before = { heap: await heap(), rss: rss() };
  await open(stack, ends, 'log', count);
  await sleep(CALM_MS);
  const held = { heap: (await heap()) - before.heap, rss: rss() - before.rss };
  const atRest = await rateOf(stack, () => sleep(5_000));
  const used = watchUsage(stack.pids());
  const { written, read } = await ends.call('write', { perSecond: 2_000 / count, seconds, bytes: LINE });
  const { cpuMs, seconds: passed } = used();
  await ends.call('close', {});
  await sleep(CALM_MS);
  return {
    heap: held.heap / count,
    rss: held.rss / count,
    cpu: ((cpuMs.controller ?? 0) - atRest.controller * passed) / written,
    written,
    read,
  };
}

/** p99 of polls without sessions, and beside `count` terminals whose programs write all the time. */
export async function measurePolls(stack: Stack, count: number, seconds: number, perSecond: number) {
  const polled = POLLS_PER_SECOND * seconds;
  const polls = async (send: Send) => {
    const load = await openLoop(POLLS_PER_SECOND, seconds, send);
    assertAllAnswered(load);
    return spread(load.latencies).p99;
  };
  // The writes at the first report of a node are no part of it.
  await polls(sender(stack, polled));
  const alone = await polls(sender(stack, polled));
  using ends = startEnds();
  await open(stack, ends, 'exec', count);
  await sleep(CALM_MS);
  const send = sender(stack, polled);
  const [busy, { written, read }] = await Promise.all([
    polls(send),
    ends.call('write', { perSecond, seconds, bytes: LINE }),
  ]);
  await ends.call('close', {});
  await sleep(CALM_MS);
  return { alone, busy, written, read };
}
