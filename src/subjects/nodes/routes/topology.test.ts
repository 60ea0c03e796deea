import { describe, expect, test } from 'vitest';
import { serveInMemory } from '../../../rest/_server.ts';

const ids: Record<string, string> = {};
const client = await serveInMemory();
const admin = client.as('admin');
const viewer = client.as('viewer');
const make = async (name: string, fields: object) => {
  ids[name] = (await admin.post('/node', { json: { name, ...fields } })).body.uuid;
};
const interior = { routerMode: 'interior', host: '10.0.0.1', interRouterPort: 55671, edgeRouterPort: 45671 };
await make('core', { ...interior, busMode: 'server' });
await make('east', { upstreamRouters: ['core'], busMode: 'leaf', upstreamBusServers: ['core'] });
await make('west', { upstreamRouters: ['core'] });

test('the summary counts both networks', async () => {
  expect((await viewer.get('/network-topology/summary')).body).toEqual({
    controlPlane: 'orchestrator',
    router: { totalNodes: 3, totalConnections: 2, byRole: { default: 0, interior: 1, edge: 2 } },
    bus: { totalNodes: 2, totalConnections: 1, byRole: { hub: 0, server: 1, leaf: 1 } },
  });
});

describe('the router network', () => {
  test('has no default router while routers are off', async () => {
    const { body } = await viewer.get('/network-topology/router/overview');
    expect(body).toMatchObject({ defaultNode: null, interiorNodes: [{ fogName: 'core' }] });
    expect((await viewer.get('/network-topology/router/nodes/default-router')).status).toBe(404);
  });

  test('is listed page by page, by role and by the beginning of the name', async () => {
    const { body } = await viewer.get('/network-topology/router/nodes?limit=1&offset=1');
    expect(body).toMatchObject({ total: 3, limit: 1, offset: 1, nodes: [{ fogName: 'east' }] });
    expect((await viewer.get('/network-topology/router/nodes?role=edge&search=we')).body.nodes).toMatchObject([
      { fogName: 'west' },
    ]);
    expect((await viewer.get('/network-topology/router/nodes?limit=501')).status).toBe(400);
    expect((await viewer.get('/network-topology/router/nodes?colour=red')).status).toBe(400);
  });

  test('shows one node with its ports and its connections', async () => {
    expect((await viewer.get(`/network-topology/router/nodes/${ids.core}`)).body).toMatchObject({
      fogName: 'core',
      interRouterPort: 55671,
      isDefault: false,
    });
    const { body } = await viewer.get(`/network-topology/router/nodes/${ids.core}/connections`);
    expect(body).toMatchObject({ upstream: [], downstream: [{ source: ids.east }, { source: ids.west }] });
    expect((await viewer.get('/network-topology/router/nodes/nowhere/connections')).status).toBe(404);
  });

  test('has a connection for each configured upstream', async () => {
    const { body } = await viewer.get('/network-topology/router/connections?limit=1');
    expect(body).toMatchObject({ total: 2, connections: [{ source: ids.east, dest: ids.core }] });
  });

  test('shows the surroundings of a node', async () => {
    const { body } = await viewer.get(`/network-topology/router/subgraph?center=${ids.east}&depth=2`);
    expect(body.nodes).toHaveLength(3);
    expect(body.connections).toHaveLength(2);
    expect((await viewer.get(`/network-topology/router/subgraph?center=${ids.east}&depth=3`)).status).toBe(400);
    expect((await viewer.get('/network-topology/router/subgraph')).status).toBe(400);
    expect((await viewer.get('/network-topology/router/subgraph?center=nowhere')).status).toBe(404);
  });
});

test('the bus network has the nodes with a bus mode, under both spellings of its path', async () => {
  const { body } = await viewer.get('/network-topology/bus/overview');
  expect(body).toMatchObject({ defaultNode: null, serverNodes: [{ fogName: 'core' }] });
  expect((await viewer.get('/network-topology/nats/overview')).body).toEqual(body);
  expect((await viewer.get('/network-topology/bus/nodes?role=leaf')).body).toMatchObject({ total: 1 });
  expect((await viewer.get(`/network-topology/bus/nodes/${ids.east}`)).body).toMatchObject({ leafPort: 7422 });
  expect((await viewer.get(`/network-topology/bus/nodes/${ids.east}/connections`)).body.upstream).toHaveLength(1);
  expect((await viewer.get('/network-topology/bus/connections')).body.total).toBe(1);
  expect((await viewer.get(`/network-topology/bus/subgraph?center=${ids.east}`)).body.nodes).toHaveLength(2);
});
