import { describe, expect, test } from 'vitest';
import { makeBusLookups } from '../../../../testing/inputs.ts';
import type { EdgeNodeSpec } from '../../../api/v3/index.ts';
import { makeNode } from '../_make.ts';
import { hubDetails, subgraph, topologyDetails, topologyOf, topologyOverview, topologySummary } from './topology.ts';

const node = (name: string, spec: Partial<EdgeNodeSpec>) => {
  const made = makeNode({ name });
  return { ...made, spec: { ...spec, uuid: name }, status: undefined } as ReturnType<typeof makeNode>;
};
const NODES = [
  node('core', { routerMode: 'interior', host: '10.0.0.1' }),
  node('east', { upstreamRouters: ['core', 'default-router', 'nowhere'] }),
  node('west', { routerMode: 'edge', upstreamRouters: ['core', 'core'] }),
  node('alone', { routerMode: 'edge', containerEngine: 'embedded' }),
  node('off', { routerMode: 'none' }),
];
const router = topologyOf('router', NODES, { isBusOn: false });

describe('the router network', () => {
  test('has every node but those with the mode none', () => {
    expect([...router.nodes.keys()]).toEqual(['alone', 'core', 'east', 'west']);
    expect(router.nodes.get('core')).toMatchObject({ role: 'interior', host: '10.0.0.1', deploymentTarget: 'remote' });
    expect(router.nodes.get('alone')?.deploymentTarget).toBe('embedded');
  });

  test('has one connection for each upstream that is a node of it, and none to a default router that does not exist', () => {
    expect(router.connections).toEqual([
      { id: 'east-core', source: 'east', dest: 'core' },
      { id: 'west-core', source: 'west', dest: 'core' },
    ]);
  });

  test('is summarised by role', () => {
    expect(topologySummary('router', router)).toEqual({
      totalNodes: 4,
      totalConnections: 2,
      byRole: { default: 0, interior: 1, edge: 3 },
    });
  });

  test('has in its overview the interior nodes, the edges of each and those without an upstream', () => {
    const { defaultNode, interiorNodes, spokeGroups } = topologyOverview('router', router);
    expect(defaultNode).toBeNull();
    expect(interiorNodes).toEqual([router.nodes.get('core')]);
    expect(spokeGroups).toEqual([
      { upstreamOf: null, role: 'edge', count: 1 },
      { upstreamOf: 'core', role: 'edge', count: 2 },
    ]);
  });

  test('shows the ports of a node, defaults included', () => {
    expect(topologyDetails('router', NODES[0] as never)).toMatchObject({ messagingPort: 5671, isDefault: false });
  });
});

describe('the router network while nodes have routers', () => {
  const own = { id: 'default-router', host: 'hub', deploymentTarget: 'orchestrator', role: 'default' } as const;
  const on = (nodes: readonly (typeof NODES)[number][], core?: typeof own) =>
    topologyOf('router', nodes, { isBusOn: false, hasRouters: true, own: core });
  const pairs = ({ connections }: ReturnType<typeof on>) => connections.map(({ id }) => id);

  test('has the default router, to which nodes that name no router connect', () => {
    const whole = on(NODES, own);
    expect(topologyOverview('router', whole).defaultNode).toMatchObject({ id: 'default-router', role: 'default' });
    expect(pairs(whole)).toEqual([
      'alone-default-router',
      'core-default-router',
      'east-core',
      'east-default-router',
      'west-core',
    ]);
  });

  test('has no node without a mode while there is no default router', () => {
    expect([...on(NODES).nodes.keys()]).toEqual(['alone', 'core', 'west']);
  });

  test('has the oldest node of the system as the default router outside of a cluster', () => {
    const system = [node('s1', { isSystem: true }), node('s2', { isSystem: true }), node('edge', {})];
    for (const [i, { metadata }] of system.entries()) metadata.creationTimestamp = `2026-01-0${i + 1}T00:00:00Z`;
    const whole = on(system);
    expect([...whole.nodes.values()].map(({ id, role }) => [id, role])).toEqual([
      ['edge', 'edge'],
      ['s1', 'default'],
      ['s2', 'interior'],
    ]);
    expect(pairs(whole)).toEqual(['edge-s1', 'edge-s2', 's2-s1']);
  });

  test('has the links that routers report over those that are asked for, to members alone and from the node that reports', () => {
    const reporting = (links: string[]) =>
      NODES.map((one) =>
        one.metadata.name === 'east' ? { ...one, status: { router: { isCurrent: true, links } } as never } : one,
      );
    const of = (links: string[]) => pairs(on(reporting(links), own)).filter((id) => id.startsWith('east'));
    expect(of(['default-router', 'west', 'nowhere', 'off', 'east'])).toEqual(['east-default-router', 'east-west']);
    expect(of([])).toEqual([]);
  });
});

