import type { EdgeNode } from '../../api/v3/index.ts';
import { nodeOf } from '../application/entries.ts';
import type { Lookups } from '../inputs.ts';
import { entryUuid, nodeUuid, v3Name } from '../names.ts';

/** What the path of a socket names: a microservice of users or of the system, or a node. */
export type Named = { microservice: string; isSystem: boolean } | { node: string };

/** The node whose agent is to serve a session, or why none can; the text is for users. */
export type Placed = { node: string } | { refused: string };

type PlacedLookups = Pick<Lookups, 'nodeByName' | 'nodeByUuid' | 'applicationsWithEntry'>;

/** States in which an agent answers. */
const CONNECTED: ReadonlySet<string> = new Set(['RUNNING', 'WARNING']);

/** Judged by what the node last reported; what changes after that is for the agent to say. */
export function placeSession(named: Named, lookups: PlacedLookups): Placed {
  if ('node' in named) {
    const node = lookups.nodeByUuid(named.node);
    return node && !node.metadata.deletionTimestamp
      ? connected(node)
      : { refused: `there is no node with the uuid ${named.node}` };
  }
  const { microservice, isSystem } = named;
  for (const application of lookups.applicationsWithEntry(microservice)) {
    if ((application.spec.isSystem === true) !== isSystem || application.metadata.deletionTimestamp) continue;
    const entry = application.spec.microservices?.find((one) => entryUuid(application, one) === microservice);
    if (!entry) continue;
    const node = nodeOf(entry, lookups);
    if (!node) return { refused: `microservice ${entry.name} names no node that exists` };
    const state = node.status?.microservices?.find(({ uuid }) => uuid === microservice)?.state ?? 'not reported';
    const placed = connected(node);
    if ('refused' in placed || state === 'RUNNING') return placed;
    return { refused: `microservice ${entry.name} does not run on node ${v3Name(node)}: its state is ${state}` };
  }
  return { refused: `there is no microservice with the uuid ${microservice}` };
}

function connected(node: EdgeNode): Placed {
  const { daemonStatus = 'NOT_PROVISIONED' } = node.status ?? {};
  if (CONNECTED.has(daemonStatus)) return { node: nodeUuid(node) };
  return { refused: `node ${v3Name(node)} is not connected: its status is ${daemonStatus}` };
}
