import { BUS_BRIDGE_HOST, ROUTER_BRIDGE_HOST, SYSTEM_AUTHORITY } from '../../../api/names.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import type { NodeCertificate, PlatformFacts, PlatformPart } from '../../../rules/part.ts';
import { modesOf, type NodeModes } from '../../nodes/rules/modes.ts';
import { hostOf } from '../../nodes/rules/settings.ts';

/** Names by which programs of the machine and its containers reach what runs on it. */
const LOCAL = ['localhost', '127.0.0.1', 'host.docker.internal', 'host.containers.internal'];

interface Row extends NodeCertificate {
  /** whether a node in these modes has it */
  isFor(modes: NodeModes, node: EdgeNode, facts: PlatformFacts): boolean;
}

const isRouter = ({ router }: NodeModes) => router !== 'none';
const isBus = ({ bus }: NodeModes) => bus !== 'none';

/** The certificates of nodes (docs/resources/platform.md#certificates). */
const ROWS: readonly Row[] = [
  {
    name: 'router-site-server',
    authority: SYSTEM_AUTHORITY.routerSite,
    hosts: [],
    isFor: isRouter,
  },
  {
    name: 'router-local-server',
    authority: SYSTEM_AUTHORITY.routerLocal,
    hosts: [...LOCAL, ROUTER_BRIDGE_HOST],
    isFor: isRouter,
  },
  {
    // A node without a router uses the router of another one.
    name: 'router-local-agent',
    authority: SYSTEM_AUTHORITY.routerLocal,
    hosts: [...LOCAL, ROUTER_BRIDGE_HOST],
    isFor: (modes, { spec }, { hasDefaultRouter }) =>
      isRouter(modes) || Boolean(spec.networkRouter) || hasDefaultRouter,
  },
  {
    name: 'bus-server',
    authority: SYSTEM_AUTHORITY.busSite,
    hosts: [...LOCAL, BUS_BRIDGE_HOST],
    isFor: isBus,
  },
  {
    name: 'bus-mqtt-server',
    authority: SYSTEM_AUTHORITY.busLocal,
    hosts: [...LOCAL, BUS_BRIDGE_HOST],
    isFor: isBus,
  },
];

/** Keys of a node for its router and its bus, with their certificates. */
export const CERTIFICATES: PlatformPart = {
  condition: 'CertificatesReady',
  wants(node, facts) {
    const modes = modesOf(node, facts);
    const certificates = ROWS.filter(({ isFor }) => isFor(modes, node, facts));
    return certificates.length > 0 ? { certificates } : undefined;
  },
};

/**
 * All hosts of a certificate: its own, and the address under which others reach the node. An address that only the machine reports
 * is left out when another node has it as its host: nobody gets a certificate of somebody else by a report.
 */
export function hostsOfCertificate(
  { hosts }: NodeCertificate,
  node: EdgeNode,
  isHostOfAnother: (address: string) => boolean,
): readonly string[] {
  const reached = hostOf(node);
  const isForeign = reached !== undefined && node.spec.host === undefined && isHostOfAnother(reached);
  return [...new Set([...(reached && !isForeign ? [reached] : []), ...hosts])];
}
