import { BOUNDS } from '../../../../api/bounds.ts';
import { v3Name } from '../../../../rules/names.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { waitsFor } from '../../../nodes/rules/placement/moves.ts';
import type { VerdictInput } from './rule.ts';

export function nodeIsSet({ entry }: VerdictInput): Verdict | undefined {
  if (entry.agent?.name || entry.agent?.uuid) return undefined;
  return {
    reason: 'NodeNotSet',
    status: 400,
    code: 'NODE_NOT_SET',
    field: 'agent',
    message: 'names no node; give agent.name or agent.uuid',
    names: ['agent.name', 'agent.uuid'],
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

/** What the node of an entry is told that names another one, until the leader has recorded the move. */
export function isToMove({ entry }: VerdictInput): Verdict {
  const { name, uuid } = entry.agent ?? {};
  return {
    reason: 'MovingFromNode',
    status: 409,
    code: 'MOVING_FROM_NODE',
    field: 'agent',
    message: `is to move to the node ${uuid ?? `"${name}"`}, which has not taken it yet`,
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
