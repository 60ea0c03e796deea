import { describe, expect, test } from 'vitest';
import { NAMESPACE } from '../../../testing/in-memory-controller.ts';
import type { EdgeNode, RouterHub } from '../../api/v3/index.ts';
import { refOf } from '../../kube/mod.ts';
import { nodeUuid } from '../../rules/identity.ts';
import { ROUTER_HUB_OBJECT } from '../../rules/router-hub.ts';
import { ROUTER_FILES, ROUTER_SETS, type RouterPair } from '../../wire/router.ts';
import { RESOURCES } from '../kinds.ts';
import type { RouterMap } from '../routers/rules/forms.ts';
import { servicesInMemory } from './_fleet.ts';

/** A controller in memory: which routers have which ends of services, as agents and the hub get them. */
const on = servicesInMemory(5, { ROUTER_HUB: 'true' });

const node = (i: number) => on.fleet.stores.nodes.get(NAMESPACE, `gateway-${i}`) as EdgeNode;
async function edit(i: number, spec: Partial<EdgeNode['spec']>) {
  on.fleet.cluster.edit(node(i), (copy) => Object.assign(copy.spec, spec));
  await on.fleet.settle();
}
const tags = (...tokens: string[]) => ({ tags: tokens.map((token) => `skerry.dev/service: ${token}`) });
/** Nodes with routers: the first has the backends, the second has no tag, the others have one each. */
async function makeFleet() {
  await edit(0, { routerMode: 'edge', host: 'gw-0.example', tags: [] });
  await edit(1, { routerMode: 'interior', host: 'gw-1.example', tags: [] });
  await edit(2, { routerMode: 'edge', host: 'gw-2.example', ...tags('north') });
  await edit(3, { routerMode: 'edge', host: 'gw-3.example', ...tags('south') });
  await edit(4, { routerMode: 'edge', host: 'gw-4.example', ...tags('all') });
  const microservices = [{ name: 'web', agentName: 'gateway-0', images: [{ containerImage: 'a:1', archId: 1 }] }];
  expect((await on.send('POST', '/application', { name: 'shop', microservices })).status).toBe(201);
}

/** The ends of a service in the text of a configuration. */
function endsIn(text: string | undefined, name: string): Record<string, unknown>[] {
  const pairs = text === undefined ? [] : (JSON.parse(text) as RouterPair[]);
  return pairs.flatMap(([entity, { name: of, ...more }]) =>
    of === `${name}-listener` || of === `${name}-connector` ? [{ entity, ...more }] : [],
  );
}
const configOf = (i: number): string => configOfNode(node(i));
function configOfNode(of: EdgeNode): string {
  const sets = on.fleet.desired(nodeUuid(of))?.systemFiles ?? [];
  const { files = {} } = sets.find(({ name }) => name === ROUTER_SETS.config) ?? {};
  return Buffer.from(files[ROUTER_FILES.config] ?? '', 'base64').toString();
}
const hubText = () => on.fleet.stores.configMaps.get(NAMESPACE, 'skerry-router')?.data?.[ROUTER_FILES.config];
/** By router, the ends of a service that it has: `L` listens, `C` connects. */
function placesOf(name: string): Record<string, string> {
  const texts = [['hub', hubText()], ...[0, 1, 2, 3, 4].map((i) => [`gateway-${i}`, configOf(i)])] as const;
  return Object.fromEntries(
    texts.flatMap(([router, text]) => {
      const ends = endsIn(text, name).map(({ entity }) => (entity === 'tcpListener' ? 'L' : 'C'));
      return ends.length === 0 ? [] : [[router, ends.join('')]];
    }),
  );
}
/** The nodes whose files an act changes. */
async function changedBy(act: () => Promise<unknown>): Promise<number[]> {
  const all = [0, 1, 2, 3, 4];
  const before = all.map((i) => on.fleet.desired(nodeUuid(node(i)))?.digests.systemFiles);
  await act();
  return all.filter((i) => on.fleet.desired(nodeUuid(node(i)))?.digests.systemFiles !== before[i]);
}

const web = {
  ...{ name: 'web', type: 'microservice', resource: 'shop/web', targetPort: 80 },
  ...{ servicePort: 80, clusterType: 'ClusterIP', tags: ['north'] },
};

