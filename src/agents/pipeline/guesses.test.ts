import { expect, test } from 'vitest';
import { ownerReference } from '../../kube/object.ts';
import { provisioningKeyData, provisioningKeyName } from '../../stores/provisioning-key.ts';
import { fill, makeNode, NAMESPACE, startReplica } from '../_util.ts';

test('a right provisioning key is accepted from an address that has sent too many wrong ones', async () => {
  const node = makeNode('edge-1');
  const uuid = node.spec.uuid ?? '';
  const asked: string[] = [];
  const client = {
    find: async (_: unknown, { name }: { name: string }) => void asked.push(name),
    create: async (_: unknown, object: object) => object,
    replace: async (_: unknown, object: object) => object,
  };
  await using replica = await startReplica({ client: client as never, limits: { guessesPerMinute: 3 } });
  const secret = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name: provisioningKeyName('right'),
      namespace: NAMESPACE,
      resourceVersion: '7',
      ownerReferences: [ownerReference(node)],
    },
    data: provisioningKeyData({ nodeUuid: uuid, expiresAt: Date.now() + 60_000 }),
  };
  fill(replica.stores, { nodes: [node], secrets: [secret as never] });
  const provision = (key: string) => replica.call('POST', '/provision', { body: { key, type: 1 } });
  for (let i = 0; i < 3; i++) expect((await provision(`wrong-${i}`)).status).toBe(404);
  const before = asked.length;
  expect(await provision('wrong')).toMatchObject({ status: 429, headers: { 'retry-after': '60' } });
  expect(asked).toHaveLength(before);
  expect(await provision('right')).toMatchObject({ status: 200, body: { uuid } });
});
