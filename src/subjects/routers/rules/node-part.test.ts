import { describe, expect, test } from 'vitest';
import { storedNode } from '../../../../testing/stored.ts';
import type { EdgeNode, EdgeNodeSpec } from '../../../api/v3/index.ts';
import { configProblems } from '../../../router-schema/check.ts';
import type { BridgedService, ServiceLookups } from '../../../rules/bridges.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { PartInputs } from '../../../rules/part.ts';
import type { RouterPair } from '../../../wire/router.ts';
import { ROUTER } from './node-part.ts';

const FACTS = { hasDefaultRouter: true, isBusEnabled: false, hasRouters: true };
const HUB = { host: 'router.example', edgeRouterPort: 45671, interRouterPort: 55671 };
const CORE = storedNode('core', { routerMode: 'interior', host: 'core.example', edgeRouterPort: 7001 });
const EDGE = storedNode('other', { routerMode: 'edge', host: 'other.example' });

const service = (name: string, more: Partial<BridgedService> = {}): BridgedService => ({
  ...{
    name,
    type: 'microservice',
    resource: 'plant/pump',
    targetPort: 80,
    bridgePort: 10_024,
    tags: ['all'],
    since: name,
  },
  ...more,
});

const lookupsOf = (services: readonly BridgedService[]): ServiceLookups => ({
  tagPrefix: 'service',
  backedBy: (resource) => services.filter((one) => one.resource === resource),
  tagged: (token) => services.filter(({ tags }) => tags.includes(token)),
  all: () => services,
  bridgedAt: () => [],
});

function inputsOf(more: Partial<PartInputs> = {}): PartInputs {
  const nodes = [CORE, EDGE];
  return {
    key: () => undefined,
    secret: () => undefined,
    upstreamNode: (ref) => nodes.find((node) => node.spec.name === ref || node.metadata.name === ref),
    defaultRouter: () => HUB,
    ...more,
  };
}

function madeOf(node: EdgeNode, more: Partial<PartInputs> = {}, facts = FACTS) {
  const wants = ROUTER.wants(node, facts);
  const inputs = inputsOf(more);
  const files = wants?.files?.(inputs).sets.find(({ name }) => name === 'router-config')?.files ?? {};
  const text = (path: string) => Buffer.from(files[path] ?? '', 'base64').toString();
  const pairs = wants ? (JSON.parse(text('skrouterd.json')) as RouterPair[]) : [];
  const all = (kind: string) => pairs.flatMap(([entity, attributes]) => (entity === kind ? [attributes] : []));
  return { wants, pairs, all, start: text('start'), config: wants?.config?.(inputs) as Record<string, object> };
}

const GATEWAY = storedNode('gw', { host: 'gw.example' });
const gateway = (spec: Partial<EdgeNodeSpec> = {}): EdgeNode => ({ ...GATEWAY, spec: { ...GATEWAY.spec, ...spec } });

describe('the router of a node', () => {
  test.each([
    ['no router mode, without a default router', {}, { ...FACTS, hasDefaultRouter: false }],
    ['the mode none', { routerMode: 'none' }, FACTS],
    ['the mode edge while routers are off', { routerMode: 'edge' }, { ...FACTS, hasRouters: false }],
  ] as const)('does not exist with %s', (_, spec, facts) => {
    expect(ROUTER.wants(gateway(spec), facts)).toBeUndefined();
  });

  test.each([
    ['edge, which is the default', {}, false, [5671]],
    ['edge with a port of its own', { routerMode: 'edge', messagingPort: 6000 }, false, [6000]],
    ['interior', { routerMode: 'interior' }, true, [5671, 45_671, 55_671]],
    ['interior on a node of the system', { isSystem: true }, true, [5671, 45_671, 55_671]],
  ] as const)('has the network and ports of its mode: %s', (_, spec, hostNetworkMode, ports) => {
    const { wants, pairs } = madeOf(gateway(spec));
    expect(wants?.entry?.container).toMatchObject({
      hostNetworkMode,
      ports: ports.map((port) => ({ internal: port, external: port, protocol: 'tcp' })),
    });
    expect(configProblems(pairs)).toEqual([]);
  });

  test('has its configuration in the form of v3 as the config of its microservice', () => {
    const { config } = madeOf(gateway());
    expect(config).toMatchObject({
      metadata: { id: nodeUuid(gateway()), mode: 'edge' },
      connectors: { 'default-router': { host: 'router.example', port: '45671', role: 'edge' } },
      bridges: { tcpListeners: {}, tcpConnectors: {} },
    });
  });
});

