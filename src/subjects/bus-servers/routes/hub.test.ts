import { describe, expect, test } from 'vitest';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';
import { busHubKind } from '../kinds/bus-hub.ts';

const PATH = '/bus/hub';
const DEFAULTS = {
  serverPort: 4222,
  clusterPort: 6222,
  leafPort: 7422,
  mqttPort: 8883,
  httpPort: 8222,
  jsStorageSize: '10g',
  jsMemoryStoreSize: '1g',
};

async function serve() {
  const deps = createMemoryDependencies();
  const server = await serveInMemory({ deps });
  const admin = server.as('admin');
  return { deps, admin, put: (json: object) => admin.put(PATH, { json }) };
}

test('GET /bus/hub is 404 until PUT /bus/hub names a hub, and then shows it with its defaults', async () => {
  const { admin, put } = await serve();
  expect(await admin.get(PATH)).toMatchObject({ status: 404, body: { code: 'BUS_HUB_NOT_FOUND' } });
  const hub = { host: 'bus.example', ...DEFAULTS };
  expect(await put({ host: 'bus.example' })).toMatchObject({ status: 200, body: hub });
  expect(await admin.get(PATH)).toMatchObject({ status: 200, body: hub });
});

test('a second PUT replaces what v3 knows of the hub, and keeps what kubectl alone can set', async () => {
  const { deps, put } = await serve();
  await put({ host: 'a.example', leafPort: 7000, jsStorageSize: '20 GB' });
  const [made] = deps.busHubs.list();
  if (!made) throw new Error('no hub');
  await deps.busHubs.replace({ ...made, spec: { ...made.spec, replicas: 1 } }, AbortSignal.timeout(5_000));
  const changed = await put({ host: 'b.example', mqttPort: 1883 });
  expect(changed).toMatchObject({ status: 200, body: { ...DEFAULTS, host: 'b.example', mqttPort: 1883 } });
  expect(deps.busHubs.list().map(({ spec }) => spec)).toEqual([{ host: 'b.example', mqttPort: 1883, replicas: 1 }]);
});

describe('PUT /bus/hub refuses', () => {
  test.each([
    ['no host', {}, 'host'],
    ['a URL as host', { host: 'nats://bus.example' }, 'host'],
    ['a port beyond 65535', { host: 'a', serverPort: 70_000 }, 'serverPort'],
    ['a port in text', { host: 'a', leafPort: '7422' }, 'leafPort'],
    ['two ports that are the same', { host: 'a', mqttPort: 4222 }, 'mqttPort'],
    ['a size with another unit', { host: 'a', jsStorageSize: '10k' }, 'jsStorageSize'],
    ['a size of 0', { host: 'a', jsMemoryStoreSize: '0g' }, 'jsMemoryStoreSize'],
  ])('%s with the field', async (_, body, field) => {
    const { admin, put } = await serve();
    const refused = await put(body);
    expect(refused).toMatchObject({ status: 400, body: { code: 'VALIDATION_ERROR' } });
    expect(JSON.stringify(refused.body)).toContain(field);
    expect((await admin.get(PATH)).status).toBe(404);
  });
});

test('a hub that kubectl gave two equal ports has a verdict with the words of REST', () => {
  const metadata = { name: 'bus-hub', namespace: 'skerry' };
  const hub = { apiVersion: 'skerry.dev/v3', kind: 'BusHub', metadata, spec: { leafPort: 4222 } };
  expect(busHubKind.verdict?.(hub, () => undefined)).toMatchObject({
    reason: 'BusHubInvalid',
    message: 'leafPort: 4222 is the port of serverPort as well',
  });
});
