import type { Application, EdgeNode } from '../../api/v3/index.ts';
import { type Kind, referenceKey, refsTo } from '../../kinds/definition.ts';
import type { KindObject } from '../../kinds/object.ts';
import { memoised } from '../../lib/memoised.ts';
import { nodeUuid } from '../../rules/identity.ts';
import { liveness } from '../../subjects/nodes/rules/liveness.ts';
import { presentNode } from '../../subjects/nodes/rules/observed.ts';
import type { LiveNode } from '../../subjects/nodes/rules/read.ts';
import type { RestDependencies } from '../contract/dependencies.ts';

/** The dependencies that the present state of nodes is read from. */
export type LiveSources = Pick<RestDependencies, 'observations' | 'provisioning' | 'clock'>;

/** The present state of nodes, measurements included. */
export async function liveNodes(
  deps: LiveSources,
  nodes: readonly EdgeNode[],
  signal: AbortSignal,
): Promise<(node: EdgeNode) => LiveNode> {
  const observations = await deps.observations.of(nodes.map(nodeUuid), signal);
  const now = deps.clock();
  return (node) => {
    const observation = observations.get(nodeUuid(node));
    // Without a report in memory only the stored status says whether a node is silent.
    const listeningSince = observation?.reportedAt === undefined ? now : deps.observations.listeningSince();
    const provisioned = deps.provisioning(nodeUuid(node));
    return {
      liveness: liveness(node, observation, now, listeningSince),
      ...(observation && { observation }),
      ...(provisioned && { provisioned }),
    };
  };
}

/**
 * Nodes as reads show them at this moment. Every rule that refuses a request because of what a node reports is given these:
 * the stored status is up to half a second older (docs/spec/rest-v3.md#one-truth).
 */
export async function presentNodes(
  deps: LiveSources,
  nodes: readonly EdgeNode[],
  signal: AbortSignal,
): Promise<(node: EdgeNode) => EdgeNode> {
  const live = await liveNodes(deps, nodes, signal);
  return memoised((node) => presentNode(node, live(node)));
}

/** The applications whose entries refer to an object. */
export const applicationsReferringTo = <T extends KindObject>(
  deps: RestDependencies,
  kind: Kind<T>,
  object: T,
): ReadonlySet<Application> =>
  new Set(refsTo(kind, object).flatMap((ref) => deps.applications.find('ref', referenceKey({ to: kind.key, ref }))));
