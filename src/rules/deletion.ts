import { ANNOTATIONS } from '../api/names.ts';
import type { Application, EdgeNode, ObservedMicroservice } from '../api/v3/index.ts';
import type { DesiredState, Liveness } from './inputs.ts';
import { entryUuid, v3Name } from './names.ts';

/** The longest time that a deletion waits for a live node. */
export const DELETION_LIMIT_MS = 5 * 60_000;

/**
 * Whether a deletion must wait, for what, and until when at most (Unix ms). An object in deletion is absent from desired
 * states (docs/spec/workloads.md#deletion). The deletion waits for a live node until its report no longer has the
 * containers; it does not wait for a silent node or for one that was never provisioned.
 */
export type DeletionCheck = { pending: false; because: string } | { pending: true; message: string; until: number };

/** A node with its report and its desired state. */
export interface Reporting {
  node: EdgeNode;
  desired?: Partial<Pick<DesiredState, 'entries'>>;
}

/**
 * Whether an Application in deletion must wait for live nodes that still report its containers. `ownsName` is false for
 * one that was refused with NameTaken: containers under its name belong to the older one.
 */
export function checkApplicationDeletion(
  application: Application,
  nodes: readonly (Reporting & { liveness: Liveness })[],
  now: number,
  { ownsName = true }: { ownsName?: boolean } = {},
): DeletionCheck {
  const waived = waivedBecause(application, now);
  if (waived) return { pending: false, because: waived };
  const running = nodes
    .filter(({ liveness }) => liveness === 'live')
    .flatMap((at) =>
      reportedOf(at, application, ownsName).map((item) => `${item.name ?? item.uuid} on ${v3Name(at.node)}`),
    );
  return pendingOn(application, running, 'no live node reports any of its containers');
}

/**
 * Whether an EdgeNode in deletion must wait: a live agent removes its containers, gives up its identity, and reports that.
 */
export function checkNodeDeletion(node: EdgeNode, liveness: Liveness, now: number): DeletionCheck {
  const waived = waivedBecause(node, now);
  if (waived) return { pending: false, because: waived };
  if (liveness === 'never') return { pending: false, because: 'no agent has its identity' };
  if (liveness === 'silent') return { pending: false, because: 'the node is silent' };
  if (node.status?.daemonStatus === 'DEPROVISIONED')
    return { pending: false, because: 'the agent gave up the identity' };
  const running = (node.status?.microservices ?? [])
    .filter(hasContainer)
    .map(({ application, name, uuid }) => (name ? `${application ?? ''}/${name}` : uuid));
  return pendingOn(node, running.length > 0 ? running : ['the agent to give up its identity'], '');
}

/** Why a deletion no longer waits: it was forced, or has waited long enough. */
function waivedBecause({ metadata }: Application | EdgeNode, now: number): string | undefined {
  if (metadata.deletionTimestamp === undefined) return undefined;
  if (isForced(metadata.annotations?.[ANNOTATIONS.forceDelete])) return 'the deletion is forced';
  return now >= limitOf(metadata.deletionTimestamp) ? 'it waited long enough' : undefined;
}

/** Any value of the annotation forces the deletion, except `false` and the empty one. */
const isForced = (value: string | undefined) => value !== undefined && value !== 'false' && value !== '';

const limitOf = (deletionTimestamp: string) => Date.parse(deletionTimestamp) + DELETION_LIMIT_MS;

function pendingOn({ metadata }: Application | EdgeNode, running: readonly string[], done: string): DeletionCheck {
  if (running.length === 0) return { pending: false, because: done };
  return {
    pending: true,
    message: `waiting for ${[...running].sort().join(', ')}`,
    until: limitOf(metadata.deletionTimestamp ?? ''),
  };
}

/** Microservices of an application that a node reports with a container, those of removed entries included. */
function reportedOf(at: Reporting, application: Application, ownsName: boolean): readonly ObservedMicroservice[] {
  const name = v3Name(application);
  // Without a desired state, the uuid alone decides.
  const uuids = new Set(
    at.desired?.entries ? [] : (application.spec.microservices ?? []).map((entry) => entryUuid(application, entry)),
  );
  return (at.node.status?.microservices ?? []).filter((item) => {
    if (!hasContainer(item)) return false;
    const owner = ownerOf(item, at);
    if (owner !== undefined) return owner === (application.metadata.uid ?? '');
    return uuids.has(item.uuid) || (ownsName && item.application === name);
  });
}

/** uid of the Application whose entry places a microservice on this node; undefined when no entry does now. */
export const ownerOf = ({ uuid }: Pick<ObservedMicroservice, 'uuid'>, { desired }: Pick<Reporting, 'desired'>) =>
  desired?.entries?.get(uuid)?.owner;

/** States without a container on the node. */
const LEFT_NOTHING: ReadonlySet<string> = new Set(['STOPPED', 'DELETED']);
/** States without a container, unless the report names one: it was not created yet, or the report leaves it out. */
const NOT_MADE: ReadonlySet<string> = new Set(['QUEUED', 'PULLING', 'UNKNOWN']);

/** Whether the node has, or may have, a container of a microservice. */
export function hasContainer({ state, containerId }: Pick<ObservedMicroservice, 'state' | 'containerId'>): boolean {
  return !LEFT_NOTHING.has(state) && (!NOT_MADE.has(state) || containerId !== undefined);
}

/** Whether a report says that nothing of a microservice runs, and nothing will be started. */
export const hasStopped = ({ state }: Pick<ObservedMicroservice, 'state'>): boolean => LEFT_NOTHING.has(state);
