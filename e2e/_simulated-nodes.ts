import { createTestAgent } from '../agent/src/_agent.ts';
import type { Agent } from '../agent/src/app.ts';
import { MemoryEngine } from '../agent/src/engines/memory/_engine.ts';
import type { Transport } from '../agent/src/link/client.ts';
import { exchange, STALE } from '../agent/src/machine/http.ts';
import { API_VERSION } from '../src/api/names.ts';
import { BASE } from '../src/rest/contract/base.ts';
import { formatJoinString } from '../src/wire/node-token.ts';
import { type Stack, until, untilReady } from './_stack.ts';

/** A node with the real agent; only its engine and its disk are simulated. It runs one microservice. */
export interface SimulatedNode {
  name: string;
  /** uuid of its microservice */
  microservice: string;
  agent: Agent;
  /** containers that it started */
  starts(): number;
  /** containers that run */
  running(): number;
  /** polls that ended without a response of a controller that serves */
  missedPolls: number;
}

/** What the nodes need of a stack. */
type Cluster = Pick<Stack, 'apply' | 'node' | 'application' | 'token'>;

/** Starts nodes, each with an application of its name. They run until the signal fires. */
export async function startSimulatedNodes(
  stack: Cluster,
  { count, url, home, signal }: { count: number; url: string; home: string; signal: AbortSignal },
): Promise<SimulatedNode[]> {
  const names = Array.from({ length: count }, (_, index) => `simulated-${index}`);
  for (const name of names)
    await stack.apply({ apiVersion: API_VERSION, kind: 'EdgeNode', metadata: { name }, spec: { archId: 1 } });
  const nodes = await Promise.all(names.map((name) => startNode(stack, { name, url, home, signal })));
  for (const { name } of nodes) await stack.apply(application(name));
  for (const node of nodes) {
    const { status } = await untilReady(stack, node.name, 240_000);
    node.microservice = status?.microservices?.[0]?.uuid ?? '';
  }
  return nodes;
}

const application = (name: string) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name },
  spec: { microservices: [{ name: 'only', agent: { name }, images: { amd64: 'registry.example/app:1' } }] },
});

async function startNode(
  stack: Cluster,
  { name, url, home, signal }: { name: string; url: string; home: string; signal: AbortSignal },
): Promise<SimulatedNode> {
  const engine = new MemoryEngine({ anyImage: true });
  const agent = createTestAgent({
    folder: home,
    engine: () => engine,
    transport: counting(() => {
      node.missedPolls++;
    }, signal),
  });
  const node: SimulatedNode = {
    name,
    microservice: '',
    agent,
    starts: () => engine.history.filter((line) => line.startsWith('start ')).length,
    running: () => engine.running().size,
    missedPolls: 0,
  };
  void agent.run(signal);
  const uuid = await until('the node to have an identity', async () => (await stack.node(name))?.status?.uuid);
  const response = await fetch(`${url}${BASE}/node/${uuid}/provisioning-key`, {
    headers: { authorization: `Bearer ${stack.token}` },
  });
  const { key } = (await response.json()) as { key: string };
  await agent.provision(formatJoinString({ controllerUrl: url, key }));
  return node;
}

/** Sends requests as the agent does, and counts polls that failed. */
function counting(missed: () => void, stop: AbortSignal): Transport {
  return async (request, limit) => {
    const isPoll = request.path.includes('/agent/changes');
    try {
      const response = await exchange(request, limit);
      if (isPoll && response.status >= 500) missed();
      return response;
    } catch (error) {
      // On a kept connection that was closed meanwhile, the agent sends the request once more.
      if (isPoll && !stop.aborted && (error as { code?: string }).code !== STALE) missed();
      throw error;
    }
  };
}
