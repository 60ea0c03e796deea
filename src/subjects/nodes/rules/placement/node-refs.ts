import type { Application } from '../../../../api/v3/index.ts';
import { nodesOfLeaving } from './moves.ts';

/** `name:<node>` and `uuid:<node>`: the nodes that an application's entries name, are to leave, or left. */
export function nodeRefsOf(application: Application): Iterable<string> {
  const refs = new Set(
    [...formerNodeUuidsOf(application), ...nodesOfLeaving(application)].map((uuid) => `uuid:${uuid}`),
  );
  for (const { agent } of application.spec.microservices ?? []) {
    if (agent?.uuid) refs.add(`uuid:${agent.uuid}`);
    else if (agent?.name) refs.add(`name:${agent.name}`);
  }
  return refs;
}

/** uuids of the nodes that entries of an application left and that may still have their containers. */
export function formerNodeUuidsOf({ status }: Application): readonly string[] {
  return (status?.microservices ?? []).flatMap(({ formerNodes = [] }) => formerNodes.flatMap(({ uuid }) => uuid ?? []));
}