describe('a subgraph', () => {
  const names = (depth: number, limit = 100) =>
    subgraph(router, { center: 'east', depth, limit }).nodes.map(({ id }) => id);
  test('goes as many connections away from its centre as asked', () => {
    expect(names(1)).toEqual(['east', 'core']);
    expect(names(2)).toEqual(['east', 'core', 'west']);
  });

  test('has no more nodes than the limit, and only connections between them', () => {
    expect(subgraph(router, { center: 'core', depth: 1, limit: 2 })).toMatchObject({
      nodes: [{ id: 'core' }, { id: 'east' }],
      connections: [{ id: 'east-core' }],
    });
  });

  test('never has more than 200 nodes', () => {
    const star = [
      node('hub', { routerMode: 'interior' }),
      ...Array.from({ length: 400 }, (_, i) => node(`edge-${i}`, { upstreamRouters: ['hub'] })),
    ];
    expect(
      subgraph(topologyOf('router', star, { isBusOn: false }), { center: 'hub', depth: 1, limit: 500 }).nodes,
    ).toHaveLength(200);
  });
});

test('the bus network is empty until nodes have a bus mode', () => {
  expect(topologyOf('bus', NODES, { isBusOn: false }).nodes.size).toBe(0);
  const bus = topologyOf(
    'bus',
    [node('a', { busMode: 'server' }), node('b', { busMode: 'leaf', upstreamBusServers: ['a'] })],
    { isBusOn: false },
  );
  expect(topologyOverview('bus', bus)).toMatchObject({
    serverNodes: [{ id: 'a' }],
    spokeGroups: [{ upstreamOf: 'a', role: 'leaf', count: 1 }],
  });
  expect(topologyDetails('bus', node('a', { busMode: 'server' }))).toMatchObject({ serverPort: 4222, isHub: false });
});

test('every node without a bus mode is a leaf of the bus network while the bus is on', () => {
  const bus = topologyOf('bus', [node('a', {}), node('b', { busMode: 'none' })], { isBusOn: true });
  expect([...bus.nodes.values()]).toMatchObject([{ id: 'a', role: 'leaf' }]);
});

test('the hub is a member of the bus network, and what names no bus server connects to it', () => {
  const own = { id: 'default-bus-hub', host: 'bus.example', deploymentTarget: 'orchestrator', role: 'hub' } as const;
  const bus = topologyOf(
    'bus',
    [
      node('a', { busMode: 'server' }),
      node('b', {}),
      node('c', { upstreamBusServers: ['a'] }),
      node('d', { upstreamBusServers: ['a', 'default-bus-hub'] }),
      node('e', { isSystem: true }),
    ],
    { isBusOn: true, own },
  );
  expect(bus.connections.map(({ id }) => id)).toEqual([
    'a-default-bus-hub',
    'b-default-bus-hub',
    'c-a',
    'd-a',
    'd-default-bus-hub',
  ]);
  expect(topologyOverview('bus', bus)).toMatchObject({
    defaultNode: { id: 'default-bus-hub', nodeUuid: '', role: 'hub' },
    serverNodes: [{ id: 'a' }, { id: 'e' }],
    spokeGroups: [
      { upstreamOf: 'default-bus-hub', count: 2 },
      { upstreamOf: 'a', count: 2 },
    ],
  });
});

test('the details of the hub have the same members as the details of a node', () => {
  const hub = makeBusLookups().hub();
  const ofNode = topologyDetails('bus', node('a', { busMode: 'server' }));
  expect(hub && Object.keys(hubDetails(hub)).toSorted()).toEqual(Object.keys(ofNode).toSorted());
  expect(hub && hubDetails(hub)).toMatchObject({ serverPort: 4333, isHub: true });
});
