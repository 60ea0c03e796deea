import type { Application, EdgeNode, MicroserviceEntry } from '../../../../api/v3/index.ts';
import { nodeUuid } from '../../../../rules/identity.ts';
import type { Lookups } from '../../../../rules/inputs.ts';
import { v3Name } from '../../../../rules/names.ts';
import { holder } from '../../../../rules/precedence.ts';
import { entriesKeptOn, recordedNode } from './moves.ts';

/** Whether two versions are of one object; an object that is not stored yet has neither uid nor, perhaps, namespace. */
export const isSame = ({ metadata: a }: Application, { metadata: b }: Application) =>
  a.name === b.name && (!a.uid || !b.uid || a.uid === b.uid);

/** Whether an entry should run. */
export function shouldRun(application: Application, entry: Pick<MicroserviceEntry, 'isActivated'>): boolean {
  return (
    (application.spec.isActivated ?? true) && (entry.isActivated ?? true) && !application.metadata.deletionTimestamp
  );
}

/** Entries of an application that name this node; another, older node may have the name as well. */
export function entriesOn(application: Application, node: EdgeNode): readonly MicroserviceEntry[] {
  const uuid = nodeUuid(node);
  const name = v3Name(node);
  return (application.spec.microservices ?? []).filter(
    ({ agent }) => agent && (agent.uuid === undefined ? agent.name === name : agent.uuid === uuid),
  );
}

/** The node that an entry names, when it exists. */
export function nodeOf(
  entry: Pick<MicroserviceEntry, 'agent'>,
  lookups: Pick<Lookups, 'nodeByName' | 'nodeByUuid'>,
): EdgeNode | undefined {
  const { name, uuid } = entry.agent ?? {};
  if (uuid) return lookups.nodeByUuid(uuid);
  return name ? lookups.nodeByName(name) : undefined;
}

/**
 * The node that has an entry: the node where it is recorded, until the leader has recorded a move from there; else the node that
 * it names. Undefined when that does not exist.
 */
export function currentNodeOf(
  application: Application,
  entry: MicroserviceEntry,
  lookups: Pick<Lookups, 'nodeByName' | 'nodeByUuid'>,
): EdgeNode | undefined {
  const recorded = shouldRun(application, entry) ? recordedNode(application, entry) : undefined;
  const node = recorded === undefined ? undefined : lookups.nodeByUuid(recorded);
  return node && !node.metadata.deletionTimestamp ? node : nodeOf(entry, lookups);
}

/** Finds the entries of applications that a node has: those that name it, and those that it keeps. */
export function placedOn(
  node: EdgeNode,
  lookups: Pick<Lookups, 'nodeByName'>,
): (application: Application) => readonly MicroserviceEntry[] {
  const named = namedOn(node, lookups);
  const kept = keptOn(node, lookups);
  return (application) => [...named(application), ...kept(application)];
}

/** Finds the entries that run on this node and are to move, for as long as no other node may take them. */
export function keptOn(
  node: EdgeNode,
  lookups: Pick<Lookups, 'nodeByName'>,
): (application: Application) => readonly MicroserviceEntry[] {
  const named = namedOn(node, lookups);
  return (application) =>
    entriesKeptOn(application, node, named(application)).filter((entry) => shouldRun(application, entry));
}

/** Finds the entries that name this node: of several nodes with one name, the name means the one that has it. */
function namedOn(
  node: EdgeNode,
  { nodeByName }: Pick<Lookups, 'nodeByName'>,
): (application: Application) => readonly MicroserviceEntry[] {
  const isMeant = nodeUuid(nodeByName(v3Name(node)) ?? node) === nodeUuid(node);
  return (application) => entriesOn(application, node).filter(({ agent }) => isMeant || agent?.uuid !== undefined);
}

/** The node among these that an entry is on, where they have every node that it may mean. */
export function nodeAmong<T extends { node: EdgeNode }>(
  entry: Pick<MicroserviceEntry, 'agent'>,
  nodes: readonly T[],
): T | undefined {
  const { name, uuid } = entry.agent ?? {};
  const all = nodes.map(({ node }) => node);
  const found =
    uuid === undefined
      ? holder(all.filter((node) => v3Name(node) === name))
      : holder(
          all.filter((node) => nodeUuid(node) === uuid),
          { uuid },
        );
  return found && nodes.find(({ node }) => node === found);
}

/** `currentNodeOf` among these nodes: an entry that may not move stays where it is recorded, unless that node is being deleted. */
export function currentNodeAmong<T extends { node: EdgeNode }>(
  entry: MicroserviceEntry,
  { application, nodes, staying }: { application: Application; nodes: readonly T[]; staying?: ReadonlySet<string> },
): T | undefined {
  const recorded = staying?.has(entry.name) ? recordedNode(application, entry) : undefined;
  const host = nodes.find(({ node }) => nodeUuid(node) === recorded && !node.metadata.deletionTimestamp);
  return host ?? nodeAmong(entry, nodes);
}
