import { describe, expect, test } from 'vitest';
import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import type { Service } from '../../../api/v3/service.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';
import { makeNode } from '../../nodes/_make.ts';
import { makeApplication } from '../../workloads/_make.ts';
import { formVerdict, placeVerdict } from './verdict.ts';

const HUB = '33333333-3333-4333-8333-333333333333';
const OTHER = '44444444-4444-4444-8444-444444444444';
const application = makeApplication();
const [entry] = application.spec.microservices ?? [];
const READER = entryUuid(application, entry as { name: string });

type Spec = Partial<Service['spec']>;
const make = (spec: Spec = {}, name = 'db'): Service =>
  ({
    ...{ apiVersion: 'skerry.dev/v3', kind: 'Service', metadata: { name, namespace: 'skerry' } },
    spec: {
      ...{ type: 'external', resource: 'db.example', targetPort: 5432 },
      ...{ servicePort: 80, clusterType: 'ClusterIP', ...spec },
    },
  }) as Service;

interface World {
  nodes?: EdgeNode[];
  applications?: Application[];
  controlPlane?: 'kubernetes' | 'remote';
  hasDefaultRouter?: boolean;
}
function judge(service: Service, world: World = {}) {
  const edge = makeNode({ spec: { routerMode: 'edge' } });
  const { nodes = [edge], applications = [application], controlPlane = 'kubernetes', hasDefaultRouter = false } = world;
  const lookups = {
    nodeByName: (name: string) => nodes.find((node) => v3Name(node) === name),
    nodeByUuid: (uuid: string) => nodes.find((node) => nodeUuid(node) === uuid),
    applicationByName: (name: string) => applications.find((one) => v3Name(one) === name),
    applicationsWithEntry: (uuid: string) =>
      applications.filter((one) => (one.spec.microservices ?? []).some((each) => entryUuid(one, each) === uuid)),
  };
  return formVerdict(service) ?? placeVerdict(service, { lookups, controlPlane, facts: { hasDefaultRouter } });
}

describe('a service', () => {
  const upstream = (routerMode: 'interior' | 'edge') => [
    makeNode({ spec: { routerMode: 'edge', upstreamRouters: ['hub'] } }),
    makeNode({ name: 'hub', uuid: HUB, spec: { uuid: HUB, routerMode } }),
    makeNode({ name: 'other', uuid: OTHER, spec: { uuid: OTHER, routerMode: 'interior' } }),
  ];
  test.each<[string, Spec, World?]>([
    ['of a host', {}],
    ['of an address of IPv6', { resource: '2001:db8::5' }],
    ['of the cluster, without a port', { type: 'cluster', servicePort: undefined, clusterType: undefined }],
    ['without a port, outside of a cluster', { servicePort: undefined }, { controlPlane: 'remote' }],
    ['of a microservice by its name', { type: 'microservice', resource: 'plant-a/reader' }],
    ['of a microservice by its uuid', { type: 'microservice', resource: READER }],
    ['of a node by its name', { type: 'agent', resource: 'gw-1' }],
    [
      'of a node whose mode is not set',
      { type: 'agent', resource: 'gw-1' },
      { nodes: [makeNode()], hasDefaultRouter: true },
    ],
    [
      'of a node of the system',
      { type: 'agent', resource: 'gw-1' },
      { nodes: [makeNode({ spec: { isSystem: true } })] },
    ],
    ['with the bridge of the hub', { defaultBridge: 'default-router' }],
    [
      'with an upstream as bridge',
      { type: 'agent', resource: 'gw-1', defaultBridge: HUB },
      { nodes: upstream('interior') },
    ],
  ])('%s is right', (_, spec, world) => {
    expect(judge(make(spec), world)).toBeUndefined();
  });

  test.each<[string, Spec, string, string, World?]>([
    ['a path', { resource: 'db/x' }, 'resource', 'ServiceInvalid'],
    ['a host with a space', { resource: 'db example' }, 'resource', 'ServiceInvalid'],
    ['a bridge of an external host', { defaultBridge: HUB }, 'defaultBridge', 'ServiceInvalid'],
    ['no servicePort', { servicePort: undefined }, 'servicePort', 'ServiceInvalid'],
    ['no clusterType', { clusterType: undefined }, 'clusterType', 'ServiceInvalid'],
    ['the cluster outside of one', { type: 'cluster' }, 'type', 'NotOnControlPlane', { controlPlane: 'remote' }],
    ['no such microservice', { type: 'microservice', resource: 'plant-a/writer' }, 'resource', 'MicroserviceNotFound'],
    ['no such application', { type: 'microservice', resource: 'plant-b/reader' }, 'resource', 'MicroserviceNotFound'],
    ['no such uuid', { type: 'microservice', resource: OTHER }, 'resource', 'MicroserviceNotFound'],
    [
      'a microservice without a node',
      { type: 'microservice', resource: READER },
      'resource',
      'RouterNone',
      { nodes: [] },
    ],
    ['no such node', { type: 'agent', resource: 'gw-2' }, 'resource', 'NodeNotFound'],
    ['a node without a router', { type: 'agent', resource: 'gw-1' }, 'resource', 'RouterNone', { nodes: [makeNode()] }],
    [
      'a bridge that is an edge router',
      { type: 'agent', resource: 'gw-1', defaultBridge: HUB },
      'defaultBridge',
      'BridgeNotConnected',
      { nodes: upstream('edge') },
    ],
    [
      'a bridge that the node does not connect to',
      { type: 'agent', resource: 'gw-1', defaultBridge: OTHER },
      'defaultBridge',
      'BridgeNotConnected',
      { nodes: upstream('interior') },
    ],
  ])('with %s is wrong, by its member', (_, spec, field, reason, world) => {
    const verdict = judge(make(spec), world);
    expect(verdict).toMatchObject({ field, reason });
    expect(verdict?.message).toMatch(new RegExp(`^${field}: `));
  });

  test.each(['controller', 'router', 'router-internal', 'docker', 'podman', 'kubernetes', 'nats', 'bus', '7days'])(
    'with the name %s is wrong',
    (name) => {
      expect(judge(make({}, name))).toMatchObject({ field: 'name', code: 'SERVICE_INVALID' });
    },
  );

  test('shows no more of a text than a message has room for', () => {
    const verdict = judge(make({ type: 'agent', resource: 'x'.repeat(512) }));
    expect(verdict?.message.length).toBeLessThan(200);
  });
});
