import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createArtifactController } from './reconcile/artifact.ts';
import { createCoreObjectController } from './reconcile/core-objects.ts';
import { createVolumeMountController } from './reconcile/volume-mount.ts';
import { coreObjectRoutes } from './routes/core-objects.ts';
import { volumeMountsOfNodes } from './routes/mounts-of-nodes.ts';
import { volumeMountRoutes } from './routes/volume-mounts.ts';

/** What machines get besides containers: Secrets and ConfigMaps, VolumeMount, Model, Knowledge. */
export const content = {
  membersOfNodes: volumeMountsOfNodes,
  routes: { volumeMounts: volumeMountRoutes },
  furtherRoutes: coreObjectRoutes,
  reconcilers: (deps: ControllerDependencies) => ({
    ofKinds: {
      models: createArtifactController(deps, 'models'),
      knowledge: createArtifactController(deps, 'knowledge'),
      volumeMounts: createVolumeMountController(deps),
    },
    further: [createCoreObjectController(deps, 'secrets'), createCoreObjectController(deps, 'configMaps')],
  }),
};
