import type { Application, EdgeNode, MicroserviceEntry } from '../../api/v3/index.ts';
import { nodeUuid, v3Name } from '../names.ts';

/** Whether an entry is to run at all. */
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
