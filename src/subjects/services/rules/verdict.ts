import type { ControlPlane } from '../../../api/names.ts';
import { DEFAULT_BRIDGE, type Service } from '../../../api/v3/service.ts';
import { quoted } from '../../../rules/document.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import type { Verdict } from '../../../rules/verdict.ts';
import { routerModeOf } from '../../nodes/rules/modes.ts';
import { upstreamNode } from '../../nodes/rules/upstreams.ts';
import { type Backend, type BackendLookups, backendOf } from './backend.ts';

/** What services may ask for. One rule for REST, which refuses a write, and for the reconciler, which says it in Ready. */

/** Names of what an installation has in its cluster, and of container engines, which resolve them to themselves. */
const RESERVED: ReadonlySet<string> = new Set([
  ...['controller', 'router', 'router-internal', 'docker', 'podman', 'kubernetes'],
  ...['nats', 'nats-headless', 'nats-server', 'bus', 'bus-headless', 'bus-server'],
]);

/** A host name or an address of IPv4 or IPv6. */
const HOST = /^[a-zA-Z0-9:]([a-zA-Z0-9.:-]{0,251}[a-zA-Z0-9:])?$/;

const wrong = (field: string, message: string): Verdict => ({
  status: 400,
  reason: 'ServiceInvalid',
  code: 'SERVICE_INVALID',
  field,
  message: `${field}: ${message}`,
});

/** The bridge of a service besides the hub: uuid of a node. */
export const bridgeOf = ({ spec: { defaultBridge } }: Pick<Service, 'spec'>): string | undefined =>
  defaultBridge === DEFAULT_BRIDGE ? undefined : defaultBridge;

/** Whether a service leads to something that is on a node. */
const isOnNode = ({ spec: { type } }: Pick<Service, 'spec'>) => type === 'microservice' || type === 'agent';

/** Whether a control plane makes a Service of the cluster for it. */
export const hasClusterService = ({ spec: { type } }: Pick<Service, 'spec'>, controlPlane: ControlPlane): boolean =>
  controlPlane === 'kubernetes' && type !== 'cluster';

/** The fault of a service wherever it is. */
export function formVerdict(service: Pick<Service, 'metadata' | 'spec'>): Verdict | undefined {
  const { name } = service.metadata;
  if (RESERVED.has(name)) return wrong('name', `${quoted(name)} is reserved for the system: choose another one`);
  if (!/^[a-z]/.test(name))
    return wrong('name', `${quoted(name)}; must begin with a letter, as a Service of the cluster`);
  if (isOnNode(service)) return undefined;
  const { type, resource } = service.spec;
  if (!HOST.test(resource))
    return wrong('resource', `${quoted(resource)}; must be a host name or an IP address with type ${type}`);
  if (bridgeOf(service) !== undefined)
    return wrong('defaultBridge', `${quoted(bridgeOf(service))}; must be ${DEFAULT_BRIDGE} with type ${type}`);
  return undefined;
}

export interface ServiceSurroundings {
  lookups: BackendLookups;
  controlPlane: ControlPlane;
  /** whether nodes without a `routerMode` have a router */
  facts: { readonly hasDefaultRouter: boolean };
}

/** The fault of a service in this installation, and of the objects that it names. */
export function placeVerdict(service: Service, surroundings: ServiceSurroundings): Verdict | undefined {
  const { lookups, controlPlane } = surroundings;
  const { type, resource, servicePort, clusterType } = service.spec;
  if (type === 'cluster' && controlPlane !== 'kubernetes')
    return {
      ...{ status: 400, reason: 'NotOnControlPlane', code: 'SERVICE_CLUSTER_UNAVAILABLE', field: 'type' },
      message: `type: "cluster"; must be microservice, agent or external on control plane ${controlPlane} (CONTROL_PLANE of the controller)`,
    };
  if (hasClusterService(service, controlPlane)) {
    if (servicePort === undefined)
      return wrong('servicePort', `is required with type ${type}: the port of the Service of the cluster`);
    if (clusterType === undefined)
      return wrong('clusterType', `is required with type ${type}: ClusterIP, NodePort or LoadBalancer`);
  }
  if (!isOnNode(service)) return undefined;
  const backend = backendOf(service, lookups);
  if (backend) return routerVerdict(service, backend, surroundings);
  const isNode = type === 'agent';
  return {
    status: 404,
    reason: isNode ? 'NodeNotFound' : 'MicroserviceNotFound',
    code: isNode ? 'INVALID_NODE_UUID' : 'INVALID_MICROSERVICE_UUID',
    field: 'resource',
    message: isNode
      ? `resource: there is no node ${quoted(resource)}`
      : `resource: there is no microservice ${quoted(resource)}; name it as application/microservice or by its uuid`,
  };
}

function routerVerdict(
  service: Service,
  { node }: Backend,
  { lookups, facts }: ServiceSurroundings,
): Verdict | undefined {
  const none = (message: string): Verdict => ({
    ...{ status: 400, reason: 'RouterNone', code: 'SERVICE_ROUTER_MODE_NONE', field: 'resource' },
    message: `resource: ${message}`,
  });
  if (!node) return none('the microservice has no node, and so no router');
  const named = quoted(v3Name(node));
  if (routerModeOf(node, facts) === 'none')
    return none(
      `the node ${named} has no router: its routerMode is ${node.spec.routerMode ?? 'not set, and there is no default router'}; must be edge or interior`,
    );
  const bridge = bridgeOf(service);
  if (bridge === undefined || isConnected(bridge, node, { lookups, facts })) return undefined;
  return {
    ...{ status: 400, reason: 'BridgeNotConnected', code: 'SERVICE_BRIDGE_NOT_CONNECTED', field: 'defaultBridge' },
    message: `defaultBridge: ${quoted(bridge)}; must be ${DEFAULT_BRIDGE}, or the uuid of a node with routerMode interior that the node ${named} has in upstreamRouters`,
  };
}

function isConnected(
  bridge: string,
  node: Backend['node'],
  { lookups, facts }: Pick<ServiceSurroundings, 'lookups' | 'facts'>,
): boolean {
  const other = lookups.nodeByUuid(bridge);
  if (!other || !node || routerModeOf(other, facts) !== 'interior') return false;
  const upstreams = node.spec.upstreamRouters ?? [];
  return upstreams.some((name) => {
    const found = upstreamNode(name, lookups);
    return found !== undefined && nodeUuid(found) === bridge;
  });
}
