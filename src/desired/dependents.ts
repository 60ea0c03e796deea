/** By dependency, the nodes whose desired state was made from it. */
export interface Dependents {
  of(dependency: string): ReadonlySet<string> | undefined;
  /** Replaces the dependencies of a node. */
  set(node: string, before: ReadonlySet<string> | undefined, after: ReadonlySet<string>): void;
}

export function createDependents(): Dependents {
  const nodesBy = new Map<string, Set<string>>();
  return {
    of: (dependency) => nodesBy.get(dependency),
    set(node, before, after) {
      for (const key of before ?? []) {
        if (after.has(key)) continue;
        const nodes = nodesBy.get(key);
        nodes?.delete(node);
        if (nodes?.size === 0) nodesBy.delete(key);
      }
      for (const key of after) {
        if (before?.has(key)) continue;
        const nodes = nodesBy.get(key);
        if (nodes) nodes.add(node);
        else nodesBy.set(key, new Set([node]));
      }
    },
  };
}
