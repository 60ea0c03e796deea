import { describe, expect, test } from 'vitest';
import { ANNOTATIONS, API_VERSION } from '../src/api/names.ts';
import { manifest } from '../testing/manifest.ts';
import { ForeignAgent, foreignProvision } from './_foreign.ts';
import { type ControllerProcess, createStack, readyOf, until, untilReason } from './_stack.ts';

/**
 * Third-party agents: they know nothing of our additions, and the controller serves and judges them by the v3 wire alone.
 * Their requests alternate between two replicas, as behind a load balancer.
 */
const replicas: ControllerProcess[] = [];
/** of the nodes of the agents */
const names = new Map<ForeignAgent, string>();

const stack = await createStack();
replicas.push(await stack.startController(), await stack.startController());

const first = () => replicas[0] as ControllerProcess;

async function startForeign(node: string): Promise<ForeignAgent> {
  await stack.apply(manifest('EdgeNode', { name: node }, { logLevel: 'DEBUG' }));
  const key = await stack.provisioningKey(node, first());
  let turn = 0;
  const agent = new ForeignAgent(await foreignProvision(first().url, key), () => {
    turn++;
    return (replicas[turn % replicas.length] as ControllerProcess).url;
  });
  names.set(agent, node);
  return agent;
}

const application = (name: string, node: string, entry: Record<string, unknown>, annotations = {}) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name, annotations },
  spec: { microservices: [{ name: 'web', agent: { name: node }, ...entry }] },
});
const of = (image: string, registry?: string) => ({
  images: { amd64: image, ...(registry && { registry }) },
});

/** Runs cycles of an agent until the check is true. A failure says what the agent runs and what its node has of it. */
async function live(what: string, agent: ForeignAgent, check: () => Promise<boolean>): Promise<void> {
  await until(
    what,
    async () => {
      await agent.poll();
      await agent.report();
      if (await check()) return true;
      const { conditions, microservices } = (await stack.node(names.get(agent) ?? ''))?.status ?? {};
      const { flags, made, containers } = agent;
      throw new Error(JSON.stringify({ flags, made, containers: [...containers], microservices, conditions }));
    },
    { intervalMs: 300 },
  );
}

/** Runs a few more cycles, at both replicas. */
async function settled(agent: ForeignAgent): Promise<void> {
  for (let i = 0; i < 5; i++) {
    await agent.poll();
    await agent.report();
  }
}

const isReady = async (name: string) => {
  const found = await stack.application(name);
  const ready = readyOf(found);
  return ready?.status === 'True' && ready.observedGeneration === found?.metadata.generation;
};

test('a third-party agent is provisioned without a key pair of its own, runs, edits, rebuilds and deletes an application, and is deprovisioned', async () => {
  const agent = await startForeign('foreign-1');
  expect(agent.identity.key.asymmetricKeyType).toBe('ed25519');
  await live('the node to be ready', agent, async () => readyOf(await stack.node('foreign-1'))?.status === 'True');
  expect(agent.config).toMatchObject({ logLevel: 'DEBUG' });
  await live('its report to show', agent, async () => (await stack.node('foreign-1'))?.status?.version !== undefined);
  expect((await stack.node('foreign-1'))?.status).toMatchObject({ version: '3.8.0', ipAddress: '198.51.100.7' });

  await stack.apply(application('shop', 'foreign-1', of('registry.example/web:1')));
  await live('the application to be ready', agent, () => isReady('shop'));
  expect(agent.made).toEqual(['registry.example/web:1']);
  await until('no flag to be left', async () => !(await agent.poll()));

  // The edit was sent and is not yet carried out: the old container still runs, so the application must not be ready.
  await stack.apply(application('shop', 'foreign-1', of('registry.example/web:2')));
  await untilReason(stack, 'shop', 'Updating');
  await agent.report();
  expect(await isReady('shop')).toBe(false);
  await live('the edit to be ready', agent, () => isReady('shop'));
  expect(agent.made).toEqual(['registry.example/web:1', 'registry.example/web:2']);

  // Config is changed in place: the application becomes ready without a new container.
  await stack.apply(application('shop', 'foreign-1', { ...of('registry.example/web:2'), config: { rate: 5 } }));
  await live('the config to be told', agent, () => isReady('shop'));
  expect(agent.made).toHaveLength(2);

  const annotations = { [ANNOTATIONS.rebuild]: '{"web":1}' };
  await stack.apply(
    application('shop', 'foreign-1', { ...of('registry.example/web:2'), config: { rate: 5 } }, annotations),
  );
  const [uuid] = [...agent.containers.keys()] as [string];
  const running = agent.containers.get(uuid) as never;
  await until('the rebuild to be told', async () => (await agent.poll()) && agent.made.length === 3);
  // The agent takes its time: while the old container runs, the rebuild is neither done nor requested again.
  agent.containers.set(uuid, running);
  await agent.report();
  await until('the order to be noted', async () => {
    const item = (await stack.node('foreign-1'))?.status?.microservices?.[0];
    return item?.sent?.rebuildCount === 1 && !item.rebuildCount;
  });
  await settled(agent);
  expect(agent.made).toHaveLength(3);
  expect(readyOf(await stack.application('shop'))?.reason).toBe('Updating');
  agent.start(uuid, 'registry.example/web:2');
  await live('the rebuild to be done', agent, () => isReady('shop'));
  await settled(agent);
  expect(agent.made).toHaveLength(4);

  await stack.remove('applications', 'shop');
  await live('the application to be gone', agent, async () => (await stack.application('shop')) === undefined);
  expect(agent.containers.size).toBe(0);

  await stack.remove('edgenodes', 'foreign-1');
  await until('the agent to be told', async () => agent.left || (await agent.poll()) || agent.left);
  await until('the node to be gone', async () => (await stack.node('foreign-1')) === undefined);
  await until('its identity to be worth nothing', async () => {
    const { status, body } = await agent.call('GET', '/agent/changes');
    return status === 401 && body.code === 'AGENT_NODE_NOT_FOUND' && body.retryable === false;
  });
}, 180_000);

