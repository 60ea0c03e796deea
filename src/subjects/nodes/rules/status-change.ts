import { isDeepStrictEqual } from 'node:util';
import { ARTIFACT_KINDS, type EdgeNode, type EdgeNodeStatus, type ObservedArtifact } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';

type Member = keyof EdgeNodeStatus;

/** What a machine is: members of the status of a node that desired states are made from. */
const FACTS = [
  'archId',
  'ipAddress',
  'config',
  'containerEngine',
  'availableRuntimes',
  'actions',
  'update',
  'tunnel',
] as const satisfies readonly Member[];
/** What it has of its desired state so far: progress, which takes nothing back. */
const PROGRESS = ['microservices', 'volumeMounts'] as const satisfies readonly Member[];
/** What statuses of applications say of their nodes besides. */
const SHOWN = ['daemonStatus', 'warningMessage', 'agent', 'version'] as const satisfies readonly Member[];

const KEPT: readonly Member[] = [...FACTS, ...PROGRESS, ...ARTIFACT_KINDS, 'uuid'];
const withoutTheRest = new WeakMap<EdgeNode, EdgeNode>();

/**
 * A node as desired states are made from it: its status has no other member than those that are compared here, so that a new
 * member cannot be read without an entry above. The same object for the same node.
 */
export function desiredFrom(node: EdgeNode): EdgeNode {
  const known = withoutTheRest.get(node);
  if (known) return known;
  const { status } = node;
  const kept =
    status && Object.fromEntries(KEPT.flatMap((member) => (member in status ? [[member, status[member]]] : [])));
  const made = { ...node, ...(kept && { status: { observedGeneration: status.observedGeneration, ...kept } }) };
  withoutTheRest.set(node, made);
  return made;
}

/** Whether the desired state of a node, or of others that name it, may depend on what differs. */
export const isWorkedFromAlike = (a: EdgeNode, b: EdgeNode): boolean =>
  isContentAlike(a, b) &&
  a.status?.uuid === b.status?.uuid &&
  ARTIFACT_KINDS.every((kind) => hasAlike(a.status?.[kind], b.status?.[kind])) &&
  areAlike(a, b, PROGRESS);

/** Whether statuses of all applications of a node may depend on what differs, which includes its silence. */
export const isSeenAlike = (a: EdgeNode, b: EdgeNode): boolean => areAlike(a, b, SHOWN) && isWorkedFromAlike(a, b);

/**
 * Whether the content that nodes are sent may depend on what differs. States of microservices only say what is done of it, so that
 * a microservice that starts and crashes for ever takes nothing back.
 */
export const isContentAlike = (a: EdgeNode, b: EdgeNode): boolean =>
  a.metadata.generation === b.metadata.generation && nodeUuid(a) === nodeUuid(b) && areAlike(a, b, FACTS);

const areAlike = ({ status: a }: EdgeNode, { status: b }: EdgeNode, members: readonly Member[]): boolean =>
  members.every((member) => isDeepStrictEqual(a?.[member], b?.[member]));

/** Whether a node has the same artifacts, whatever their states: what it has comes before what others ask for later. */
const hasAlike = (a: readonly ObservedArtifact[] = [], b: readonly ObservedArtifact[] = []): boolean =>
  a === b || (a.length === b.length && a.every(({ uuid }, i) => uuid === b[i]?.uuid));
