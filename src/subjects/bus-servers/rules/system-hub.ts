import type { BusHub } from '../../../api/v3/bus-hub.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { hostOf } from '../../nodes/rules/settings.ts';
import { nodeServerSettings } from './node-part.ts';

/**
 * The node whose bus server is the hub of an installation without a cluster: the oldest node of the system that others reach. Such
 * a node always has a bus server.
 */
export function hubNode(nodes: Iterable<EdgeNode>): EdgeNode | undefined {
  const ageOf = ({ metadata }: EdgeNode) => metadata.creationTimestamp ?? '';
  return Array.from(nodes)
    .filter((node) => node.spec.isSystem === true && !node.metadata.deletionTimestamp && hostOf(node) !== undefined)
    .sort((a, b) => compare(ageOf(a), ageOf(b)) || compare(nodeUuid(a), nodeUuid(b)))[0];
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** A hub that names no address, with the address, ports and sizes of the node that it is; any other as it is. */
export function hubOn<H extends Pick<BusHub, 'spec'>>(hub: H, node: EdgeNode | undefined): H {
  if (!node || hub.spec.host !== undefined || hub.spec.isExternal) return hub;
  const host = hostOf(node);
  return host === undefined
    ? hub
    : {
        ...hub,
        spec: { ...hub.spec, ...nodeServerSettings(node), host, clientTls: node.spec.busClientTls },
      };
}
