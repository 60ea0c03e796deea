import { BOUNDS } from '../../../../api/bounds.ts';
import type { Application, ApplicationStatus, EdgeNode, MicroserviceEntry } from '../../../../api/v3/index.ts';
import { hasStopped } from '../../../../rules/deletion.ts';
import { nodeUuid } from '../../../../rules/identity.ts';
import type { Liveness, Observation } from '../../../../rules/inputs.ts';
import { entryUuid, v3Name } from '../../../../rules/names.ts';

/**
 * A microservice runs on one node at a time. Where it may have a container is in the status of its Application, which the
 * leader alone writes: the node of its line, and its former nodes. A node runs an entry only when the line names it, and no
 * former node is waited for; an entry without a line has not been anywhere. So every replica decides the same, from what the
 * API server has. A former node that is silent or gone is not waited for, and stays in the status until it is heard. Until
 * the leader has recorded a move, the node of the line keeps the entry: it records a move once the other node may take the entry.
 */
type StatusLine = NonNullable<ApplicationStatus['microservices']>[number];
export type FormerNode = NonNullable<StatusLine['formerNodes']>[number];
/** A node by its uuid; without one, by its name. */
export type NodeId = Pick<FormerNode, 'node' | 'uuid'>;

/** Where a microservice may have a container. */
export interface Placement {
  node?: string;
  nodeUuid?: string;
  formerNodes: readonly FormerNode[];
}

const linesOf = new WeakMap<readonly StatusLine[], ReadonlyMap<string, readonly StatusLine[]>>();

/** The line of the stored status about an entry, by its uuid: an edit may rename the entry. */
function lineOf({ status }: Application, name: string, uuid: string): StatusLine | undefined {
  if (!status?.microservices) return undefined;
  let lines = linesOf.get(status.microservices);
  if (!lines) {
    lines = Map.groupBy(status.microservices, (line) => line.uuid ?? '');
    linesOf.set(status.microservices, lines);
  }
  const own = lines.get(uuid) ?? [];
  return own.find((line) => line.name === name) ?? own[0];
}

/** The name of the line of the stored status with a uuid: that of the entry, if there is one; undefined without a line. */
export const lineNameOf = (application: Application, name: string, uuid: string): string | undefined =>
  lineOf(application, name, uuid)?.name;

/** uuids that one status has and the other does not: who has them may have changed. */
export function recordedDifferently(now: Application, before: Application): readonly string[] {
  const [a, b] = [now, before].map(({ status }) => status?.microservices ?? []);
  if (a === b) return [];
  const [is, was] = [a, b].map((lines) => new Set(lines?.flatMap(({ uuid }) => uuid ?? [])));
  return [...[...(is ?? [])].filter((uuid) => !was?.has(uuid)), ...[...(was ?? [])].filter((uuid) => !is?.has(uuid))];
}

/** Whether the stored status says that an entry was on a node, and its container may still be there. */
export function wasOn(application: Application, entry: MicroserviceEntry, node: EdgeNode): boolean {
  const line = lineOf(application, entry.name, entryUuid(application, entry));
  return line !== undefined && [...nodeIn(line), ...(line.formerNodes ?? [])].some((one) => isNode(one, node));
}

/**
 * Entries that the node of their line keeps although they name another one, or none: the leader has not recorded their move. `named`
 * are the entries that name the node.
 */
export function entriesKeptOn(
  application: Application,
  node: EdgeNode,
  named: readonly MicroserviceEntry[],
): readonly MicroserviceEntry[] {
  const here = nodeUuid(node);
  const lines = (application.status?.microservices ?? []).filter((line) => line.nodeUuid === here);
  if (lines.length === 0) return [];
  const uuidsNamed = new Set(named.map((entry) => entryUuid(application, entry)));
  const left = new Set(lines.flatMap(({ uuid }) => (uuid === undefined || uuidsNamed.has(uuid) ? [] : [uuid])));
  if (left.size === 0) return [];
  return (application.spec.microservices ?? []).filter((entry) => {
    const uuid = entryUuid(application, entry);
    return left.has(uuid) && lineOf(application, entry.name, uuid)?.nodeUuid === here;
  });
}

/** Whether an entry names the node of its line, as far as the two say; a name may mean another node than it did. */
const namesNodeOf = ({ agent }: MicroserviceEntry, { node, nodeUuid: uuid }: StatusLine) =>
  agent?.uuid === undefined ? agent?.name === node : agent.uuid === uuid;

/** uuids of the nodes where entries are recorded that name another node, or none. */
export function nodesOfLeaving(application: Application): readonly string[] {
  if (!application.status?.microservices) return [];
  return (application.spec.microservices ?? []).flatMap((entry) => {
    const line = lineOf(application, entry.name, entryUuid(application, entry));
    return line?.nodeUuid === undefined || namesNodeOf(entry, line) ? [] : [line.nodeUuid];
  });
}

