import { expect, test } from 'vitest';
import { freePort } from '../hack/ports.ts';
import { CONTAINER_LABELS } from '../src/api/names.ts';
import { createStack, readyOf, until, untilReady, webApplication } from './_stack.ts';

/** An object is removed only when the machine no longer runs its containers. */

const stack = await createStack();
const controller = await stack.startController();
const agent = await stack.startAgent('gw-4', controller);

test('a deleted application is removed only when the machine no longer runs its containers', async () => {
  await stack.apply(webApplication('gone', 'gw-4', await stack.image('d1', { STOP_DELAY: '2s' }), await freePort()));
  const uuid = (await untilReady(stack, 'gone')).status?.microservices?.[0]?.uuid as string;
  await stack.remove('applications', 'gone');
  expect(await stack.application('gone')).toBeDefined();
  await until('the application to be gone', async () => (await stack.application('gone')) === undefined);
  expect((await stack.containers()).filter((one) => one.labels[CONTAINER_LABELS.uuid] === uuid)).toEqual([]);
});

test('a deleted live node removes its containers and gives up its identity, and then the object is removed', async () => {
  await stack.apply(webApplication('stays', 'gw-4', await stack.image('d2'), await freePort()));
  await untilReady(stack, 'stays');
  const node = (await stack.node('gw-4'))?.status?.uuid;
  await stack.remove('edgenodes', 'gw-4');
  await until('the node to be gone', async () => (await stack.node('gw-4')) === undefined);
  expect((await stack.containers()).filter((one) => one.labels[CONTAINER_LABELS.node] === node)).toEqual([]);
  await until(
    'the agent to have no identity',
    async () => (await agent.cli('status')).stdout.match(/not[ _]provisioned/i) !== null,
  );
  // Deleting a node never edits applications.
  const left = await until('the application to say so', async () => {
    const current = await stack.application('stays');
    return readyOf(current)?.reason === 'NodeNotFound' ? current : undefined;
  });
  expect(left.spec.microservices).toHaveLength(1);
});
