import { AGENT_BRIDGE_HOST } from '../../../api/names.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import type { BridgedService, ServiceLookups } from '../../../rules/bridges.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import { ALL_SERVICES, serviceTokens } from './tags.ts';

/** An end of a service at a router that clients connect to. Ports are texts. */
interface TcpListener {
  name: string;
  port: string;
  address: string;
}

/** The end of a service at the router that reaches its backend. */
interface TcpConnector {
  name: string;
  host: string;
  port: string;
  address: string;
  processId: string;
}

/** The ends of services that one router has, each in the order of names. */
export interface Bridges {
  listeners: readonly TcpListener[];
  connectors: readonly TcpConnector[];
}

/** A microservice that is placed on a node, whether or not it runs. */
export interface PlacedMicroservice {
  uuid: string;
  application: string;
  name: string;
  isOnHostNetwork: boolean;
}

/** The mode of a router that has services. */
export type RunningMode = 'edge' | 'interior';

const LOOPBACK = '127.0.0.1';

const listenerOf = ({ name, bridgePort }: BridgedService): TcpListener => ({
  name: `${name}-listener`,
  port: String(bridgePort),
  address: name,
});

const connectorOf = ({ name, targetPort }: BridgedService, host: string, processId: string): TcpConnector => ({
  name: `${name}-connector`,
  host,
  port: String(targetPort),
  address: name,
  processId,
});

/** The router of the hub: it listens for every service, and reaches the backends that are no machines of ours. */
export function bridgesOfHub(services: Iterable<BridgedService>): Bridges {
  const all = [...services];
  return {
    listeners: byName(all.map(listenerOf)),
    connectors: byName(
      all.flatMap((service) => {
        const { type, resource, targetPort } = service;
        return type === 'cluster' || type === 'external'
          ? [connectorOf(service, resource, `${resource}-${type}-${targetPort}`)]
          : [];
      }),
    ),
  };
}

/**
 * The router of a node: it reaches the backends on its machine, and listens for the services that the tags of the node select, and for those
 * whose bridge it is.
 */
export function bridgesOfNode(
  node: EdgeNode,
  {
    mode,
    microservices,
    services,
    isMeantByName = true,
  }: {
    mode: RunningMode;
    microservices: readonly PlacedMicroservice[];
    services: ServiceLookups;
    /** whether its name means this node, and no other with that name or with a uuid of that text */
    isMeantByName?: boolean;
  },
): Bridges {
  const tokens = serviceTokens(node.spec.tags ?? [], services.tagPrefix);
  const selected = tokens.has(ALL_SERVICES) ? services.all() : [...tokens].flatMap((token) => services.tagged(token));
  const listened = new Map([...selected, ...services.bridgedAt(nodeUuid(node))].map((one) => [one.name, one]));
  return {
    listeners: byName([...listened.values()].map(listenerOf)),
    connectors: byName([
      ...ofMachine(node, mode, services, isMeantByName),
      ...ofMicroservices(microservices, mode, services),
    ]),
  };
}

/** What a router has that is both: of a machine, and the hub of an installation outside of a cluster. */
export const joinBridges = (one: Bridges, other: Bridges): Bridges => ({
  listeners: byName([...one.listeners, ...other.listeners]),
  connectors: byName([...one.connectors, ...other.connectors]),
});

function ofMachine(
  node: EdgeNode,
  mode: RunningMode,
  services: ServiceLookups,
  isMeantByName: boolean,
): TcpConnector[] {
  const host = mode === 'interior' ? LOOPBACK : AGENT_BRIDGE_HOST;
  const uuid = nodeUuid(node);
  return backed(services, 'agent', [uuid, ...(isMeantByName ? [v3Name(node)] : [])]).map((service) =>
    connectorOf(service, host, `${uuid}-local-${service.targetPort}`),
  );
}

function ofMicroservices(
  microservices: readonly PlacedMicroservice[],
  mode: RunningMode,
  services: ServiceLookups,
): TcpConnector[] {
  return microservices.flatMap(({ uuid, application, name, isOnHostNetwork }) => {
    const onBridge = isOnHostNetwork ? AGENT_BRIDGE_HOST : `${application}.${name}`;
    const host = mode === 'interior' ? LOOPBACK : onBridge;
    return backed(services, 'microservice', [uuid, `${application}/${name}`]).map((service) =>
      connectorOf(service, host, uuid),
    );
  });
}

/** The services of a type that name a backend in one of these ways. */
const backed = ({ backedBy }: ServiceLookups, type: BridgedService['type'], names: readonly string[]) =>
  names.flatMap((name) => backedBy(name)).filter((service) => service.type === type);

function byName<T extends { name: string }>(items: readonly T[]): T[] {
  const unique = new Map(items.map((item) => [item.name, item]));
  return [...unique.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}
