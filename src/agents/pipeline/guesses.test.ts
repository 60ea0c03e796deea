import { expect, test } from 'vitest';
import { storedNode } from '../../../testing/stored.ts';
import { fill, makeEmptyClient, provisioningKeyOf, startReplica } from '../_util.ts';

test('a right provisioning key is accepted from an address that has sent too many wrong ones', async () => {
  const node = storedNode('edge-1');
  const asked: string[] = [];
  const client = makeEmptyClient((name) => asked.push(name));
  await using replica = await startReplica({ client, limits: { guessesPerMinute: 3 } });
  fill(replica.stores, { nodes: [node], secrets: [provisioningKeyOf(node, 'right')] });
  const provision = (key: string) => replica.call('POST', '/provision', { body: { key, type: 1 } });
  for (let i = 0; i < 3; i++) expect((await provision(`wrong-${i}`)).status).toBe(404);
  const before = asked.length;
  expect(await provision('wrong')).toMatchObject({ status: 429, headers: { 'retry-after': '60' } });
  expect(asked).toHaveLength(before);
  expect(await provision('right')).toMatchObject({ status: 200, body: { uuid: node.spec.uuid } });
});
