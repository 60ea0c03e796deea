import type { Application, EdgeNode, Registry } from '../api/v3/index.ts';
import type { StoreLookups } from '../datastore/lookups.ts';
import type { ReadStores } from '../datastore/stores.ts';
import { referenceKey } from '../kinds/definition.ts';
import type { BridgedService, ServiceLookups } from '../rules/bridges.ts';
import type { BusLookups } from '../rules/bus-lookups.ts';
import { nodeUuid } from '../rules/identity.ts';
import type { NodeInputs } from '../rules/inputs.ts';
import { v3Name } from '../rules/names.ts';
import { type PlatformOptions, platformFacts } from '../rules/part.ts';
import type { Tunnels } from '../rules/tunnel.ts';
import { nodeRefsOf } from '../subjects/nodes/rules/placement/node-refs.ts';
import { desiredFrom } from '../subjects/nodes/rules/status-change.ts';
import { eligibleTags } from '../subjects/routers/rules/tags.ts';

/** The inputs of a desired state in addition to the node and its applications. */
export const dependency = {
  node: (name: string) => `node:${name}`,
  nodeOfUuid: (uuid: string) => `node-of-uuid:${uuid}`,
  secret: (name: string) => `secret:${name}`,
  /** a Secret that the system keeps for itself, by object name */
  ofSystem: (name: string) => `of-system:${name}`,
  /** by object name */
  application: (name: string) => `application:${name}`,
  /** whether any node is of the system */
  systemNode: 'system-node',
  /** by object name */
  password: (name: string) => `password:${name}`,
  configMap: (name: string) => `config-map:${name}`,
  busHub: 'bus-hub',
  defaultRouter: 'default-router',
  /** by the uuid of its microservice */
  busUser: (microservice: string) => `bus-user:${microservice}`,
  /** by the v3 name of their node */
  busUsersOf: (node: string) => `bus-users-of:${node}`,
  busAccount: (name: string) => `bus-account:${name}`,
  /** whether there is another account */
  busAccounts: 'bus-accounts',
  /** the token of any account */
  busTokens: 'bus-tokens',
  /** what services lead to, as they name it: uuid or name of a node, uuid of a microservice or `application/microservice` */
  servicesOf: (resource: string) => `service-of:${resource}`,
  /** the services with a tag */
  servicesTagged: (token: string) => `service-tag:${token}`,
  services: 'services',
  /** by the uuid of the node that is their bridge */
  servicesAt: (node: string) => `service-bridge:${node}`,
  /** by kind, and id or v3 name */
  object: (to: string, ref: number | string) => referenceKey({ to, ref }),
} as const;

/** Collects the inputs of one node. `track` is called for every look-up of the domain, successful or not. */
export function createNodeInputs(
  {
    applicationsOn,
    linkedTo,
    secretOfSystem,
    applicationNamed,
    hasSystemNode,
    systemNodes,
    defaultRouter,
    interiorRouters,
    ...lookups
  }: StoreLookups,
  options: { revisionKey?: string; platform?: PlatformOptions },
) {
  return (node: EdgeNode, track: (dependency: string) => void): NodeInputs => {
    const ofSystem = {
      // A change reaches its nodes without a dependency.
      interiorRouters,
      hasSystemNode() {
        track(dependency.systemNode);
        return hasSystemNode();
      },
      defaultRouter() {
        track(dependency.defaultRouter);
        return defaultRouter();
      },
    };
    return {
      ...lookups,
      node: desiredFrom(node),
      applications: applicationsOn(node),
      // A change of an object that is linked reaches its nodes without a dependency.
      linked: linkedTo(node),
      find(kind, ref) {
        track(dependency.object(kind, ref));
        return lookups.find(kind, ref);
      },
      nodeByName(name) {
        track(dependency.node(name));
        const named = lookups.nodeByName(name);
        return named && desiredFrom(named);
      },
      nodeByUuid(uuid) {
        track(dependency.nodeOfUuid(uuid));
        const found = lookups.nodeByUuid(uuid);
        return found && desiredFrom(found);
      },
      secret(name) {
        track(dependency.secret(name));
        return lookups.secret(name);
      },
      configMap(name) {
        track(dependency.configMap(name));
        return lookups.configMap(name);
      },
      registryPassword(registry: Registry) {
        const ref = registry.spec.passwordSecretRef;
        if (ref) track(dependency.password(ref.name));
        return lookups.registryPassword(registry);
      },
      ...(lookups.tunnels && { tunnels: tracked(lookups.tunnels, track) }),
      ...(lookups.bus && { bus: trackedBus(lookups.bus, track) }),
      ...(lookups.services && { services: trackedServices(lookups.services, track) }),
      ...(options.platform && {
        platform: {
          parts: options.platform.parts,
          facts: platformFacts(options.platform, ofSystem),
          defaultRouter: ofSystem.defaultRouter,
          systemNodes() {
            track(dependency.systemNode);
            return systemNodes().map((one) => {
              track(dependency.nodeOfUuid(nodeUuid(one)));
              return desiredFrom(one);
            });
          },
          secret(name) {
            track(dependency.ofSystem(name));
            return secretOfSystem(node.metadata.namespace ?? '', name);
          },
          applicationNamed(name) {
            track(dependency.application(name));
            return applicationNamed(node.metadata.namespace ?? '', name);
          },
        },
      }),
      ...(options.revisionKey !== undefined && { revisionKey: options.revisionKey }),
    };
  };
}

