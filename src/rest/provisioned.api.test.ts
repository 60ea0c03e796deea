import { expect, test } from 'vitest';
import { makeKey } from '../agents/_util.ts';
import { startTestCluster } from './_cluster.ts';
import { BASE } from './contract/base.ts';

/** A complete controller with a real API server. */
test('a node shows the architecture and the engine of its agent from its provisioning on', async () => {
  const cluster = await startTestCluster();
  const { url, client } = await cluster.startController();
  const admin = client.as(await cluster.token('admin'));
  await expect.poll(async () => (await admin.get('/node-list')).status, { timeout: 20_000 }).toBe(200);
  const { body: node } = await admin.post('/node', { json: { name: 'gw', archId: 0 } });
  const { body: issued } = await admin.get(`/node/${node.uuid}/provisioning-key`);
  const joining = { key: issued.key, type: 2, engine: 'engine_b', publicKey: makeKey().publicKey };
  const answer = await fetch(`${url}${BASE}/agent/provision`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(joining),
  });
  expect(answer.status).toBe(200);
  expect((await admin.get(`/node/${node.uuid}`)).body).toMatchObject({ archId: 2, containerEngine: 'podman' });
});
