import { setTimeout as sleep } from 'node:timers/promises';
import { type Benchmark, by, type Context } from '../benchmark.ts';
import { spread } from '../percentile.ts';
import { measureLogs, measurePolls } from '../sessions/crowd.ts';
import { timePairing, timePairings } from '../sessions/pairing.ts';
import { measureSlow, startShell, timeEchoes, timeOutput } from '../sessions/terminal.ts';
import type { Stack } from '../stack.ts';

/** Exec and log sessions: how soon they begin, what passes through them, and what many of them cost. */
export const sessions: Benchmark = {
  name: 'sessions',
  about: 'terminals and logs: pairing, echo, throughput, many at once',
  rows: {
    pairP50: { what: 'a terminal opened to agent connected, p50', unit: 'ms' },
    pairP99: { what: 'a terminal opened to agent connected, p99', unit: 'ms', budget: { atMost: 1_000 } },
    pairManyP50: { what: 'the same beside 1,000 nodes, p50', unit: 'ms' },
    pairManyP99: { what: 'the same beside 1,000 nodes, p99', unit: 'ms', budget: { atMost: 1_000 } },
    pairFarP50: { what: 'the same with 600 ms round trip between agent and controller, p50', unit: 'ms' },
    pairFarP99: {
      what: 'the same with 600 ms round trip between agent and controller, p99',
      unit: 'ms',
      budget: { atMost: 1_800 },
    },
    echoP50: { what: 'a byte to `cat` in a container and back, p50', unit: 'ms' },
    echoP99: { what: 'a byte to `cat` in a container and back, p99', unit: 'ms' },
    echoDocker: { what: 'the same with `docker exec`, p50', unit: 'ms' },
    output: { what: 'output of `cat` in a container', unit: 'MiB/s' },
    outputDocker: { what: 'the same with `docker exec`', unit: 'MiB/s' },
    outputRatio: { what: 'of that, through a session', unit: '%', budget: { atLeast: 50 } },
    slowAgentController: {
      what: 'endless output over 1 Mbit/s from the agent: the controller grows by',
      unit: 'MiB',
      budget: { atMost: 16 },
    },
    slowAgentAgent: { what: 'the same: the agent grows by', unit: 'MiB', budget: { atMost: 16 } },
    slowUserController: {
      what: 'endless output over 1 Mbit/s to the user: the controller grows by',
      unit: 'MiB',
      budget: { atMost: 16 },
    },
    slowUserAgent: { what: 'the same: the agent grows by', unit: 'MiB', budget: { atMost: 16 } },
    logMemory: { what: 'a log session, of many: resident memory of the controller', unit: 'KiB' },
    logHeap: { what: 'of it, JavaScript objects after a full collection', unit: 'KiB' },
    logCpu: { what: 'a line of a log: the controller', unit: 'CPU-ms' },
    pollAlone: { what: 'polls at 1,500/s without a session, p99', unit: 'ms' },
    pollBusy: { what: 'polls at 1,500/s beside busy terminals, p99', unit: 'ms', budget: { atMost: 50 } },
  },
  async run(context) {
    const stack = await context.stack();
    const former = { ...process.env };
    Object.assign(process.env, SETTINGS);
    try {
      await stack.restartController();
      await stack.quiet();
      const near = await measureNear(context, stack);
      const crowds = await measureCrowds(context, stack);
      return {
        figures: { ...near.figures, ...crowds.figures },
        notes: [...near.notes, ...crowds.notes],
      };
    } finally {
      for (const name of Object.keys(SETTINGS)) {
        if (former[name] === undefined) delete process.env[name];
        else process.env[name] = former[name];
      }
      await stack.restartController();
    }
  },
};

/** One user opens all sockets, each from an address of its own, and one replica takes all of them. */
const SETTINGS = {
  TRUST_PROXY: 'true',
  WS_REPLICA_MAX_CONCURRENT_WS: '10000',
  SKERRY_SOCKETS_OF_USER: '10000',
  SKERRY_SESSIONS_OF_USER: '1000',
};
const FAR = { delayMs: 300, bytesPerSecond: 125_000_000 };
/** ms; five round trips */
const FAR_PAUSE = 3_000;
const SLOW = { delayMs: 20, bytesPerSecond: 125_000 };
const FEW = 20;
/** as in the benchmark of polls */
const SOME = 200;

