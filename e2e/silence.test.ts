import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../hack/ports.ts';
import { API_VERSION } from '../src/api/names.ts';
import {
  type AgentProcess,
  type ControllerProcess,
  createWorld,
  get,
  readyOf,
  until,
  untilReady,
  type World,
} from './_world.ts';

/** What is not heard of is not called ready, and what comes back converges to the newest generation. */
let world: World;
let controller: ControllerProcess;
let agent: AgentProcess;

beforeAll(async () => {
  world = await createWorld();
  controller = await world.startController();
  agent = await world.startAgent('gw-3', controller);
}, 240_000);
afterAll(() => world?.[Symbol.asyncDispose](), 60_000);

test('a silent node turns UNKNOWN and its application Unknown; an edit made meanwhile is carried out on return', async () => {
  const port = await freePort();
  const application = (image: string) => ({
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: { name: 'quiet' },
    spec: {
      microservices: [
        {
          name: 'web',
          agent: { name: 'gw-3' },
          images: { amd64: image, arm64: image },
          container: { ports: [{ internal: 8080, external: port }] },
        },
      ],
    },
  });
  await world.apply(application(await world.image('s1', { GREETING: 's1' })));
  await untilReady(world, 'quiet');

  await agent.kill();
  await until('the node to be UNKNOWN', async () => (await world.node('gw-3'))?.status?.daemonStatus === 'UNKNOWN', {
    timeoutMs: 180_000,
  });
  expect(readyOf(await world.node('gw-3'))).toMatchObject({ status: 'Unknown', reason: 'NodeUnreachable' });
  await until(
    'the application to say so',
    async () => readyOf(await world.application('quiet'))?.reason === 'NodeUnreachable',
  );
  expect(readyOf(await world.application('quiet'))?.status).toBe('Unknown');
  expect(await get(`http://127.0.0.1:${port}/`)).toBe('s1\n');

  await world.apply(application(await world.image('s2', { GREETING: 's2' })));
  expect(readyOf(await world.application('quiet'))?.status).not.toBe('True');
  await agent.start();
  await until('the newest generation to run', async () => (await get(`http://127.0.0.1:${port}/`)) === 's2\n');
  await untilReady(world, 'quiet');
}, 400_000);

test('a node that is deleted while it is offline holds nothing, and its agent keeps everything running', async () => {
  const port = (await world.application('quiet'))?.spec.microservices?.[0]?.container?.ports?.[0]?.external;
  await agent.kill();
  await until('the node to be UNKNOWN', async () => (await world.node('gw-3'))?.status?.daemonStatus === 'UNKNOWN', {
    timeoutMs: 180_000,
  });
  await world.remove('edgenodes', 'gw-3');
  await until('the node to be gone', async () => (await world.node('gw-3')) === undefined);
  await until(
    'the application to say so',
    async () => readyOf(await world.application('quiet'))?.reason === 'NodeNotFound',
  );
  await agent.start();
  await until('the agent to say that it is refused', async () =>
    (await agent.cli('status')).stdout.includes('UNAUTHORIZED'),
  );
  expect(await get(`http://127.0.0.1:${port}/`)).toBe('s2\n');
}, 400_000);
