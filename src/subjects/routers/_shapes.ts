import type { BridgedService, ServiceLookups } from '../../rules/bridges.ts';
import { makeNode } from '../nodes/_make.ts';
import {
  bridgesOfHub,
  bridgesOfNode,
  joinBridges,
  type PlacedMicroservice,
  type RunningMode,
} from './rules/bridges.ts';
import type { RouterConfigInput } from './rules/config.ts';

/** Routers of every shape, for tests. */

export const PREFIX = 'service.skerry.dev/tag';

/** Look-ups among exactly these services. */
export function makeServiceLookups(services: readonly BridgedService[]): ServiceLookups {
  return {
    tagPrefix: PREFIX,
    all: () => services,
    tagged: (token) => services.filter(({ tags }) => !/[:=]/.test(token) && tags.includes(token)),
    backedBy: (resource) => services.filter((service) => service.resource === resource),
    bridgedAt: (uuid) => services.filter(({ defaultBridge }) => defaultBridge === uuid),
  };
}

export const makeService = (name: string, more: Partial<BridgedService> = {}): BridgedService => ({
  ...{ name, type: 'microservice', resource: 'shop/web', targetPort: 8080, bridgePort: 10_024, tags: [], since: name },
  ...more,
});

const WEB: PlacedMicroservice = {
  ...{ uuid: 'aaaaaaaa-0000-4000-8000-000000000001', application: 'shop', name: 'web' },
  isOnHostNetwork: false,
};
const CAMERA: PlacedMicroservice = {
  ...{ uuid: 'aaaaaaaa-0000-4000-8000-000000000002', application: 'press', name: 'camera' },
  isOnHostNetwork: true,
};

const SERVICES: readonly BridgedService[] = [
  makeService('web', { resource: WEB.uuid, tags: ['north', 'team:press'] }),
  makeService('camera', { resource: 'press/camera', targetPort: 554, bridgePort: 10_025, tags: ['north'] }),
  makeService('ssh', { type: 'agent', resource: 'gw-1', targetPort: 22, bridgePort: 10_026 }),
  makeService('erp', {
    type: 'external',
    resource: 'erp.plant.example',
    targetPort: 443,
    bridgePort: 10_027,
    tags: ['south'],
  }),
  makeService('db', { type: 'cluster', resource: 'postgres.data.svc', targetPort: 5432, bridgePort: 10_028 }),
];

const NODE = '11111111-1111-4111-8111-111111111111';
const UPSTREAM = '22222222-2222-4222-8222-222222222222';
const PORTS = { messaging: 5671, edge: 45_671, interRouter: 55_671 };
const NONE = { listeners: [], connectors: [] };

const onNode = (mode: RunningMode, tags: readonly string[]) =>
  bridgesOfNode(makeNode({ name: 'gw-1', uuid: NODE, spec: { tags: [...tags] } }), {
    mode,
    microservices: [WEB, CAMERA],
    services: makeServiceLookups(SERVICES),
  });

const node = (mode: RunningMode, more: Partial<RouterConfigInput>): RouterConfigInput => ({
  ...{ id: NODE, mode, place: 'node', site: { platform: 'docker' }, ports: PORTS, upstreams: [], bridges: NONE },
  ...more,
});

const HUB = { name: 'default-router', host: 'router.skerry.example' };
const OTHER = { name: UPSTREAM, host: '192.0.2.7' };

export const SHAPES: Readonly<Record<string, RouterConfigInput>> = {
  'hub-without-services': {
    ...{ id: 'default-router', mode: 'interior', place: 'hub', ports: PORTS, upstreams: [], bridges: NONE },
    site: { platform: 'kubernetes', namespace: 'skerry' },
  },
  'hub-with-services': {
    ...{ id: 'default-router', mode: 'interior', place: 'hub', ports: PORTS, upstreams: [] },
    ...{ site: { platform: 'kubernetes', namespace: 'skerry' }, bridges: bridgesOfHub(SERVICES) },
  },
  'edge-at-the-hub': node('edge', { upstreams: [{ ...HUB, port: 45_671 }] }),
  'edge-with-two-upstreams-and-services': node('edge', {
    upstreams: [
      { ...OTHER, port: 45_700 },
      { ...HUB, port: 45_671 },
    ],
    bridges: onNode('edge', [`${PREFIX}: all`]),
  }),
  'edge-with-a-port-of-its-own': node('edge', { ports: { ...PORTS, messaging: 5_999 }, bridges: onNode('edge', []) }),
  'interior-alone': node('interior', {}),
  'interior-with-upstreams-and-services': node('interior', {
    ports: { messaging: 5_671, edge: 45_700, interRouter: 55_700 },
    upstreams: [
      { ...HUB, port: 55_671 },
      { ...OTHER, port: 55_671 },
    ],
    bridges: onNode('interior', [`${PREFIX}:north`, `${PREFIX}: south `, 'north']),
  }),
  'system-node-as-hub': node('interior', { bridges: joinBridges(bridgesOfHub(SERVICES), onNode('interior', [])) }),
};
