import type { EdgeNode } from '../../../api/v3/index.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { applicationsReferringTo } from '../../../rest/objects/present.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import { nodeRefsOf } from '../../nodes/rules/placement/node-refs.ts';
import { volumeMountKind } from '../kinds/volume-mount.ts';
import { mountShown, mountsOn } from '../rules/volume-mount/on-node.ts';

/** The volume mounts in reads of nodes. */
export const volumeMountsOfNodes = {
  one: ({ lookups }: Pick<RestDependencies, 'lookups'>, node: EdgeNode) => ({
    volumeMounts: mountsOn(node, lookups).map(mountShown),
  }),
  /** It looks through the applications of a node only when the node may have a volume mount, so that the cost grows with their use. */
  each(deps: RestDependencies) {
    const mounted = new Set<string>();
    for (const mount of deps.volumeMounts.list()) {
      for (const node of mount.spec.nodes ?? []) mounted.add(node);
      for (const application of applicationsReferringTo(deps, volumeMountKind, mount))
        for (const ref of nodeRefsOf(application)) mounted.add(ref.slice(ref.indexOf(':') + 1));
    }
    return (node: EdgeNode) =>
      mounted.has(nodeUuid(node)) || mounted.has(v3Name(node)) ? this.one(deps, node) : { volumeMounts: [] };
  },
};
