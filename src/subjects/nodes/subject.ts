import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createEdgeNodeController } from './reconcile/edge-node.ts';
import { createMassSilence } from './reconcile/mass-silence.ts';
import { createProvisioningKeyController } from './reconcile/provisioning-key.ts';
import { createSilencePacer } from './reconcile/silence-pacer.ts';
import { type MembersOfNodes, nodeRoutes } from './routes/nodes.ts';
import { topologyRoutes } from './routes/topology.ts';
import { tunnelRoutes } from './routes/tunnel.ts';

/** Machines: EdgeNode, its settings, reports, silence and actions. `members` are those of reads that later subjects know. */
export const nodes = (members: MembersOfNodes) => ({
  routes: { nodes: nodeRoutes(members) },
  furtherRoutes: [...topologyRoutes, ...tunnelRoutes],
  /** What nodes and later subjects judge silence by. */
  silence(deps: ControllerDependencies) {
    const pacer = createSilencePacer(deps.clock);
    return { pacer, mass: createMassSilence(deps, pacer) };
  },
  reconcilers(deps: ControllerDependencies, { pacer, mass }: Silence) {
    return {
      ofKinds: { nodes: createEdgeNodeController(deps, mass, pacer) },
      further: [createProvisioningKeyController(deps)],
    };
  },
});

/** Silence of nodes, as the reconcilers of one term share it. */
export interface Silence {
  pacer: ReturnType<typeof createSilencePacer>;
  mass: ReturnType<typeof createMassSilence>;
}
