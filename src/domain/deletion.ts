import { ANNOTATIONS } from '../api/names.ts';
import type { Application, EdgeNode, ObservedMicroservice } from '../api/v3/index.ts';
import type { DesiredState, Liveness } from './inputs.ts';
import { entryUuid, v3Name } from './names.ts';

/** Longest time that a live node holds a deletion. */
export const DELETION_LIMIT_MS = 5 * 60_000;

/**
 * Whether a deletion must wait, for whom, and until when at most (Unix ms). Deletion is absence
 * (docs/spec/workloads.md#deletion): a live node is waited for until its report no longer shows the containers; a
 * silent or never provisioned one holds nothing.
 */
export type DeletionCheck = { pending: false; because: string } | { pending: true; message: string; until: number };

/** What a node says, beside what was placed on it. */
export interface Reporting {
  node: EdgeNode;
  desired?: Partial<Pick<DesiredState, 'entries'>>;
}

/**
 * Whether an Application in deletion must wait for live nodes that still report its containers. `ownsName` is false for
 * one that was refused with NameTaken: what bears its name is of the older one.
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
 * Whether an EdgeNode in deletion must wait: a live one removes its containers, then gives up its identity, and says so.
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

/** Whether the deletion was forced, or waited long enough. */
function waivedBecause({ metadata }: Application | EdgeNode, now: number): string | undefined {
  if (metadata.deletionTimestamp === undefined) return undefined;
  if (isForced(metadata.annotations?.[ANNOTATIONS.forceDelete])) return 'the deletion is forced';
  return now >= limitOf(metadata.deletionTimestamp) ? 'it waited long enough' : undefined;
}

/** Any value of the annotation forces, except the plain refusals. */
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

/** Microservices of an application that a node reports with a container, left-overs of removed entries included. */
function reportedOf(at: Reporting, application: Application, ownsName: boolean): readonly ObservedMicroservice[] {
  const name = v3Name(application);
  // without the view of what was placed there, by the uuid alone
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

/** uid of the Application whose entry put a microservice on this node; undefined for what no entry puts there now. */
export const ownerOf = ({ uuid }: Pick<ObservedMicroservice, 'uuid'>, { desired }: Pick<Reporting, 'desired'>) =>
  desired?.entries?.get(uuid)?.owner;

/** Nothing of it is left on the node. */
const LEFT_NOTHING: ReadonlySet<string> = new Set(['STOPPED', 'DELETED']);
/** Nothing was made yet, or the node left it out of its report, unless a container is named. */
const NOT_MADE: ReadonlySet<string> = new Set(['QUEUED', 'PULLING', 'UNKNOWN']);

/** Whether a container of it is, or may be, on the node. */
export function hasContainer({ state, containerId }: Pick<ObservedMicroservice, 'state' | 'containerId'>): boolean {
  return !LEFT_NOTHING.has(state) && (!NOT_MADE.has(state) || containerId !== undefined);
}

/** Whether the finalizer belongs on the object: everything that is not in deletion has it. */
export function needsFinalizer(object: Application | EdgeNode): boolean {
  return object.metadata.deletionTimestamp === undefined;
}
