import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../hack/ports.ts';
import { CONTAINER_LABELS } from '../src/api/names.ts';
import {
  type AgentProcess,
  type ControllerProcess,
  createWorld,
  readyOf,
  until,
  untilReady,
  type World,
  webApplication,
} from './_world.ts';

/** Deletion is absence: objects go when the machine no longer runs what they asked for. */
let world: World;
let controller: ControllerProcess;
let agent: AgentProcess;

beforeAll(async () => {
  world = await createWorld();
  controller = await world.startController();
  agent = await world.startAgent('gw-4', controller);
}, 240_000);
afterAll(() => world?.[Symbol.asyncDispose](), 60_000);

test('an application is gone only when the machine no longer runs its containers', async () => {
  await world.apply(webApplication('gone', 'gw-4', await world.image('d1', { STOP_DELAY: '2s' }), await freePort()));
  const uuid = (await untilReady(world, 'gone')).status?.microservices?.[0]?.uuid as string;
  await world.remove('applications', 'gone');
  expect(await world.application('gone')).toBeDefined();
  await until('the application to be gone', async () => (await world.application('gone')) === undefined);
  expect((await world.containers()).filter((one) => one.labels[CONTAINER_LABELS.uuid] === uuid)).toEqual([]);
});

test('a live node that is deleted removes its containers, gives up its identity and is gone', async () => {
  await world.apply(webApplication('stays', 'gw-4', await world.image('d2'), await freePort()));
  await untilReady(world, 'stays');
  const node = (await world.node('gw-4'))?.status?.uuid;
  await world.remove('edgenodes', 'gw-4');
  await until('the node to be gone', async () => (await world.node('gw-4')) === undefined);
  expect((await world.containers()).filter((one) => one.labels[CONTAINER_LABELS.node] === node)).toEqual([]);
  await until(
    'the agent to have no identity',
    async () => (await agent.cli('status')).stdout.match(/not[ _]provisioned/i) !== null,
  );
  // Deleting a node never edits applications.
  const left = await until('the application to say so', async () => {
    const current = await world.application('stays');
    return readyOf(current)?.reason === 'NodeNotFound' ? current : undefined;
  });
  expect(left.spec.microservices).toHaveLength(1);
});
