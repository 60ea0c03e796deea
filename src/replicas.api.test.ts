import { expect, test } from 'vitest';
import { startTestCluster } from './rest/_cluster.ts';

/** Two replicas of a complete controller with a real API server, as REST shows them and what they record. */
const cluster = await startTestCluster();
const token = await cluster.token('admin');

async function start(name: string) {
  const { app, client: anybody } = await cluster.startController({ POD_NAME: name });
  const client = anybody.as(token);
  await expect.poll(async () => (await client.get('/node-list')).status, { timeout: 20_000 }).toBe(200);
  return { app, client };
}

test('two replicas show each other, and the one that ends as inactive; both show what either recorded', async () => {
  const [one, other] = [await start('one'), await start('other')];
  const active = async ({ client }: typeof one) => (await client.get('/cluster/controllers')).body;
  await expect.poll(async () => (await active(one)).length).toBe(2);
  const seen = await active(one);
  expect(await active(other)).toMatchObject(seen.map(({ uuid, host }: Record<string, string>) => ({ uuid, host })));

  const { uuid } = (await other.client.post('/node', { json: { name: 'gw' } })).body;
  await other.app.drain(1_000);
  await other.app[Symbol.asyncDispose]();
  await expect.poll(async () => (await active(one)).length).toBe(1);
  const former = (await one.client.get('/cluster/controllers?includeInactive=true')).body;
  expect(former.map(({ isActive }: { isActive: boolean }) => isActive).sort()).toEqual([false, true]);
  const { body } = await one.client.get('/events?resourceType=edgenodes');
  expect(body.events).toMatchObject([
    { actorId: `system:serviceaccount:${cluster.namespace}:admin`, resourceId: uuid },
  ]);
});
