import type { Application, EdgeNode, MicroserviceEntry } from '../../api/v3/index.ts';
import type { Lookups } from '../inputs.ts';
import { nodeUuid, v3Name } from '../names.ts';
import { holder } from '../precedence.ts';

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

/** Finds the entries of applications that are on this node: of several nodes with one name, the name means the one that has it. */
export function placedOn(
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
