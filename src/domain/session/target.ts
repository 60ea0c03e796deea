import type { Application, EdgeNode, ObservedMicroservice } from '../../api/v3/index.ts';
import { entryHolder } from '../application/claims.ts';
import { nodeOf } from '../application/entries.ts';
import type { Lookups } from '../inputs.ts';
import { nodeUuid, v3Name } from '../names.ts';

/** What the path of a socket names: a microservice of users or of the system, or a node. */
export type Named = { microservice: string; isSystem: boolean } | { node: string };

/** The node whose agent is to serve a session, or why none can; the text is for users. */
export type Placed = { node: string } | { refused: string };

type PlacedLookups = Pick<Lookups, 'nodeByName' | 'nodeByUuid' | 'applicationsWithEntry'>;

/** States in which an agent answers. */
const CONNECTED: ReadonlySet<string> = new Set(['RUNNING', 'WARNING']);

const WITHOUT_AGENT: ReadonlySet<string> = new Set(['NOT_PROVISIONED', 'DEPROVISIONED']);

/** Judged by what the node last reported; what changes after that is for the agent to say. */
export function placeSession(named: Named, lookups: PlacedLookups): Placed {
  const found = findTarget(named, lookups);
  if ('refused' in found) return found;
  const { node, microservice } = found;
  const placed = connected(node);
  if ('refused' in placed || !microservice || microservice.state === 'RUNNING') return placed;
  const { name, state = 'not reported' } = microservice;
  return { refused: `microservice ${name} does not run on node ${v3Name(node)}: its state is ${state}` };
}

/** Why a session with this node must end: what it is about is gone, moved, or is another one by now. */
export function groundLost(named: Named, node: string, lookups: PlacedLookups): string | undefined {
  const found = findTarget(named, lookups);
  if ('refused' in found) return found.refused;
  if (nodeUuid(found.node) !== node) return 'the microservice has moved to another node';
  const isWithoutAgent = WITHOUT_AGENT.has(found.node.status?.daemonStatus ?? '');
  return isWithoutAgent ? `node ${v3Name(found.node)} has no agent any more` : undefined;
}

/** The object that users know, and words for what is in it; undefined when it is gone. */
export function sessionSubject(
  named: Named,
  lookups: PlacedLookups,
): { object: Application | EdgeNode; words: string } | undefined {
  const found = findTarget(named, lookups);
  if ('refused' in found) return undefined;
  const { node, microservice, application } = found;
  if (!microservice || !application) return { object: node, words: `node ${v3Name(node)}` };
  return { object: application, words: `microservice ${microservice.name} on node ${v3Name(node)}` };
}

/** The node, and the microservice that is named, with the state that the node reported of it. */
type Target =
  | { node: EdgeNode; microservice?: { name: string; state: string | undefined }; application?: Application }
  | { refused: string };

function findTarget(named: Named, lookups: PlacedLookups): Target {
  if ('node' in named) {
    const node = lookups.nodeByUuid(named.node);
    return node && !node.metadata.deletionTimestamp
      ? { node }
      : { refused: `there is no node with the uuid ${named.node}` };
  }
  const { microservice: uuid, isSystem } = named;
  const owner = entryHolder(uuid, lookups.applicationsWithEntry(uuid));
  if (!owner || (owner.application.spec.isSystem === true) !== isSystem || owner.application.metadata.deletionTimestamp)
    return { refused: `there is no microservice with the uuid ${uuid}` };
  const { application, entry } = owner;
  const node = nodeOf(entry, lookups);
  if (!node) return { refused: `microservice ${entry.name} names no node that exists` };
  const isIt = (one: ObservedMicroservice) =>
    one.uuid === uuid && (one.application ?? v3Name(application)) === v3Name(application);
  return {
    node,
    application,
    microservice: { name: entry.name, state: node.status?.microservices?.find(isIt)?.state },
  };
}

function connected(node: EdgeNode): Placed {
  const { daemonStatus = 'NOT_PROVISIONED' } = node.status ?? {};
  if (CONNECTED.has(daemonStatus)) return { node: nodeUuid(node) };
  return { refused: `node ${v3Name(node)} is not connected: its status is ${daemonStatus}` };
}
