import { expect, test } from 'vitest';
import { startWithNode } from './_util.ts';

test('what is due is told at once, read with its digests as ETag, and then no more', async () => {
  const { replica, node, key } = await startWithNode();
  await using _ = replica;
  const first = await replica.as(node, key, 'GET', '/changes?wait=60');
  expect(first.status).toBe(200);
  expect(first.body).toMatchObject({ microserviceList: true });
  const read = await replica.as(node, key, 'GET', '/microservices');
  expect(read.body.microservices).toMatchObject([{ name: 'web', imageId: 'registry.example/web:1' }]);
});