/** The uuid of the node that the line of an entry names; undefined without one. */
export const recordedNode = (application: Application, entry: MicroserviceEntry): string | undefined =>
  lineOf(application, entry.name, entryUuid(application, entry))?.nodeUuid;

/** The nodes that an entry left and that may still have its container, as the status says. */
export const formerNodesOf = (application: Application, entry: MicroserviceEntry): readonly FormerNode[] =>
  lineOf(application, entry.name, entryUuid(application, entry))?.formerNodes ?? [];

/** The node that a line names; lines written before uuids were recorded have only the name. */
const nodeIn = ({ node, nodeUuid: uuid }: StatusLine): readonly NodeId[] =>
  node === undefined ? [] : [{ node, ...(uuid !== undefined && { uuid }) }];

/** Names of the nodes that must stop a microservice before this node may start it. */
export function waitsFor(application: Application, name: string, uuid: string, node: EdgeNode): readonly string[] {
  const line = lineOf(application, name, uuid);
  if (!line) return [];
  const former = (line.formerNodes ?? []).filter((one) => one.state === 'Stopping' && !isNode(one, node));
  // Until the leader has recorded the move, the line names the former node.
  const unrecorded = nodeIn(line).filter((one) => !isNode(one, node));
  return [...new Set([...unrecorded, ...former].map((one) => one.node))];
}

/** When the last of the moves was recorded (Unix ms) because of which this node is to report; undefined without one. */
function lastMoveFrom(applications: readonly Application[], node: EdgeNode): number | undefined {
  const times = applications
    .flatMap(({ status }) => status?.microservices ?? [])
    .flatMap(({ formerNodes = [] }) => formerNodes.filter((one) => isNode(one, node)))
    .map(({ since }) => timeOf(since));
  return times.length === 0 ? undefined : Math.max(...times);
}

const TIME_DIGITS = 12;
const PLAIN_DIGITS = 16;
const WITH_TIME = /^[0-9a-f]{28}$/;

/** How far ahead of the clock a recorded time may be; beyond it was written by hand, or a node made it up. */
const AHEAD_MS = 24 * 60 * 60_000;

/** The Unix ms of a recorded time; 0 when it is none, or has more digits than a digest has room for. */
function timeOf(since: string): number {
  const time = Date.parse(since);
  return time > 0 && time < 16 ** TIME_DIGITS ? time : 0;
}

const isCredible = (time: number, now: string) => time > 0 && time <= Date.parse(now) + AHEAD_MS;

/**
 * The digest of the list of a node, with the time of the last move from it. A report that follows a list with a time was made
 * after all moves until then, also when the list names the same microservices as it did before they came to the node.
 *
 * The time has no field of its own, because the digest is the only text of a list that agents send back in their reports, agents of
 * earlier versions among them. Their reports would lack a new field, and no move from their nodes would end.
 */
export function digestWithMoves(digest: string, applications: readonly Application[], node: EdgeNode): string {
  const time = lastMoveFrom(applications, node);
  return time === undefined
    ? digest
    : `${digest.slice(0, PLAIN_DIGITS)}${time.toString(16).padStart(TIME_DIGITS, '0')}`;
}

/** The time in such a digest; 0 without one. A node may report any text. */
export const moveTimeIn = (digest = ''): number =>
  WITH_TIME.test(digest) ? Number.parseInt(digest.slice(PLAIN_DIGITS), 16) : 0;

/** The time that a node was told; 0 without a credible one. */
function toldTime(digest: string | undefined, now: string): number {
  const time = moveTimeIn(digest);
  return isCredible(time, now) ? time : 0;
}

/** What a former node means for its microservice. */
export function formerNodeText({ state, node }: Pick<FormerNode, 'state' | 'node'>): string {
  switch (state) {
    case 'Stopping':
      return `waits until the node "${node}" has stopped it`;
    case 'Removing':
      return `the node "${node}" is heard again and removes its container`;
    case 'Unreachable':
      return `its container may still run on the node "${node}", of which nothing is heard`;
    case 'Gone':
      return `its container may still run on the machine of the node "${node}", which was deleted before it reported`;
  }
}

/** Whether a record is about this node; one without a uuid was made when the node was gone already. */
export const isNode = ({ uuid, node }: NodeId, other: EdgeNode) =>
  uuid === undefined ? node === v3Name(other) : uuid === nodeUuid(other);

/** A former node as far as it is known now. */
export type Sighting = 'Live' | 'Stopped' | 'Silent' | 'Absent';

