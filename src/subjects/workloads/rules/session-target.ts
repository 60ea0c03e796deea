import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import { hasContainer } from '../../../rules/deletion.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { Lookups } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import { AGENT_BASELINE, isBeforeBaseline } from '../../nodes/rules/older-agents.ts';
import { currentNodeOf } from '../../nodes/rules/placement/entries.ts';
import { entryHolder } from './application/claims.ts';

/** What the path of a socket names: a microservice of users or of the system, or a node. */
export type Named = { microservice: string; isSystem: boolean } | { node: string };

/**
 * The node whose agent is to serve a session, or why none can; the text is for users. `keepsLogsOpen` where the agent does not
 * say when a log without `follow` has ended.
 */
export type Placed = { node: string; keepsLogsOpen?: true } | { refused: string };

/** What a session is about: a node, or a microservice on one. The node is as its object is stored. */
export interface SessionSubject {
  node: EdgeNode;
  /** for people: `shop/web`, `node gw-1` */
  called: string;
  microservice?: { uuid: string; name: string; application: Application };
}

/** What is refused about a target; `isGone` when that was deleted, if it was there before. */
export interface NoTarget {
  refused: string;
  isGone: boolean;
}

type PlacedLookups = Pick<Lookups, 'nodeByName' | 'nodeByUuid' | 'applicationsWithEntry'>;

/** States in which an agent answers. */
const CONNECTED: ReadonlySet<string> = new Set(['RUNNING', 'WARNING']);

const WITHOUT_AGENT: ReadonlySet<string> = new Set(['NOT_PROVISIONED', 'DEPROVISIONED']);

/** What the path of a socket means. */
export function findTarget(named: Named, lookups: PlacedLookups): SessionSubject | NoTarget {
  if ('node' in named) {
    const node = lookups.nodeByUuid(named.node);
    return node && !node.metadata.deletionTimestamp
      ? { node, called: `node ${v3Name(node)}` }
      : { refused: `there is no node with the uuid ${named.node}`, isGone: true };
  }
  const { microservice: uuid, isSystem } = named;
  const owner = entryHolder(uuid, lookups.applicationsWithEntry(uuid));
  if (!owner || (owner.application.spec.isSystem === true) !== isSystem)
    return { refused: `there is no microservice with the uuid ${uuid}`, isGone: true };
  const { application, entry } = owner;
  const called = `${v3Name(application)}/${entry.name}`;
  if (application.metadata.deletionTimestamp) return { refused: `${called} is being deleted`, isGone: true };
  const node = currentNodeOf(application, entry, lookups);
  if (!node) return { refused: `microservice ${entry.name} names no node that exists`, isGone: false };
  return { node, called, microservice: { uuid, name: entry.name, application } };
}

/**
 * Whether the agent can serve a session, by the node as reads show it (`present`); what changes after that is for the agent to
 * say. A terminal needs a container that runs. Of a log our agent answers also without one: with the log of the last container,
 * or with the error of the start. Another agent is asked only for the log of a container that it reports.
 */
export function placeSession({ microservice }: SessionSubject, present: EdgeNode, kind: 'exec' | 'log'): Placed {
  const placed = connected(present, kind);
  if ('refused' in placed || !microservice || (kind === 'log' && present.status?.agent)) return placed;
  const { uuid, name, application } = microservice;
  const reported = present.status?.microservices?.find(
    (one) => one.uuid === uuid && (one.application ?? v3Name(application)) === v3Name(application),
  );
  const state = reported?.state ?? 'not reported';
  if (state === 'RUNNING' || (kind === 'log' && reported && hasContainer(reported))) return placed;
  const lacks = kind === 'log' ? 'has no container' : 'does not run';
  const why = state === 'FAILED' && reported?.reason ? ` (${reported.reason})` : '';
  return { refused: `microservice ${name} ${lacks} on node ${v3Name(present)}: its state is ${state}${why}` };
}

/**
 * Why the log of a former run cannot be had: a node has none, and an agent of another make would show the present run. Ours says
 * that it knows former runs when it connects.
 */
export function formerRunRefusal({ node, microservice }: SessionSubject, present: EdgeNode): string | undefined {
  if (!microservice) return `previous: a former run is one of a container, and node ${v3Name(node)} has one log`;
  if (present.status?.agent !== undefined) return undefined;
  return noFormerRuns(`of node ${v3Name(node)}, which is no Skerry agent,`, present.status?.version);
}

/** The refusal of an agent that does not know former runs. */
export const noFormerRuns = (whose: string, version = 'unknown') =>
  `previous: the agent ${whose} does not know former runs: its version is ${version}; update it, or leave previous out`;

/** Why a session must end: what it began with is gone, moved, or is another one by now. `present` as for `placeSession`. */
export function groundLost(
  began: { node: string; called: string },
  found: SessionSubject | NoTarget,
  present: EdgeNode | undefined,
): string | undefined {
  if ('refused' in found) return found.isGone ? `${began.called} was deleted` : found.refused;
  if (nodeUuid(found.node) !== began.node) return 'the microservice has moved to another node';
  const isWithoutAgent = WITHOUT_AGENT.has(present?.status?.daemonStatus ?? '');
  return isWithoutAgent ? `node ${v3Name(found.node)} has no agent any more` : undefined;
}

/** The object that users know, and words for what is in it; undefined when it is gone. */
export function sessionSubject(
  named: Named,
  lookups: PlacedLookups,
): { object: Application | EdgeNode; words: string } | undefined {
  const found = findTarget(named, lookups);
  if ('refused' in found) return undefined;
  const { node, microservice } = found;
  if (!microservice) return { object: node, words: `node ${v3Name(node)}` };
  return { object: microservice.application, words: `microservice ${microservice.name} on node ${v3Name(node)}` };
}

function connected(node: EdgeNode, kind: 'exec' | 'log'): Placed {
  const { daemonStatus = 'NOT_PROVISIONED', agent, version } = node.status ?? {};
  if (!CONNECTED.has(daemonStatus))
    return { refused: `node ${v3Name(node)} is not connected: its status is ${daemonStatus}` };
  const uuid = nodeUuid(node);
  if (agent !== undefined) return { node: uuid };
  if (kind === 'log') return { node: uuid, keepsLogsOpen: true };
  // An agent that has not said its version yet may have them.
  if (version === undefined || !isBeforeBaseline(version)) return { node: uuid };
  const { major, minor } = AGENT_BASELINE;
  const whose = `the agent of node ${v3Name(node)} is no Skerry agent and has the version ${version}`;
  return { refused: `${whose}: such agents give terminals from version ${major}.${minor} on` };
}
