import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, inject, test } from 'vitest';
import { findEngine, removeEngineData } from '../hack/engine.ts';
import { callEngine } from '../hack/engine-api.ts';
import { freePort } from '../hack/ports.ts';
import { CONTAINER_LABELS } from '../src/api/names.ts';
import type { Application } from '../src/api/v3/index.ts';
import { type AgentProcess, createStack, get, readyOf, until, untilReady, webApplication } from './_stack.ts';

/**
 * A microservice runs on one node at a time. A silent node is not reported as ready, and a node that returns converges to the newest generation. Both tests wait for the
 * silence limit of a long poll (90 s), so they run in parallel, each with a machine of its own.
 */
/** A machine of its own for gw-6: two containers of one microservice can run only on two engines. */
const cleanup = new AsyncDisposableStack();
afterAll(() => cleanup.disposeAsync(), 60_000);
const agents: Record<string, AgentProcess> = {};

const stack = await createStack();
const controller = await stack.startController();
for (const node of ['gw-3', 'gw-5']) agents[node] = await stack.startAgent(node, controller);
const dir = mkdtempSync(join(tmpdir(), 'skerry-silence-'));
cleanup.defer(() => removeEngineData(dir));
const engine = cleanup.use(
  await findEngine({ dir, alwaysPrivate: true, registry: new URL(inject('registryUrl')).host }),
);
await stack.startAgent('gw-6', controller, { settings: { containerEngineUrl: engine.url } });

/** When containers of a microservice started or ended on an engine, ns, by its own events. */
async function times(url: string, uuid: string, event: 'start' | 'die'): Promise<number[]> {
  const filters = JSON.stringify({ type: ['container'], event: [event], label: [`${CONTAINER_LABELS.uuid}=${uuid}`] });
  const query = new URLSearchParams({ since: '1', until: String(Date.now() / 1000), filters });
  const found = await callEngine<unknown>(url, 'GET', `/events?${query}`);
  const lines = typeof found === 'string' ? found.split('\n').filter(Boolean) : found ? [JSON.stringify(found)] : [];
  return lines.map((line) => (JSON.parse(line) as { timeNano: number }).timeNano);
}

/** The number of containers of a microservice that run on an engine. */
const running = async (url: string, uuid: string) => {
  const filters = JSON.stringify({ label: [`${CONTAINER_LABELS.uuid}=${uuid}`], status: ['running'] });
  return (await callEngine<unknown[]>(url, 'GET', `/containers/json?${new URLSearchParams({ filters })}`)).length;
};

/** An application without ports, which the two engines of this machine cannot both have. */
async function mover(node: string): Promise<void> {
  const { spec, ...rest } = webApplication('mover', node, await stack.image('m1', { STOP_DELAY: '2s' }), 1);
  const microservices = spec.microservices.map((entry) => ({ ...entry, container: {} }));
  await stack.apply({ ...rest, spec: { microservices } });
}

const conditionOf = (application: Application | undefined, type: string) =>
  application?.status?.conditions?.find((condition) => condition.type === type);

const untilSilent = (node: string) =>
  until(`${node} to be UNKNOWN`, async () => (await stack.node(node))?.status?.daemonStatus === 'UNKNOWN', {
    timeoutMs: 180_000,
  });

describe.concurrent('a silent node', () => {
  test('becomes UNKNOWN with its application, lets a moved microservice start elsewhere, and carries out a missed edit on its return', async ({
    expect,
  }) => {
    const agent = agents['gw-3'] as AgentProcess;
    const port = await freePort();
    const shared = inject('engineUrl');
    await mover('gw-6');
    const uuid = (await untilReady(stack, 'mover')).status?.microservices?.[0]?.uuid as string;
    await mover('gw-3');
    await until(
      'the new node to wait',
      async () => readyOf(await stack.application('mover'))?.reason === 'MovingFromNode',
    );
    await untilReady(stack, 'mover');
    const [ended] = await times(engine.url, uuid, 'die');
    const [began] = await times(shared, uuid, 'start');
    expect(ended).toBeLessThan(began as number);

    await stack.apply(webApplication('quiet', 'gw-3', await stack.image('s1', { GREETING: 's1' }), port));
    await untilReady(stack, 'quiet');

    await agent.kill();
    await untilSilent('gw-3');
    expect(readyOf(await stack.node('gw-3'))).toMatchObject({ status: 'Unknown', reason: 'NodeUnreachable' });
    await until(
      'the application to say so',
      async () => readyOf(await stack.application('quiet'))?.reason === 'NodeUnreachable',
    );
    expect(readyOf(await stack.application('quiet'))?.status).toBe('Unknown');
    expect(await get(`http://127.0.0.1:${port}/`)).toBe('s1\n');

    await mover('gw-6');
    const moved = await untilReady(stack, 'mover');
    expect(conditionOf(moved, 'MayRunElsewhere')).toMatchObject({
      reason: 'NodeUnreachable',
      message: expect.stringContaining('may still run on the node "gw-3"'),
    });
    expect([await running(engine.url, uuid), await running(shared, uuid)]).toEqual([1, 1]);

    await stack.apply(webApplication('quiet', 'gw-3', await stack.image('s2', { GREETING: 's2' }), port));
    expect(readyOf(await stack.application('quiet'))?.status).not.toBe('True');
    await agent.start();
    await until('the newest generation to run', async () => (await get(`http://127.0.0.1:${port}/`)) === 's2\n');
    await untilReady(stack, 'quiet');
    await until('the former node to have stopped it', async () => {
      const application = await stack.application('mover');
      expect(readyOf(application)?.status).toBe('True');
      return conditionOf(application, 'MayRunElsewhere') === undefined;
    });
    expect([await running(engine.url, uuid), await running(shared, uuid)]).toEqual([1, 0]);
  }, 400_000);

  test('can be deleted without waiting for its agent, which keeps all containers running', async ({ expect }) => {
    const agent = agents['gw-5'] as AgentProcess;
    const port = await freePort();
    await stack.apply(webApplication('kept', 'gw-5', await stack.image('k1', { GREETING: 'k1' }), port));
    await untilReady(stack, 'kept');

    await agent.kill();
    await untilSilent('gw-5');
    await stack.remove('edgenodes', 'gw-5');
    await until('the node to be gone', async () => (await stack.node('gw-5')) === undefined);
    await until(
      'the application to say so',
      async () => readyOf(await stack.application('kept'))?.reason === 'NodeNotFound',
    );
    await agent.start();
    await until('the agent to say that it is refused', async () =>
      (await agent.cli('status')).stdout.includes('UNAUTHORIZED'),
    );
    expect(await get(`http://127.0.0.1:${port}/`)).toBe('k1\n');
  }, 400_000);
});
