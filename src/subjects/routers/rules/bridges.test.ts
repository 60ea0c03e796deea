import { describe, expect, test } from 'vitest';
import type { BridgedService } from '../../../rules/bridges.ts';
import { makeNode } from '../../nodes/_make.ts';
import { makeService, makeServiceLookups, PREFIX } from '../_shapes.ts';
import { type Bridges, bridgesOfHub, bridgesOfNode, type PlacedMicroservice, type RunningMode } from './bridges.ts';
import { serviceTokens } from './tags.ts';

const NODE = '11111111-1111-4111-8111-111111111111';
const UUID = 'aaaaaaaa-0000-4000-8000-000000000001';
const placed: PlacedMicroservice = { uuid: UUID, application: 'shop', name: 'web', isOnHostNetwork: false };

interface At {
  mode?: RunningMode;
  tags?: readonly string[];
  microservices?: readonly PlacedMicroservice[];
}

const onNode = (services: readonly BridgedService[], { mode = 'edge', tags = [], microservices = [] }: At): Bridges =>
  bridgesOfNode(makeNode({ name: 'gw-1', uuid: NODE, spec: { tags: [...tags] } }), {
    ...{ mode, microservices },
    services: makeServiceLookups(services),
  });

describe('the connector of a service', () => {
  const agent = makeService('s', { type: 'agent', resource: NODE, targetPort: 22 });
  const microservice = makeService('s', { resource: UUID });
  const onHost = { ...placed, isOnHostNetwork: true };
  test.each<[string, BridgedService, At, string, string]>([
    [
      'a microservice on the bridge network, from an edge router',
      microservice,
      { microservices: [placed] },
      'shop.web',
      UUID,
    ],
    [
      'a microservice on the host network, from an edge router',
      microservice,
      { microservices: [onHost] },
      'skerry-agent.default.svc.bridge.local',
      UUID,
    ],
    [
      'a microservice, from an interior router',
      microservice,
      { mode: 'interior', microservices: [placed] },
      '127.0.0.1',
      UUID,
    ],
    [
      'a microservice on the host network, from an interior router',
      microservice,
      { mode: 'interior', microservices: [onHost] },
      '127.0.0.1',
      UUID,
    ],
    ['a machine, from its edge router', agent, {}, 'skerry-agent.default.svc.bridge.local', `${NODE}-local-22`],
    ['a machine, from its interior router', agent, { mode: 'interior' }, '127.0.0.1', `${NODE}-local-22`],
  ])('reaches %s', (_, service, at, host, processId) => {
    const port = String(service.targetPort);
    expect(onNode([service], at).connectors).toEqual([{ name: 's-connector', host, port, address: 's', processId }]);
  });

  test.each([
    ['cluster', 'db.data.svc-cluster-5432'],
    ['external', 'db.data.svc-external-5432'],
  ] as const)('dials the resource of a service of type %s from the default router alone', (type, processId) => {
    const service = makeService('db', { type, resource: 'db.data.svc', targetPort: 5432 });
    const connector = { name: 'db-connector', host: 'db.data.svc', port: '5432', address: 'db', processId };
    expect(bridgesOfHub([service]).connectors).toEqual([connector]);
    expect(onNode([service], { tags: [`${PREFIX}: all`] }).connectors).toEqual([]);
  });
});

test('a backend is found by its uuid and by its name, once', () => {
  const services = [
    makeService('a', { resource: UUID }),
    makeService('b', { resource: 'shop/web', bridgePort: 10_025 }),
    makeService('c', { type: 'agent', resource: 'gw-1', bridgePort: 10_026 }),
    makeService('d', { type: 'agent', resource: 'shop/web', bridgePort: 10_027 }),
    makeService('e', { resource: 'other/web', bridgePort: 10_028 }),
  ];
  const { connectors } = onNode(services, { microservices: [placed] });
  expect(connectors.map(({ address }) => address)).toEqual(['a', 'b', 'c']);
});

test('the default router listens for every service, whatever its type and tags', () => {
  const services = [makeService('a', { tags: ['x'] }), makeService('b', { type: 'external', bridgePort: 10_025 })];
  expect(bridgesOfHub(services).listeners).toEqual([
    { name: 'a-listener', port: '10024', address: 'a' },
    { name: 'b-listener', port: '10025', address: 'b' },
  ]);
});

describe('a node listens for', () => {
  const services = [
    makeService('north', { tags: ['north'] }),
    makeService('plain', { bridgePort: 10_025 }),
    makeService('annotated', { tags: ['team:north', 'a=north'], bridgePort: 10_026 }),
    makeService('bridged', { defaultBridge: NODE, bridgePort: 10_027 }),
  ];
  test.each<[string, readonly string[], readonly string[]]>([
    ['nothing but what it is the bridge of, without a tag', [], ['bridged']],
    ['every service, by the token all', [`${PREFIX}: all`], ['annotated', 'bridged', 'north', 'plain']],
    ['services with its token', [`${PREFIX}: north`], ['bridged', 'north']],
    ['services with its token, however the tag is spaced', [` ${PREFIX} :north `], ['bridged', 'north']],
    ['nothing by a bare token', ['north', 'all'], ['bridged']],
    ['nothing by another prefix', ['other.example/tag: all'], ['bridged']],
    [
      'nothing by a tag of a service that has a colon or an equals sign',
      [`${PREFIX}: team:north`, `${PREFIX}: a=north`],
      ['bridged'],
    ],
    [
      'each service once, by several tokens',
      [`${PREFIX}: north`, `${PREFIX}: all`],
      ['annotated', 'bridged', 'north', 'plain'],
    ],
  ])('%s', (_, tags, expected) => {
    expect(onNode(services, { tags }).listeners.map(({ address }) => address)).toEqual(expected);
  });
});

