import { beforeEach, describe, expect, test } from 'vitest';
import type { TestClient } from '../_client.ts';
import { serveInMemory } from '../_server.ts';

let client: TestClient;
let admin: TestClient;
async function start(options = {}) {
  client = await serveInMemory(options);
  admin = client.as('admin');
}
beforeEach(() => start());

/** Waits: an event is recorded after the response. */
const recorded = async (query = '', count = 1) => {
  await expect.poll(async () => (await admin.get(`/events${query}`)).body.total).toBe(count);
  return (await admin.get(`/events${query}`)).body.events;
};

describe('a request that changes something is recorded', () => {
  test('with its caller, its object, its result and its request id', async () => {
    const { body } = await admin.post('/node', { json: { name: 'gw' }, headers: { 'request-id': 'mine-1' } });
    expect((await recorded())[0]).toMatchObject({
      eventType: 'HTTP',
      endpointType: 'user',
      actorId: 'admin',
      method: 'POST',
      resourceType: 'edgenodes',
      resourceId: body.uuid,
      endpointPath: '/node',
      ipAddress: '127.0.0.1',
      status: 'SUCCESS',
      statusCode: 201,
      requestId: 'mine-1',
    });
  });

  test('also when it fails or is refused, and without a valid token it is counted', async () => {
    await admin.delete('/application/none');
    await client.as('viewer').patch('/application/none', { json: {} });
    await client.post('/application', { json: {} });
    const events = await recorded('', 3);
    expect(events[0]).toMatchObject({ eventType: 'SUMMARY', actorId: '', endpointPath: '', status: 'FAILED' });
    expect(
      events.slice(1).map((one: Record<string, unknown>) => [one.actorId, one.statusCode, one.statusMessage]),
    ).toEqual([
      ['viewer', 403, 'FORBIDDEN'],
      ['admin', 404, 'INVALID_APPLICATION_NAME'],
    ]);
    expect(events[2]).toMatchObject({ resourceId: 'none', endpointPath: '/application/none', status: 'FAILED' });
  });

  test('also as a GET that makes a provisioning key, and reads are not recorded', async () => {
    const { uuid } = (await admin.post('/node', { json: { name: 'gw' } })).body;
    await admin.get('/node-list');
    await admin.get(`/node/${uuid}/provisioning-key`);
    expect((await recorded('', 2))[0]).toMatchObject({ method: 'GET', resourceId: uuid, statusCode: 201 });
  });

  test('without its query, its body, and parameters that may be credentials', async () => {
    await admin.post('/registries?token=hush-1', { json: { url: 'r.example', username: 'u', password: 'hush-2' } });
    await client.post('/user/interaction/hush-3/login', { json: { password: 'hush-4' } });
    expect(JSON.stringify(await recorded('', 2))).not.toContain('hush');
  });

  test('without the address of its client, when the installation does not record addresses', async () => {
    await start({ recordsAddresses: false });
    await admin.post('/node', { json: { name: 'gw' } });
    expect((await recorded())[0].ipAddress).toBe('');
  });
});

describe('the events', () => {
  test('are selected by time, method, status and caller', async () => {
    await admin.post('/node', { json: { name: 'a' } });
    await admin.delete('/application/none');
    await recorded('', 2);
    expect(await recorded('?method=DELETE&status=FAILED')).toMatchObject([{ resourceType: 'applications' }]);
    expect(await recorded('?method=DELETE&method=POST&limit=1', 2)).toHaveLength(1);
    expect(await recorded('?actorId=nobody', 0)).toEqual([]);
    expect(await recorded('?startTime=2100-01-01T00:00:00Z', 0)).toEqual([]);
    expect(await recorded(`?startTime=${Math.floor(Date.now() / 1000) - 60}&resourceType=edgenodes`)).toHaveLength(1);
  });

  test('refuse a query that they do not know', async () => {
    for (const query of ['limit=0', 'limit=1001', 'offset=-1', 'startTime=yesterday', 'method=LOOK', 'colour=red'])
      expect((await admin.get(`/events?${query}`)).status, query).toBe(400);
  });

  test('are removed by age, and the removal is recorded', async () => {
    await admin.post('/node', { json: { name: 'a' } });
    await recorded();
    expect((await admin.delete('/events', { json: { days: 1 } })).body).toMatchObject({
      deletedCount: 0,
      deletedAll: false,
    });
    await recorded('', 2);
    const { body } = await admin.delete('/events', { json: { days: 0 } });
    expect(body).toMatchObject({ deletedCount: 2, deletedBefore: null, deletedAll: true });
    expect(await recorded()).toMatchObject([{ method: 'DELETE', resourceType: 'events' }]);
    for (const days of [-1, 366, 'all', undefined])
      expect((await admin.delete('/events', { json: { days } })).status).toBe(400);
  });
});
