import { BOUNDS } from '../../../api/bounds.ts';
import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import type { Lookups, Verdict } from '../../inputs.ts';
import { entryUuid, v3Name } from '../../names.ts';
import { byPrecedence, compareTexts, isOfSystem } from '../../precedence.ts';
import { placedOn } from '../entries.ts';
import { waitsFor } from '../moves.ts';
import type { VerdictInput } from './rule.ts';

export function nodeIsSet({ entry }: VerdictInput): Verdict | undefined {
  if (entry.agent?.name || entry.agent?.uuid) return undefined;
  return {
    reason: 'NodeNotSet',
    status: 400,
    code: 'NODE_NOT_SET',
    field: 'agent',
    message: 'names no node; give agent.name or agent.uuid',
  };
}

export function nodeIsFound({ entry, node }: VerdictInput): Verdict | undefined {
  if (node) return undefined;
  const { name, uuid } = entry.agent ?? {};
  return uuid === undefined
    ? {
        reason: 'NodeNotFound',
        status: 404,
        code: 'NOT_FOUND_AGENT_NAME',
        field: 'agent.name',
        message: `no node with the name "${name}"`,
      }
    : {
        reason: 'NodeNotFound',
        status: 404,
        code: 'INVALID_NODE_UUID',
        field: 'agent.uuid',
        message: `no node with the uuid ${uuid}`,
      };
}

export function nodeStays({ node }: VerdictInput): Verdict | undefined {
  if (!node?.metadata.deletionTimestamp) return undefined;
  return {
    reason: 'NodeDeleting',
    status: 409,
    code: 'NODE_DELETING',
    field: 'agent',
    message: `the node "${v3Name(node)}" is being deleted`,
  };
}

/** A microservice runs on one node at a time. A write is never refused for that: the move itself is one. */
export function formerNodesHaveStopped({ application, entry, uuid, node, writing }: VerdictInput): Verdict | undefined {
  const names = node && !writing ? waitsFor(application, entry.name, uuid, node) : [];
  if (names.length === 0) return undefined;
  return {
    reason: 'MovingFromNode',
    status: 409,
    code: 'MOVING_FROM_NODE',
    field: 'agent',
    message: `waits until ${names.map((name) => `the node "${name}"`).join(' and ')} has stopped it`,
    passes: true,
  };
}

export function nodeHasRoom({ uuid, node, crowd }: VerdictInput): Verdict | undefined {
  if (!node || !crowd(node).has(uuid)) return undefined;
  return {
    reason: 'NodeFull',
    status: 400,
    code: 'NODE_FULL',
    field: 'agent',
    message: `the node "${v3Name(node)}" has its ${BOUNDS.report} microservices; no more can be placed on it`,
  };
}

/**
 * The microservices beyond the bound of the list that an agent reads: those of the system come first, then those that the node
 * reports, then those of older applications.
 */
export function crowdOn(
  node: EdgeNode,
  applications: readonly Application[],
  lookups: Pick<Lookups, 'nodeByName'>,
): ReadonlySet<string> {
  const bound = applications.reduce((sum, { spec }) => sum + (spec.microservices?.length ?? 0), 0);
  if (bound <= BOUNDS.report) return NONE;
  const entriesOf = placedOn(node, lookups);
  const reported = new Set((node.status?.microservices ?? []).map((item) => item.uuid));
  const all = applications
    .flatMap((application) =>
      entriesOf(application).map((entry) => {
        const uuid = entryUuid(application, entry);
        const claim = { isSystem: isOfSystem(application), has: Number(reported.has(uuid)), of: application };
        return { ...claim, name: entry.name, uuid };
      }),
    )
    .sort((a, b) => byPrecedence(a, b) || compareTexts(a.name, b.name))
    .map(({ uuid }) => uuid);
  const first = new Set(all.slice(0, BOUNDS.report));
  return new Set(all.slice(BOUNDS.report).filter((uuid) => !first.has(uuid)));
}

const NONE: ReadonlySet<string> = new Set();
