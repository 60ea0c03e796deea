import type { OtherAgentContainer, OtherAgentsPort } from '../engine-port/ownership.ts';

/**
 * Orphans: containers of an agent that no longer exists, because its data was lost or its program was removed. Those of
 * this node are adopted: the agent takes their instance id, as long as it has no containers of its own. A person decides
 * about all others.
 */

/** The containers of other agents that do not run any more. */
export async function findOrphans(
  engine: OtherAgentsPort,
  alive: (instance: string) => Promise<boolean>,
  signal?: AbortSignal,
): Promise<OtherAgentContainer[]> {
  const all = await engine.containersOfOtherAgents(signal);
  const instances = [...new Set(all.map(({ instance }) => instance))];
  const living = new Set<string>();
  for (const instance of instances) if (await alive(instance)) living.add(instance);
  return all.filter(({ instance }) => !living.has(instance));
}

/** The instance whose containers are those of a node: of several the one that runs most. Pure. */
export function instanceOf(orphans: readonly OtherAgentContainer[], nodeUuid: string): string | undefined {
  const weights = new Map<string, number>();
  for (const { instance, nodeUuid: node, running } of orphans)
    if (node === nodeUuid && /^[0-9a-f]{32}$/.test(instance))
      weights.set(instance, (weights.get(instance) ?? 0) + (running ? 1000 : 1));
  return [...weights].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))[0]?.[0];
}

/** The problem that orphans of this node run in addition to its own containers. */
export function orphanProblem(
  orphans: readonly OtherAgentContainer[],
  nodeUuid: string | undefined,
): string | undefined {
  const own = orphans.filter((each) => each.nodeUuid === nodeUuid).map(({ name }) => name);
  if (own.length === 0) return undefined;
  const more = own.length > 5 ? ` and ${own.length - 5} more` : '';
  return `containers of an earlier installation of this node are here as well: ${own.slice(0, 5).join(', ')}${more}; skerry-agent orphans shows and removes them`;
}