/** A change of the Secret of the ssh server reaches the nodes that were sent its content. */
const tracked = ({ settings, server }: Tunnels, track: (dependency: string) => void): Tunnels => ({
  settings,
  server() {
    if (settings.secretName !== undefined) track(dependency.password(settings.secretName));
    return server();
  },
});

/** Makes look-ups that say what they look for. */
const tracking =
  (track: (dependency: string) => void) =>
  <A extends string[], T>(look: (...args: A) => T, of: (...args: A) => string): ((...args: A) => T) =>
  (...args) => {
    track(of(...args));
    return look(...args);
  };

/**
 * The Secrets of the users of a node belong to its users, and those of all accounts to one dependency: a server of all accounts reads
 * thousands. A change of any other Secret of the bus reaches nodes by the Secret itself.
 */
const trackedBus = (bus: BusLookups, track: (dependency: string) => void): BusLookups => {
  const read = tracking(track);
  return {
    hub: read(bus.hub, () => dependency.busHub),
    hubFor: read(bus.hubFor, () => dependency.busHub),
    userOf: read(bus.userOf, dependency.busUser),
    usersOfNode: read(bus.usersOfNode, dependency.busUsersOf),
    account(name) {
      track(dependency.busAccount(name));
      const found = bus.account(name);
      if (found) track(dependency.ofSystem(found.secret));
      return found;
    },
    accounts() {
      track(dependency.busAccounts);
      track(dependency.busTokens);
      return bus.accounts();
    },
  };
};

const trackedServices = (services: ServiceLookups, track: (dependency: string) => void): ServiceLookups => {
  const read = tracking(track);
  return {
    tagPrefix: services.tagPrefix,
    backedBy: read(services.backedBy, dependency.servicesOf),
    tagged: read(services.tagged, dependency.servicesTagged),
    all: read(services.all, () => dependency.services),
    bridgedAt: read(services.bridgedAt, dependency.servicesAt),
  };
};

/** The dependencies of nodes that have an end of a service. */
export const dependenciesOnService = (service: BridgedService): string[] => [
  dependency.servicesOf(service.resource),
  ...eligibleTags(service).map(dependency.servicesTagged),
  dependency.services,
  ...(service.defaultBridge === undefined ? [] : [dependency.servicesAt(service.defaultBridge)]),
];

/** The nodes of an application: those that its entries name, and those that still report it. */
export function nodesOf(stores: Pick<ReadStores, 'nodes'>, application: Application): Set<string> {
  const uuids = new Set<string>();
  for (const ref of nodeRefsOf(application)) {
    if (ref.startsWith('uuid:')) uuids.add(ref.slice('uuid:'.length));
    else for (const node of stores.nodes.byIndex('name', ref.slice('name:'.length))) uuids.add(nodeUuid(node));
  }
  for (const node of stores.nodes.byIndex('reports', v3Name(application))) uuids.add(nodeUuid(node));
  return uuids;
}