/** What the leader knows of a former node. */
export interface FormerNodeFacts {
  node: EdgeNode | undefined;
  /** whether it is heard; its stored state may be older than that */
  liveness?: Liveness | undefined;
  /** digest of the list that is due for it */
  due?: string | undefined;
  observation?: Pick<Observation, 'agent' | 'reportedAt' | 'sentRevisions'> | undefined;
}

/** What a former node is to a microservice, by its last report. `since` is absent while the move is not recorded. */
export function sightingOf(uuid: string, since: string | undefined, facts: FormerNodeFacts, now: string): Sighting {
  const { node, liveness } = facts;
  if (!node) return 'Absent';
  const { microservices = [], daemonStatus } = node.status ?? {};
  const item = microservices.find((one) => one.uuid === uuid);
  const isWithout = item === undefined || hasStopped(item);
  if (isWithout && since !== undefined && knowsMove(uuid, since, node, facts, now)) return 'Stopped';
  if (liveness === 'silent' && daemonStatus === 'UNKNOWN') return 'Silent';
  // Without an agent a node starts nothing; one that was deprovisioned may have kept what it last reported.
  const hasNoAgent = daemonStatus === 'NOT_PROVISIONED' || daemonStatus === 'DEPROVISIONED';
  if (liveness === 'never' && hasNoAgent) return isWithout ? 'Stopped' : 'Silent';
  return 'Live';
}

/** Whether a node may have a container of a microservice that it was to run: without an agent it never started one. */
export const mayHave = (uuid: string, facts: FormerNodeFacts): boolean =>
  ['Live', 'Silent'].includes(sightingOf(uuid, undefined, facts, ''));

/**
 * Whether the last report of a node follows a list that was made after a move was recorded. An agent that does not say which
 * list its report follows knows the move when it was last sent a list without the microservice, and reported later.
 */
function knowsMove(
  uuid: string,
  since: string,
  { status }: EdgeNode,
  { observation }: FormerNodeFacts,
  now: string,
): boolean {
  const isThirdParty = observation !== undefined && observation.agent === undefined;
  if (!isThirdParty && status?.microserviceList !== undefined)
    return toldTime(status.microserviceList, now) >= Date.parse(since);
  return (
    observation !== undefined && !observation.sentRevisions[uuid] && (observation.reportedAt ?? 0) > Date.parse(since)
  );
}

/** The record of a former node after a sighting; undefined when it has no container any more. */
export function afterSighting(state: FormerNode['state'], sighting: Sighting): FormerNode['state'] | undefined {
  return NEXT[sighting][state];
}

type Next = Readonly<Record<FormerNode['state'], FormerNode['state'] | undefined>>;

/** By sighting and state. What the new node no longer waits for, it never waits for again: its container may run. */
const NEXT: Readonly<Record<Sighting, Next>> = {
  Live: { Stopping: 'Stopping', Unreachable: 'Removing', Removing: 'Removing', Gone: 'Removing' },
  Stopped: { Stopping: undefined, Unreachable: undefined, Removing: undefined, Gone: undefined },
  Silent: { Stopping: 'Unreachable', Unreachable: 'Unreachable', Removing: 'Unreachable', Gone: 'Unreachable' },
  Absent: { Stopping: 'Gone', Unreachable: 'Gone', Removing: 'Gone', Gone: 'Gone' },
};

export interface PlacementInputs {
  application: Application;
  /** the node that keeps an entry, else the one that it names, when it exists */
  nodeOf: (entry: MicroserviceEntry) => EdgeNode | undefined;
  factsOf: (former: NodeId) => FormerNodeFacts;
  /** nodes that the entry left before its first line was written */
  leftEarly?: (uuid: string) => Iterable<NodeId>;
  /** RFC 3339 */
  now: string;
}

/** Where each entry may have a container, by entry name: what the leader records. */
export function placements(inputs: PlacementInputs): ReadonlyMap<string, Placement> {
  const { microservices = [] } = inputs.application.spec;
  return new Map(microservices.map((entry) => [entry.name, placementOf(entry, inputs)]));
}