test('a status of the default router that moves no address leads to no node, and another address to all with a router', async () => {
  await makeFleet();
  const readWith = async (status: Partial<RouterHub['status']>) => {
    const hub = on.fleet.stores.routerHubs.get(NAMESPACE, ROUTER_HUB_OBJECT) as RouterHub;
    on.fleet.objectsRead.clear();
    const patch = { type: 'merge' as const, body: { status } };
    await on.fleet.cluster.client.patch(RESOURCES.routerHubs, refOf(hub), patch, { subresource: 'status' });
    await on.fleet.settle();
    // What a node is to have is made again when it is asked for.
    configOf(2);
    return [...on.fleet.objectsRead.keys()].filter((what) => what === 'services.byIndex tag');
  };
  expect(await readWith({ listeners: 7 })).toEqual([]);
  expect(await readWith({ host: 'router.plant.example' })).toEqual(['services.byIndex tag']);
});

describe('a service reaches', () => {
  test('the router of its backend, the hub, and the routers of the nodes whose tags select it', async () => {
    await makeFleet();
    const nodes = await changedBy(() => on.send('POST', '/services', web));
    expect(nodes).toEqual([0, 2, 4]);
    expect(placesOf('web')).toEqual({ hub: 'L', 'gateway-0': 'C', 'gateway-2': 'L', 'gateway-4': 'L' });
    const port = String(on.service('web')?.status?.bridgePort);
    expect(endsIn(configOf(2), 'web')).toEqual([{ entity: 'tcpListener', port, address: 'web' }]);
    expect(endsIn(configOf(0), 'web')).toMatchObject([{ host: 'shop.web', port: '80', address: 'web' }]);
  });

  test('the routers of its former and its new tags when an edit changes them, and no other', async () => {
    await makeFleet();
    await on.send('POST', '/services', { ...web, type: 'external', resource: 'db.example' });
    expect(await changedBy(() => on.send('PATCH', '/services/web', { tags: ['south'] }))).toEqual([2, 3]);
    expect(placesOf('web')).toEqual({ hub: 'CL', 'gateway-3': 'L', 'gateway-4': 'L' });
    expect(await changedBy(() => on.send('PATCH', '/services/web', { tags: ['south', 'example.com/a: b'] }))).toEqual(
      [],
    );
    expect(await changedBy(() => on.send('DELETE', '/services/web'))).toEqual([3, 4]);
    expect(placesOf('web')).toEqual({});
  });

  test('the router of another node when its backend is another one', async () => {
    await makeFleet();
    await edit(1, { upstreamRouters: ['default-router'] });
    await on.send('POST', '/services', { ...web, type: 'agent', resource: 'gateway-2', tags: [] });
    expect(placesOf('web')).toEqual({ hub: 'L', 'gateway-2': 'C', 'gateway-4': 'L' });
    expect(await changedBy(() => on.send('PATCH', '/services/web', { resource: 'gateway-3' }))).toEqual([2, 3]);
    expect(placesOf('web')).toEqual({ hub: 'L', 'gateway-3': 'C', 'gateway-4': 'L' });
  });

  test('the router of the node to which its microservice moves, once that node has it', async () => {
    await makeFleet();
    await on.send('POST', '/services', { ...web, tags: [] });
    const uuid = on.service('web')?.spec.resource ?? '';
    await on.send('PATCH', `/microservices/${uuid}`, { agentName: 'gateway-3' });
    on.fleet.report(node(0));
    await on.fleet.settle();
    expect(placesOf('web')).toEqual({ hub: 'L', 'gateway-3': 'C', 'gateway-4': 'L' });
  });

  test('the router of the node that is its bridge', async () => {
    await makeFleet();
    await edit(0, { upstreamRouters: ['gateway-1'] });
    const bridged = { ...web, tags: [], defaultBridge: nodeUuid(node(1)) };
    expect(await changedBy(() => on.send('POST', '/services', bridged))).toEqual([0, 1, 4]);
    expect(placesOf('web')).toEqual({ hub: 'L', 'gateway-0': 'C', 'gateway-1': 'L', 'gateway-4': 'L' });
  });

  test('a node alone whose tags change', async () => {
    await makeFleet();
    await on.send('POST', '/services', web);
    expect(await changedBy(() => edit(3, tags('north', 'south')))).toEqual([3]);
    expect(placesOf('web')['gateway-3']).toBe('L');
    expect(await changedBy(() => edit(3, { tags: ['north'] }))).toEqual([3]);
    expect(placesOf('web')['gateway-3']).toBeUndefined();
  });

  test('no router of a microservice or a node that claims the uuid of its backend', async () => {
    await makeFleet();
    await on.send('POST', '/services', { ...web, tags: [] });
    const uuid = on.service('web')?.spec.resource;
    const { client } = on.fleet.cluster;
    const { applications, nodes } = on.fleet.stores;
    const entry = { name: 'web', uuid, agent: { name: 'gateway-2' }, images: { amd64: 'a:1' } };
    await client.create(applications.resource, {
      ...{ apiVersion: 'skerry.dev/v3', kind: 'Application', metadata: { name: 'thief', namespace: NAMESPACE } },
      spec: { isActivated: true, microservices: [entry] },
    } as never);
    await on.send('POST', '/services', { ...web, name: 'ssh', type: 'agent', resource: 'gateway-0', tags: [] });
    const name = nodeUuid(node(0));
    await client.create(nodes.resource, {
      ...{ apiVersion: 'skerry.dev/v3', kind: 'EdgeNode', metadata: { name, namespace: NAMESPACE } },
      spec: { archId: 1, routerMode: 'edge', host: 'thief.example' },
    } as never);
    await on.fleet.settle();
    expect(placesOf('web')).toEqual({ hub: 'L', 'gateway-0': 'C', 'gateway-4': 'L' });
    expect(placesOf('ssh')).toEqual({ hub: 'L', 'gateway-0': 'C', 'gateway-4': 'L' });
    const thief = on.fleet.stores.nodes.get(NAMESPACE, name) as EdgeNode;
    expect(endsIn(configOfNode(thief), 'ssh')).toEqual([]);
  });
});

