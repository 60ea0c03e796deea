import { type Benchmark, by } from '../benchmark.ts';
import { applicationBody, MICROSERVICES } from '../fleet.ts';
import { spread } from '../percentile.ts';
import { pathOf, type Stack } from '../stack.ts';
import type { Entry, TestAgent } from '../test-agent.ts';

/** The time from the response to a write until an agent with a pending long poll has the change, and whether it has all of it. */
export const change: Benchmark = {
  name: 'change',
  about: 'a change answered, until the agent is told',
  rows: {
    kubectlP50: { what: 'change answered by the API server to agent told, p50', unit: 'ms' },
    kubectlP99: {
      what: 'change answered by the API server to agent told, p99',
      unit: 'ms',
      budget: { atMost: 1_000 },
      baseline: 'up to 20 s',
    },
    restP50: { what: 'change answered by REST to agent told, p50', unit: 'ms' },
    restP99: {
      what: 'change answered by REST to agent told, p99',
      unit: 'ms',
      budget: { atMost: 1_000 },
      baseline: 'up to 20 s',
    },
    halves: { what: 'changes of 5 microservices of which an agent saw a part', unit: '', budget: { exactly: 0 } },
  },
  async run(context) {
    const stack = await context.stack();
    await stack.settled(NODES);
    const count = by(context, { short: 20, usual: 200, long: 1_000 });
    const seen = { halves: 0, reads: 0 };
    const kubectl = await measure(stack, count, 'kubectl', seen);
    const rest = await measure(stack, count, 'rest', seen);
    return {
      figures: {
        kubectlP50: kubectl.p50,
        kubectlP99: kubectl.p99,
        restP50: rest.p50,
        restP99: rest.p99,
        halves: seen.halves,
      },
      notes: [
        `${count} changes through each door, one after the other, each to all 5 microservices of a node; 0 where the agent knew before the answer arrived`,
        `${seen.reads} reads of a node's microservices, one of them while the change was being written, were looked at for halves`,
      ],
    };
  },
};

const NODES = 200;
const TIMEOUT_MS = 20_000;

async function measure(stack: Stack, count: number, door: 'kubectl' | 'rest', seen: { halves: number; reads: number }) {
  const { agents, applications } = stack.fleet;
  const times: number[] = [];
  const look = (entries: readonly Entry[]) => {
    seen.reads++;
    const values = new Set(entries.map(seenIn));
    if (entries.length !== MICROSERVICES || values.size !== 1) seen.halves++;
    return values;
  };
  for (let i = 0; i < count; i++) {
    const at = i % applications.length;
    const agent = agents[at] as TestAgent;
    const name = applications[at] as string;
    const value = `${door}-${i}`;
    const noticed = until(agent, value, look);
    const [answered] = await Promise.all([write(stack, door, name, agent, value), agent.read().then(look)]);
    times.push(Math.max(0, (await noticed) - answered));
  }
  return spread(times);
}

/** performance.now() when a poll returned the value. */
async function until(agent: TestAgent, value: string, look: (entries: readonly Entry[]) => Set<unknown>) {
  const timeout = new Promise<never>((_, reject) => {
    setTimeout(() => reject(new Error(`${agent.name} was not told within ${TIMEOUT_MS} ms`)), TIMEOUT_MS).unref();
  });
  timeout.catch(() => {});
  for (;;) {
    const { at, microservices } = await Promise.race([agent.nextNotice(), timeout]);
    if (look(microservices).has(value)) return at;
  }
}

/** performance.now() when the response to the change arrived. */
async function write(stack: Stack, door: 'kubectl' | 'rest', name: string, agent: TestAgent, value: string) {
  if (door === 'rest') {
    await stack.rest.call('PUT', `/application/${name}`, applicationBody(name, agent.uuid, value));
  } else {
    const patch = Array.from({ length: MICROSERVICES }, (_, i) => ({
      op: 'replace',
      path: `/spec/microservices/${i}/container/env/0/value`,
      value,
    }));
    await stack.kube.request('PATCH', pathOf('applications', name), patch, 'application/json-patch+json');
  }
  return performance.now();
}

function seenIn(entry: Entry): unknown {
  return 'hold' in entry ? entry.reason : entry.env.find(({ key }) => key === 'VALUE')?.value;
}
