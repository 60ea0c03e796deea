import { setTimeout as sleep } from 'node:timers/promises';
import { API_VERSION } from '../../src/api/names.ts';
import { type Benchmark, by, type Context } from '../benchmark.ts';
import type { Edge } from '../edge.ts';
import type { Fleet } from '../fleet.ts';
import { memoryOf, watchUsage } from '../processes.ts';
import { describeRequests, pathOf } from '../stack.ts';
import { untilReady } from './apply.ts';

/** The cost while nothing happens: of a real agent with its containers, and of the fleet's controller. */
export const idle: Benchmark = {
  name: 'idle',
  about: 'agent, controller and API server while nothing happens',
  rows: {
    privateDirty: {
      what: 'agent, idle with 6 microservices: private dirty memory',
      unit: 'MiB',
      budget: { atMost: 40 },
    },
    rss: {
      what: 'agent, idle with 6 microservices: resident memory',
      unit: 'MiB',
      budget: { atMost: 90 },
      baseline: '150-200',
    },
    cpu: { what: 'agent, idle with 6 microservices: CPU of one core', unit: '%', budget: { atMost: 0.5 } },
    uplink: {
      what: 'agent, idle with 6 microservices: uplink with a 60 s hold, TCP and IP headers included',
      unit: 'kbit/s',
      budget: { atMost: 0.5 },
    },
    uplinkHttp: { what: 'of it, HTTP', unit: 'kbit/s' },
    downlink: { what: 'downlink, HTTP', unit: 'kbit/s' },
    written: {
      what: 'agent, idle with 6 microservices: written to disk in a minute',
      unit: 'bytes',
      budget: { atMost: 0 },
    },
    privateDirtyPlain: { what: 'private dirty memory without the flags of Node that save memory', unit: 'MiB' },
    rssPlain: { what: 'resident memory without the flags of Node that save memory', unit: 'MiB' },
    privateDirtySources: { what: 'private dirty memory when run from its sources', unit: 'MiB' },
    rssSources: { what: 'resident memory when run from its sources', unit: 'MiB' },
    controllerCpu: { what: 'controller with 200 nodes at rest: CPU of one core', unit: '%' },
    apiServerCpu: { what: 'API server and etcd meanwhile: CPU of one core', unit: '%' },
    writes: { what: 'objects written for a node in 5 minutes at rest', unit: '', budget: { atMost: 1 } },
  },
  async run(context) {
    const stack = await context.stack();
    const edge = await stack.edge();
    await stack.kube.request('POST', pathOf('applications'), application(edge));
    await untilReady(stack, NAME);
    await edge.restartAs('bundle');
    await stack.settled(NODES);
    await wait(context, 'the agent to come to rest', 30);

    const seconds = by(context, { short: 20, usual: 60, long: 300 });
    await using _beats = heartbeats(stack.fleet);
    const wrote = await stack.watchWrites();
    const passed = edge.traffic.watch();
    const used = watchUsage({ ...stack.pids(), agent: edge.agentPid() });
    await wait(context, 'nothing to happen', seconds);
    const { cpuMs, writtenBytes, seconds: elapsed } = used();
    const { up, down, segmentsUp } = passed();
    const writes = await wrote();
    const bundle = memoryOf(edge.agentPid());
    const plain = await memoryAs(context, edge, 'plain');
    const sources = await memoryAs(context, edge, 'sources');
    await stack.kube.request('DELETE', pathOf('applications', NAME));

    const percent = (ms = 0) => ms / elapsed / 10;
    const kbits = (bytes: number) => (bytes * 8) / 1_000 / elapsed;
    const nodes = stack.fleet.agents.length + 1;
    return {
      figures: {
        privateDirty: mib(bundle.privateDirty),
        rss: mib(bundle.rss),
        cpu: percent(cpuMs.agent),
        uplink: segmentsUp === undefined ? Number.NaN : kbits(up + segmentsUp * HEADER_BYTES),
        uplinkHttp: kbits(up),
        downlink: kbits(down),
        written: ((writtenBytes.agent ?? 0) / elapsed) * 60,
        privateDirtyPlain: mib(plain.privateDirty),
        rssPlain: mib(plain.rss),
        privateDirtySources: mib(sources.privateDirty),
        rssSources: mib(sources.rss),
        controllerCpu: percent(cpuMs.controller),
        apiServerCpu: percent((cpuMs['API server'] ?? 0) + (cpuMs.etcd ?? 0)),
        // In a shorter time all nodes may be written, or none, since they are due at the same time.
        ...(seconds >= 300 && { writes: (writes.total / nodes) * (300 / elapsed) }),
      },
      notes: [
        `${seconds} s; the agent as one bundled file; ${nodes - 1} nodes hold polls and report every 60 s meanwhile`,
        `objects written in that time: ${describeRequests(writes, 1)}`,
      ],
    };
  },
};

const NODES = 200;
const NAME = 'idle';
/** Bytes of the IPv4 and TCP headers, with time stamps. */
const HEADER_BYTES = 52;

const mib = (bytes: number) => bytes / 2 ** 20;

async function wait({ log }: Context, what: string, seconds: number): Promise<void> {
  log(`Waiting ${seconds} s for ${what}`);
  await sleep(seconds * 1_000);
}

async function memoryAs(context: Context, edge: Edge, form: 'plain' | 'sources') {
  await edge.restartAs(form);
  await wait(context, 'the agent to come to rest', by(context, { short: 20, usual: 60, long: 120 }));
  return memoryOf(edge.agentPid());
}

/** Each node reports once a minute, as our agent does while nothing changes; evenly spread. */
function heartbeats({ agents }: Fleet): AsyncDisposable {
  let at = 0;
  const timer = setInterval(() => void agents[at++ % agents.length]?.report().catch(() => {}), 60_000 / agents.length);
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
    },
  };
}

function application({ node, image }: Edge) {
  return {
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: { name: NAME },
    spec: {
      microservices: Array.from({ length: 6 }, (_, i) => ({
        name: `part-${i}`,
        agent: { name: node },
        images: { amd64: image, arm64: image },
        container: { env: [{ key: 'PART', value: `${i}` }] },
      })),
    },
  };
}