describe('a service that was made before', () => {
  test('a restore that dropped its status has its port again', async () => {
    await on.send('POST', '/services', { ...web, name: 'db', type: 'external', resource: 'db.example' });
    const port = on.service('db')?.status?.bridgePort;
    expect(on.service('db')?.metadata.labels).toMatchObject({ 'skerry.dev/bridge-port': String(port) });
    const before = on.service('db');
    await on.send('DELETE', '/services/db');
    const { client } = on.fleet.cluster;
    const { resource } = on.fleet.stores.services;
    const { name, labels, namespace } = before?.metadata ?? { name: '' };
    await client.create(resource, { ...before, metadata: { name, labels, namespace }, status: undefined } as never);
    await on.fleet.settle();
    expect(on.service('db')?.status?.bridgePort).toBe(port);
    expect(endsIn(hubText(), 'db')).toHaveLength(2);
  });

  test('the configuration of the default router was edited by hand has its ends there again', async () => {
    await on.send('POST', '/services', { ...web, name: 'db', type: 'external', resource: 'db.example' });
    const ends = endsIn(hubText(), 'db');
    const map = on.fleet.stores.configMaps.get(NAMESPACE, 'skerry-router');
    if (!map) throw new Error('there is no configuration of the default router');
    on.fleet.cluster.edit(map, (copy) => {
      copy.data = { [ROUTER_FILES.config]: '[]' };
    });
    await on.fleet.settle();
    expect(endsIn(hubText(), 'db')).toEqual(ends);
  });
});

describe('the config of the router of a node', () => {
  test('is read over REST in the form of v3, follows the services, and is not stored when a client sends it back', async () => {
    await makeFleet();
    await on.send('POST', '/services', web);
    const stored = () =>
      on.fleet.stores.applications
        .get(NAMESPACE, 'system-gateway-2')
        ?.spec.microservices?.find((one) => one.name === 'router');
    const listed = await on.send('GET', '/microservices/system?application=system-gateway-2');
    const [{ uuid = '' } = {}] = listed.body.microservices as { uuid?: string }[];
    const path = `/microservices/system/${uuid}`;
    const read = async () => {
      const [config, whole] = [await on.send('GET', `${path}/config`), await on.send('GET', path)];
      expect(whole.body.config).toBe(config.body);
      return JSON.parse(config.body as unknown as string) as RouterMap;
    };
    const port = String(on.service('web')?.status?.bridgePort);
    expect(await read()).toMatchObject({
      metadata: { mode: 'edge', id: nodeUuid(node(2)) },
      connectors: { 'default-router': { role: 'edge' } },
      bridges: { tcpListeners: { 'web-listener': { port, address: 'web' } }, tcpConnectors: {} },
    });
    const before = stored();
    const body = (await on.send('GET', path)).body;
    expect((await on.send('PATCH', path, { config: body.config })).status).toBe(204);
    expect(stored()).toEqual(before);
    await on.send('DELETE', '/services/web');
    expect((await read()).bridges.tcpListeners).toEqual({});
    // Nothing was changed by the config that a client sent back.
    expect(stored()?.config).toBeUndefined();
  });
});