test('tokens are the text after the first colon, and empty tokens none', () => {
  expect([...serviceTokens([`${PREFIX}:a:b`, `${PREFIX}:`, `${PREFIX}:  `, PREFIX], PREFIX)]).toEqual(['a:b']);
});

/** The nine rules of Services, written once more, without a look-up: what every router has. */
function model(world: World, at: ModelNode | 'hub'): { listeners: string[]; connectors: string[] } {
  const listeners: string[] = [];
  const connectors: string[] = [];
  for (const service of world.services) {
    const { name, type, resource, targetPort, bridgePort, tags, defaultBridge } = service;
    const isSelected =
      at === 'hub' ||
      defaultBridge === at.uuid ||
      at.tags.some((tag) => tag === `${PREFIX}: all`) ||
      at.tags.some((tag) =>
        tags.some((own) => !own.includes(':') && !own.includes('=') && tag === `${PREFIX}: ${own}`),
      );
    if (isSelected) listeners.push(`${name} ${bridgePort}`);
    if (at === 'hub') {
      if (type === 'cluster' || type === 'external') connectors.push(`${name} ${resource}:${targetPort}`);
      continue;
    }
    const loopback = '127.0.0.1';
    const machine = at.mode === 'interior' ? loopback : 'skerry-agent.default.svc.bridge.local';
    if (type === 'agent' && (resource === at.uuid || resource === at.name))
      connectors.push(`${name} ${machine}:${targetPort}`);
    const backend = at.microservices.find(
      (one) => type === 'microservice' && (resource === one.uuid || resource === `${one.application}/${one.name}`),
    );
    if (!backend) continue;
    const host =
      at.mode === 'interior' ? loopback : backend.isOnHostNetwork ? machine : `${backend.application}.${backend.name}`;
    connectors.push(`${name} ${host}:${targetPort}`);
  }
  return { listeners: listeners.sort(), connectors: connectors.sort() };
}

interface ModelNode {
  uuid: string;
  name: string;
  mode: RunningMode;
  tags: string[];
  microservices: PlacedMicroservice[];
}
interface World {
  services: BridgedService[];
  nodes: ModelNode[];
}

describe('random services, tags, modes, moves and deletions', () => {
  test.each(Array.from({ length: 20 }, (_, seed) => seed + 1))(
    'give every router what the model has, seed %i',
    (seed) => {
      let state = seed * 2_654_435_761;
      const random = (below: number) => {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
        return Math.floor((state / 2 ** 32) * below);
      };
      const pick = <T>(of: readonly T[]): T => of[random(of.length)] as T;
      const tokens = ['north', 'south', 'press', 'a:b', 'k=v'];
      const world: World = { services: [], nodes: [] };
      const microservices = () => world.nodes.flatMap((node) => node.microservices);
      const resourceOf = (type: BridgedService['type']) => {
        if (type === 'agent') return pick(world.nodes.flatMap(({ uuid, name }) => [uuid, name]));
        if (type !== 'microservice') return pick(['db.data.svc', '192.0.2.9']);
        const { uuid, application, name } = pick(microservices());
        return pick([uuid, `${application}/${name}`]);
      };
      for (let i = 0; i < 5; i++)
        world.nodes.push({
          ...{ uuid: `node-${i}`, name: `gw-${i}`, mode: pick(['edge', 'interior'] as const), tags: [] },
          microservices: [{ uuid: `ms-${i}`, application: `app${i}`, name: 'web', isOnHostNetwork: random(2) === 0 }],
        });
      let next = 0;
      const edits: (() => void)[] = [
        () => {
          const type = pick(['microservice', 'agent', 'cluster', 'external'] as const);
          if (type === 'microservice' && microservices().length === 0) return;
          const name = `s${next++}`;
          const bridge = random(4) === 0 ? { defaultBridge: pick(world.nodes).uuid } : {};
          const tags = tokens.filter(() => random(3) === 0);
          world.services.push(
            makeService(name, {
              type,
              resource: resourceOf(type),
              targetPort: 1 + random(9_999),
              bridgePort: 10_024 + next,
              tags,
              ...bridge,
            }),
          );
        },
        () => void world.services.splice(random(world.services.length + 1), 1),
        () => {
          const service = world.services[random(world.services.length + 1)];
          if (service) service.tags = tokens.filter(() => random(3) === 0);
        },
        () => {
          pick(world.nodes).tags = [...tokens, 'all']
            .filter(() => random(3) === 0)
            .map((token) => `${PREFIX}: ${token}`);
        },
        () => {
          pick(world.nodes).mode = pick(['edge', 'interior']);
        },
        () => {
          const from = pick(world.nodes);
          const moved = from.microservices.pop();
          if (moved) pick(world.nodes).microservices.push(moved);
        },
        () => {
          const [one] = microservices();
          if (one) one.isOnHostNetwork = random(2) === 0;
        },
        () => void pick(world.nodes).microservices.splice(0, random(5) === 0 ? 1 : 0),
      ];
      const shown = ({ listeners, connectors }: Bridges) => ({
        listeners: listeners.map(({ address, port }) => `${address} ${port}`).sort(),
        connectors: connectors.map(({ address, host, port }) => `${address} ${host}:${port}`).sort(),
      });
      for (let step = 0; step < 60; step++) {
        pick(edits)();
        expect(shown(bridgesOfHub(world.services))).toEqual(model(world, 'hub'));
        for (const node of world.nodes) {
          const { uuid, name, mode, tags, microservices: here } = node;
          const made = bridgesOfNode(makeNode({ uuid, name, spec: { tags } }), {
            ...{ mode, microservices: here },
            services: makeServiceLookups(world.services),
          });
          expect(shown(made)).toEqual(model(world, node));
        }
      }
    },
  );
});
