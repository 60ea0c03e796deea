import { expect, test } from 'vitest';
import { startWithNode } from './_util.ts';
import type { RecordedEvent } from './channel/dependencies.ts';

async function start(recordsAddresses = true) {
  const events: RecordedEvent[] = [];
  const deleted: string[] = [];
  const client = { delete: async (_: unknown, { name }: { name: string }) => void deleted.push(name) };
  const audit = { record: (event: RecordedEvent) => void events.push(event), recordsAddresses };
  return { events, deleted, ...(await startWithNode({ client: client as never, audit })) };
}

test('an agent that leaves its node, or deletes it, is an event of the audit log', async () => {
  const { events, node, key, replica } = await start();
  await replica.as(node, key, 'POST', '/deprovision', { body: {} });
  await replica.as(node, key, 'DELETE', '/delete-node');
  const event = {
    ...{ eventType: 'HTTP', endpointType: 'agent', actorId: node.spec.uuid, ipAddress: '127.0.0.1', requestId: '' },
    ...{ resourceType: 'edgenodes', resourceId: node.spec.uuid },
  };
  const deletion = { method: 'DELETE', endpointPath: '/agent/delete-node', status: 'SUCCESS', statusCode: 204 };
  expect(events).toEqual([
    {
      ...{ ...event, method: 'POST', endpointPath: '/agent/deprovision' },
      ...{ status: 'FAILED', statusCode: 400, statusMessage: 'VALIDATION_ERROR' },
    },
    { ...event, ...deletion, statusMessage: '' },
  ]);
});

test('a provisioning without a valid key is an event without an actor, which is only counted', async () => {
  const { events, replica } = await start();
  await replica.call('POST', '/provision', { body: { key: 'no key', type: 1 } });
  expect(events).toMatchObject([{ endpointPath: '/agent/provision', actorId: '', resourceId: '', status: 'FAILED' }]);
});

test('what an agent reads or reports is no event of the audit log, and no address is in one when addresses are off', async () => {
  const { events, node, key, replica } = await start(false);
  await replica.as(node, key, 'GET', '/config');
  await replica.as(node, key, 'PUT', '/status', { body: {} });
  await replica.call('GET', '/nothing');
  expect(events).toEqual([]);
  await replica.as(node, key, 'DELETE', '/delete-node');
  expect(events).toMatchObject([{ ipAddress: '' }]);
});
