import { cpus } from 'node:os';
import type { Http, Rest } from './http.ts';
import { closedLoop } from './load.ts';
import { provisionTestAgent, type TestAgent } from './test-agent.ts';

/** Nodes of test agents, each with an application of five microservices. It only grows. */
export interface Fleet extends AsyncDisposable {
  readonly agents: readonly TestAgent[];
  /** names of the applications; all microservices of the one with index i are on the node with index i */
  readonly applications: readonly string[];
  /** Adds nodes until there are `count`, and returns how long each step took for those that were added. */
  grow(count: number): Promise<Growth>;
  /** Adds applications until there are `count`, by default one after another; returns the latency of each in ms. */
  deploy(count: number, options?: { concurrency?: number }): Promise<number[]>;
  /** Makes the last `count` agents silent until the result is called: then all return at once. */
  silence(count: number): Promise<() => void>;
}

interface Growth {
  nodes: number;
  created: Step;
  keyed: Step;
  provisioned: Step;
}

/** A step that was carried out for all nodes. */
interface Step {
  seconds: number;
  /** average number of busy cores of the machine meanwhile, including other processes */
  busy: number;
}

export interface FleetOptions {
  rest: Rest;
  http: Http;
  pollHttp: Http;
}

const CONCURRENCY = 16;
export const MICROSERVICES = 5;

export function createFleet({ rest, http, pollHttp }: FleetOptions): Fleet {
  const agents: TestAgent[] = [];
  const applications: string[] = [];
  /** by index of the agent: stops its loop, and resolves when it has ended */
  const lives: (() => Promise<void>)[] = [];
  const begin = (i: number) => {
    const stop = new AbortController();
    const ended = (agents[i] as TestAgent).live(stop.signal);
    lives[i] = () => {
      stop.abort();
      return ended;
    };
  };

  return {
    agents,
    applications,
    async grow(count) {
      const first = agents.length;
      const names = Array.from({ length: Math.max(0, count - first) }, (_, i) => nodeName(first + i));
      const uuids: string[] = [];
      const keys: string[] = [];
      const added: TestAgent[] = [];
      const created = await all(names, async (name, i) => {
        uuids[i] = (await rest.call<{ uuid: string }>('POST', '/node', { name, archId: 1 })).uuid;
      });
      const keyed = await all(names, async (_, i) => {
        keys[i] = (await rest.call<{ key: string }>('GET', `/node/${uuids[i]}/provisioning-key`)).key;
      });
      const provisioned = await all(names, async (name, i) => {
        added[i] = await provisionTestAgent({ name, key: keys[i] as string, http, pollHttp });
      });
      agents.push(...added);
      for (const i of added.keys()) begin(first + i);
      return { nodes: names.length, created, keyed, provisioned };
    },
    async deploy(count, { concurrency = 1 } = {}) {
      const first = applications.length;
      const names = Array.from({ length: Math.max(0, count - first) }, (_, i) => `line-${first + i}`);
      const load = await closedLoop(names.length, concurrency, async (i) => {
        const name = names[i] as string;
        await rest.call('POST', '/application', applicationBody(name, (agents[first + i] as TestAgent).uuid, 'first'));
      });
      for (const [text, failed] of load.failures) throw new Error(`${failed} x ${text}`);
      applications.push(...names);
      return load.latencies;
    },
    async silence(count) {
      const first = agents.length - count;
      await Promise.all(lives.slice(first).map((end) => end()));
      return () => {
        for (let i = first; i < agents.length; i++) begin(i);
      };
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(lives.map((end) => end()));
    },
  };
}

const nodeName = (i: number) => `gateway-${i}`;

/** An application of five microservices on one node, all with the same value in their environment, as REST takes it. */
export function applicationBody(name: string, nodeUuid: string, value: string): object {
  return {
    name,
    microservices: Array.from({ length: MICROSERVICES }, (_, i) => ({
      name: `part-${i}`,
      nodeUuid,
      images: [1, 2].map((archId) => ({ containerImage: `registry.example/plant/part-${i}:1.0`, archId })),
      ports: [{ internal: 8080, external: 20_000 + i }],
      env: [
        { key: 'VALUE', value },
        { key: 'MODE', value: 'fast' },
      ],
      config: JSON.stringify({ rate: 5, part: i }),
    })),
  };
}

/** Carries out a step for all nodes, several at a time. */
async function all<T>(items: readonly T[], work: (item: T, i: number) => Promise<void>): Promise<Step> {
  const busyBefore = busyMs();
  const load = await closedLoop(items.length, CONCURRENCY, (i) => work(items[i] as T, i));
  for (const [text, count] of load.failures) throw new Error(`${count} x ${text}`);
  return { seconds: load.seconds, busy: (busyMs() - busyBefore) / 1_000 / load.seconds };
}

/** The total busy time of the cores of this machine, ms. */
function busyMs(): number {
  return cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
}