describe('the router of a node connects', () => {
  const core = nodeUuid(CORE);
  test.each([
    ['to the default router when it names none', {}, {}, [['default-router', 'router.example', '45671']]],
    [
      'at another port as an interior router',
      { routerMode: 'interior' },
      {},
      [['default-router', 'router.example', '55671']],
    ],
    ['to a node that it names', { upstreamRouters: ['core'] }, {}, [[core, 'core.example', '7001']]],
    [
      'to both when it names both',
      { upstreamRouters: ['core', 'default-router'] },
      {},
      [
        [core, 'core.example', '7001'],
        ['default-router', 'router.example', '45671'],
      ],
    ],
    ['to no edge router', { upstreamRouters: ['other'] }, {}, []],
    ['to nothing while there is no default router', {}, { defaultRouter: () => undefined }, []],
  ] as const)('%s', (_, spec, inputs, expected) => {
    const connectors = madeOf(gateway(spec as Partial<EdgeNodeSpec>), inputs).all('connector');
    expect(connectors.map(({ name, host, port }) => [name, host, port])).toEqual(
      expected.toSorted(([a], [b]) => (a < b ? -1 : 1)),
    );
  });

  test('to the routers of all nodes of the system on a control plane outside of a cluster; of two of these the younger to the older', () => {
    const [first, second] = ['sys-1', 'sys-2'].map((name) => storedNode(name, { isSystem: true, host: name })) as [
      EdgeNode,
      EdgeNode,
    ];
    const inputs = { defaultRouter: () => undefined, systemNodes: () => [first, second] };
    const upstreams = (node: EdgeNode) =>
      madeOf(node, inputs)
        .all('connector')
        .map(({ host }) => host);
    expect(upstreams(gateway()).toSorted()).toEqual(['sys-1', 'sys-2']);
    expect(upstreams(first)).toEqual([]);
    expect(upstreams(second)).toEqual(['sys-1']);
  });
});

describe('the services of the router of a node', () => {
  const placed = () => [{ uuid: 'u-1', application: 'plant', name: 'pump', isOnHostNetwork: false }];
  test('have a connector where the backend is placed and a listener where tags select them', () => {
    const services = lookupsOf([service('pump')]);
    const { all } = madeOf(gateway({ tags: ['service:all'] }), { services, placed });
    expect(all('tcpConnector')).toMatchObject([{ name: 'pump-connector', host: 'plant.pump', processId: 'u-1' }]);
    expect(all('tcpListener')).toMatchObject([{ name: 'pump-listener', port: '10024' }]);
  });

  test('include the services of the default router on the first node of the system', () => {
    const node = storedNode('sys-1', { isSystem: true, host: 'sys-1' });
    const services = lookupsOf([service('out', { type: 'external', resource: 'db.example' }), service('pump')]);
    const { all } = madeOf(node, { services, systemNodes: () => [node], defaultRouter: () => undefined });
    expect(all('tcpConnector')).toMatchObject([{ name: 'out-connector', host: 'db.example' }]);
    expect(all('tcpListener').map(({ name }) => name)).toEqual(['out-listener', 'pump-listener']);
  });

  test('replace no container: neither they, nor other upstreams, nor another port of a service', () => {
    const before = madeOf(gateway());
    const services = lookupsOf([service('pump')]);
    const after = madeOf(gateway({ tags: ['service:all'], upstreamRouters: ['core'] }), { services, placed });
    expect(after.pairs).not.toEqual(before.pairs);
    expect(after.start).toBe(before.start);
    expect(after.wants?.entry).toEqual(before.wants?.entry);
  });

  test('another mode replaces the container once: the file that replaces it follows the stored microservice', () => {
    const routerOn = (isOnHostNetwork: boolean) => () => [
      { uuid: 'r', application: 'system-gw', name: 'router', isOnHostNetwork },
    ];
    const [edge, interior] = [gateway(), gateway({ routerMode: 'interior' })];
    const before = madeOf(edge, { placed: routerOn(false) });
    const meanwhile = madeOf(interior, { placed: routerOn(false) });
    const after = madeOf(interior, { placed: routerOn(true) });
    expect([meanwhile.start, meanwhile.all('router')]).toEqual([
      before.start,
      [expect.objectContaining({ mode: 'interior' })],
    ]);
    expect([after.start, after.all('router')]).toEqual([madeOf(interior).start, meanwhile.all('router')]);
    expect(after.start).not.toBe(before.start);
  });
});