test('a third-party agent whose clock is an hour behind is judged by the clock of the controller', async () => {
  const agent = await startForeign('foreign-2');
  agent.skew = -3600_000;
  await stack.apply(application('slow', 'foreign-2', of('registry.example/web:1')));
  await live('the application to be ready', agent, () => isReady('slow'));
  await stack.apply(application('slow', 'foreign-2', of('registry.example/web:2')));
  await untilReason(stack, 'slow', 'Updating');
  await live('the edit to be ready', agent, () => isReady('slow'));
  const [item] = (await stack.node('foreign-2'))?.status?.microservices ?? [];
  expect(Math.abs((item?.startTime ?? 0) - Date.now())).toBeLessThan(120_000);
}, 120_000);

describe('a third-party agent', () => {
  test('gets the revision that was last admitted of an entry on hold, also after a restart of all replicas, and no entry that was never admitted', async () => {
    const agent = await startForeign('foreign-3');
    await stack.apply(application('held', 'foreign-3', of('registry.example/web:1')));
    await live('the application to be ready', agent, () => isReady('held'));

    await stack.apply(application('held', 'foreign-3', of('registry.example/web:2', 'nowhere')));
    await stack.apply(application('never', 'foreign-3', of('registry.example/never:1', 'nowhere')));
    await untilReason(stack, 'held', 'RegistryNotFound');
    await settled(agent);
    expect(agent.made).toEqual(['registry.example/web:1']);
    expect(agent.containers.size).toBe(1);

    for (const replica of replicas.splice(0)) await replica.stop();
    replicas.push(await stack.startController(), await stack.startController());
    await settled(agent);
    expect(agent.made).toEqual(['registry.example/web:1']);
    expect(agent.containers.size).toBe(1);
    expect((await stack.application('held'))?.status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'Ready', status: 'False', reason: 'RegistryNotFound' }),
    );

    await stack.apply(application('held', 'foreign-3', of('registry.example/web:2')));
    await live('the hold to be over', agent, () => isReady('held'));
    expect(agent.made).toEqual(['registry.example/web:1', 'registry.example/web:2']);
  }, 180_000);

  test('reports a container that started while no controller ran, and the application becomes ready', async () => {
    const agent = await startForeign('foreign-4');
    await stack.apply(application('deaf', 'foreign-4', of('registry.example/web:1')));
    await live('the application to be ready', agent, () => isReady('deaf'));
    await stack.apply(application('deaf', 'foreign-4', of('registry.example/web:2')));
    await untilReason(stack, 'deaf', 'Updating');
    // It fetches the edit, reports the old container once more, and is still pulling when the controllers stop.
    const [uuid] = [...agent.containers.keys()] as [string];
    const running = agent.containers.get(uuid) as never;
    await until('the order', async () => (await agent.poll()) && agent.made.length === 2);
    const started = agent.containers.get(uuid) as never;
    agent.containers.set(uuid, running);
    await agent.report();
    await until('the order to be noted', async () => {
      const item = (await stack.node('foreign-4'))?.status?.microservices?.find((one) => one.uuid === uuid);
      return item?.sent?.imageId === 'registry.example/web:2';
    });
    for (const replica of replicas.splice(0)) await replica.stop();
    agent.containers.set(uuid, { ...(started as object), startTime: Date.now() } as never);
    replicas.push(await stack.startController(), await stack.startController());
    await live('it to be believed', agent, () => isReady('deaf'));
    expect(agent.made).toHaveLength(2);
  }, 180_000);
});