/** One session at a time. */
async function measureNear(context: Context, stack: Stack) {
  const { log } = context;
  await using shell = await startShell(stack);
  const edge = await stack.edge();
  log('Echo and output of a container');
  await edge.restartAs('bundle');
  const { echo, output } = await edge.direct(async () => {
    await waitForAgent(stack, shell.uuid);
    const echo = await timeEchoes(stack, shell, by(context, { short: 50, usual: 1_000, long: 5_000 }));
    const mebibytes = by(context, { short: 64, usual: 1_024, long: 4_096 });
    return { echo, output: await timeOutput(stack, shell, mebibytes * 2 ** 20) };
  });
  await waitForAgent(stack, shell.uuid);
  const seconds = by(context, { short: 5, usual: 30, long: 600 });
  log('Endless output over 1 Mbit/s');
  const fromAgent = await measureSlow(stack, shell, 'agent', SLOW, seconds);
  await waitForAgent(stack, shell.uuid);
  const toUser = await measureSlow(stack, shell, 'user', SLOW, seconds);
  log('Pairing over a slow link');
  edge.traffic.change(FAR);
  await waitForAgent(stack, shell.uuid);
  const count = by(context, { short: 5, usual: 20, long: 200 });
  const far: number[] = [];
  for (let i = 0; i < count; i++) {
    // Until the agent has done with the former terminal, and waits in a long poll again.
    await sleep(FAR_PAUSE);
    far.push(await timePairing(stack, shell.uuid, i));
  }
  edge.traffic.change(undefined);
  await waitForAgent(stack, shell.uuid);
  return {
    figures: {
      pairFarP50: spread(far).p50,
      pairFarP99: spread(far).p99,
      echoP50: echo.ours.p50,
      echoP99: echo.ours.p99,
      echoDocker: echo.docker.p50,
      output: output.ours,
      outputDocker: output.docker,
      outputRatio: (output.ours / output.docker) * 100,
      slowAgentController: fromAgent.controller,
      slowAgentAgent: fromAgent.agent,
      slowUserController: toUser.controller,
      slowUserAgent: toUser.agent,
    },
    notes: [
      `real agent as it is installed, ${edge.engine.kind}; ${echo.ours.n} bytes one after the other; output of \`cat /dev/zero\` from its first byte on; \`docker exec\` is its client`,
      `endless output for ${seconds} s each: ${fromAgent.kibPerSecond.toFixed(0)} KiB/s came from the agent, ${toUser.kibPerSecond.toFixed(0)} KiB/s to the user; growth is that of resident memory at its highest`,
      `${count} terminals over the link of 600 ms, one after the other; a connection takes a round trip more there, as with TCP; a terminal takes one that stands`,
    ],
  };
}

/** Until a terminal can be opened: the replica has led long enough, and the agent has connected again. */
async function waitForAgent(stack: Stack, uuid: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await timePairing(stack, uuid, 2 ** 20 + attempt);
      return;
    } catch (error) {
      if (attempt === 10) throw error;
      await sleep(1_000);
    }
  }
}

/** Many nodes, and many sessions at once. */
async function measureCrowds(context: Context, stack: Stack) {
  const { log } = context;
  const pairs = by(context, { short: 20, usual: 300, long: 1_000 });
  await stack.settled(FEW);
  log('Pairing');
  const few = spread(await timePairings(stack, pairs));
  const some = by(context, { short: 40, usual: SOME, long: SOME });
  await stack.settled(some);
  const terminals = by(context, { short: 100, usual: 500, long: 500 });
  const seconds = by(context, { short: 3, usual: 20, long: 60 });
  log(`Polls beside ${terminals} terminals`);
  const polls = await measurePolls(stack, terminals, seconds, LINES_PER_SECOND);
  const logs = by(context, { short: 500, usual: 5_000, long: 5_000 });
  log(`${logs} logs at once`);
  const held = await measureLogs(stack, logs, seconds);
  const nodes = by(context, { short: 60, usual: 1_000, long: 1_000 });
  await stack.settled(nodes);
  log(`Pairing beside ${nodes} nodes`);
  const many = spread(await timePairings(stack, pairs));
  return {
    figures: {
      pairP50: few.p50,
      pairP99: few.p99,
      pairManyP50: many.p50,
      pairManyP99: many.p99,
      pollAlone: polls.alone,
      pollBusy: polls.busy,
      logMemory: held.rss,
      logHeap: held.heap,
      logCpu: held.cpu,
    },
    notes: [
      `${pairs} terminals one after the other, beside ${FEW} and beside ${nodes} nodes of test agents, which connect as ours does; the process that measures has the same cores`,
      `${terminals} terminals among ${some} nodes, whose programs write ${LINES_PER_SECOND} lines a second each, ${polls.read} of ${polls.written} lines arrived; their ends are in another process on the same cores`,
      `${logs} log sessions on one replica, with the socket of the user and that of the agent: ${held.read} of ${held.written} lines arrived, 2,000 a second`,
    ],
  };
}

const LINES_PER_SECOND = 4;
