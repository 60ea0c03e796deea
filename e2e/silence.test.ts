import { afterAll, beforeAll, describe, test } from 'vitest';
import { freePort } from '../hack/ports.ts';
import {
  type AgentProcess,
  type ControllerProcess,
  createStack,
  get,
  readyOf,
  type Stack,
  until,
  untilReady,
  webApplication,
} from './_stack.ts';

/**
 * A silent node is not reported as ready, and one that returns converges to the newest generation. Both tests wait for the
 * silence limit of a long poll (90 s), so they run in parallel, each with a machine of its own.
 */
let stack: Stack;
let controller: ControllerProcess;
const agents: Record<string, AgentProcess> = {};

beforeAll(async () => {
  stack = await createStack();
  controller = await stack.startController();
  for (const node of ['gw-3', 'gw-5']) agents[node] = await stack.startAgent(node, controller);
}, 240_000);
afterAll(() => stack?.[Symbol.asyncDispose](), 60_000);

const untilSilent = (node: string) =>
  until(`${node} to be UNKNOWN`, async () => (await stack.node(node))?.status?.daemonStatus === 'UNKNOWN', {
    timeoutMs: 180_000,
  });

describe.concurrent('a silent node', () => {
  test('becomes UNKNOWN, its application Unknown, and an edit made meanwhile is carried out when the node returns', async ({
    expect,
  }) => {
    const agent = agents['gw-3'] as AgentProcess;
    const port = await freePort();
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

    await stack.apply(webApplication('quiet', 'gw-3', await stack.image('s2', { GREETING: 's2' }), port));
    expect(readyOf(await stack.application('quiet'))?.status).not.toBe('True');
    await agent.start();
    await until('the newest generation to run', async () => (await get(`http://127.0.0.1:${port}/`)) === 's2\n');
    await untilReady(stack, 'quiet');
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