function placementOf(entry: MicroserviceEntry, inputs: PlacementInputs): Placement {
  const { application, nodeOf, factsOf, leftEarly, now } = inputs;
  const uuid = entryUuid(application, entry);
  const line = lineOf(application, entry.name, uuid);
  const node = nodeOf(entry);
  const here = node && v3Name(node);
  const isEdited = application.metadata.generation !== application.status?.observedGeneration;
  const known = (line?.formerNodes ?? [])
    .filter((one) => !(node && one.uuid !== undefined && isNode(one, node)))
    // That a node was deleted is said until the next edit.
    .filter(({ state }) => !(state === 'Gone' && isEdited && line?.node === here))
    .flatMap((one) => {
      // A record without a uuid is about a node that was gone; another one of its name has nothing to do with it.
      const facts = one.uuid === undefined ? { node: undefined } : factsOf(one);
      // A time that cannot be one of a move counts as a move that is not recorded yet.
      const isRecorded = isCredible(timeOf(one.since), now);
      const state = afterSighting(one.state, sightingOf(uuid, isRecorded ? one.since : undefined, facts, now));
      return state ? [{ ...one, since: isRecorded ? one.since : laterThan(facts, now), state }] : [];
    });
  const left = [...(line ? nodeIn(line) : []), ...(leftEarly?.(uuid) ?? [])]
    .filter((one) => !(node && isNode(one, node)))
    .filter((one, i, all) => ![...known, ...all.slice(0, i)].some((other) => isAlike(one, other)));
  const added = left.flatMap((one): FormerNode[] => {
    const facts = factsOf(one);
    const state = afterSighting('Stopping', sightingOf(uuid, undefined, facts, now));
    const since = laterThan(facts, now);
    return state ? [{ ...one, ...(facts.node && { uuid: nodeUuid(facts.node) }), since, state }] : [];
  });
  return {
    ...(node && !isEmptied(node, uuid, factsOf) && { node: v3Name(node), nodeUuid: nodeUuid(node) }),
    formerNodes: bounded([...known, ...added]),
  };
}

/** Whether two are about one node; a name counts only where one of them has no uuid. */
const isAlike = (a: NodeId, b: NodeId) =>
  a.uuid === undefined || b.uuid === undefined ? a.node === b.node : a.uuid === b.uuid;

/** Now, or later than all moves that the node has been told, whichever clock they were recorded by. */
function laterThan({ node, due }: FormerNodeFacts, now: string): string {
  const told = Math.max(toldTime(due, now), toldTime(node?.status?.microserviceList, now));
  return new Date(Math.max(Date.parse(now), told + 1)).toISOString();
}

/** Whether a node that is being deleted has reported that it stopped everything: then nothing of a microservice remains there. */
function isEmptied(node: EdgeNode, uuid: string, factsOf: PlacementInputs['factsOf']): boolean {
  if (!node.metadata.deletionTimestamp) return false;
  const { microservices = [], microserviceList } = node.status ?? {};
  const item = microservices.find((one) => one.uuid === uuid);
  const { due, liveness } = factsOf({ node: v3Name(node), uuid: nodeUuid(node) });
  const hasReported = microserviceList !== undefined && microserviceList === due;
  return item === undefined && liveness === 'never' ? true : (item === undefined || hasStopped(item)) && hasReported;
}

/** At most as many as a line may have; those that are waited for come first. */
const bounded = (all: readonly FormerNode[]): readonly FormerNode[] =>
  all.toSorted((a, b) => Number(b.state === 'Stopping') - Number(a.state === 'Stopping')).slice(0, BOUNDS.formerNodes);

/** The application with these placements in its status, for verdicts. */
export function withPlacements(application: Application, found: ReadonlyMap<string, Placement>): Application {
  const { status } = application;
  const lines = (application.spec.microservices ?? []).map(({ name, uuid: own }): StatusLine => {
    const uuid = entryUuid(application, { name, ...(own !== undefined && { uuid: own }) });
    const { formerNodes = [], ...place } = found.get(name) ?? {};
    const { state, ready } = lineOf(application, name, uuid) ?? { state: 'QUEUED', ready: false };
    return { name, uuid, state, ready, ...place, formerNodes: [...formerNodes] };
  });
  return { ...application, status: { observedGeneration: -1, ...status, microservices: lines } };
}

/** Names of the nodes whose desired state depends on placements that differ between two statuses with one spec. */
export function replaced(now: Application, before: Application): ReadonlySet<string> {
  const names = new Set<string>();
  const leaving = new Set<string | undefined>(nodesOfLeaving(now));
  for (const line of now.status?.microservices ?? []) {
    const old = lineOf(before, line.name, line.uuid ?? '');
    // A first line without former nodes holds nothing, unless its node keeps an entry that names another one.
    if (!old && !line.formerNodes && !leaving.has(line.nodeUuid)) continue;
    if (old && isOnSameNode(old, line) && formerText(old) === formerText(line)) continue;
    const places = [line, ...(old ? [old] : [])];
    for (const { node, formerNodes = [] } of places)
      for (const name of [node, ...formerNodes.map((one) => one.node)]) if (name !== undefined) names.add(name);
  }
  return names;
}

// The members have a fixed order here, since the API server returns them in another one.
const formerText = ({ formerNodes = [] }: StatusLine) =>
  JSON.stringify(formerNodes.map((one) => [one.node, one.uuid, one.since, one.state]));

/** The first record of the uuid of a node is no move. */
const isOnSameNode = (a: StatusLine, b: StatusLine) =>
  a.node === b.node && (a.nodeUuid === b.nodeUuid || a.nodeUuid === undefined || b.nodeUuid === undefined);
