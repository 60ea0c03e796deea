import type { Application, EdgeNode, MicroserviceEntry } from '../../api/v3/index.ts';
import type { Lookups } from '../inputs.ts';
import { nodeUuid, v3Name } from '../names.ts';

/** Whether an entry should run. */
export function shouldRun(application: Application, entry: Pick<MicroserviceEntry, 'isActivated'>): boolean {
  return (
    (application.spec.isActivated ?? true) && (entry.isActivated ?? true) && !application.metadata.deletionTimestamp
  );
}

/** Entries of an application that name this node. */
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

/** Entries of an application that are on this node: of several nodes with one name, the name means the oldest. */
export const entriesPlacedOn = (
  application: Application,
  node: EdgeNode,
  lookups: Pick<Lookups, 'nodeByName' | 'nodeByUuid'>,
): readonly MicroserviceEntry[] =>
  entriesOn(application, node).filter((entry) => nodeUuid(nodeOf(entry, lookups) ?? node) === nodeUuid(node));
