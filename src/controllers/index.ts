import type { Controller } from '../kube/mod.ts';
import { KINDS, type KindKey } from '../subjects/kinds.ts';
import { createApplicationController } from './application.ts';
import { createArtifactController } from './artifact.ts';
import { createCatalogItemController } from './catalog-item.ts';
import { createCoreObjectController } from './core-objects.ts';
import { createDebugShellController } from './debug-shell.ts';
import type { ControllerDependencies } from './dependencies.ts';
import { createEdgeNodeController } from './edge-node.ts';
import { createKindController } from './kind.ts';
import { createMassSilence } from './mass-silence.ts';
import { createProvisioningKeyController } from './provisioning-key.ts';
import { createRegistryController } from './registry.ts';
import { createSilencePacer } from './silence-pacer.ts';
import { createTemplateKindController } from './template-kind.ts';
import { createTemplateController } from './templates.ts';
import { createVolumeMountController } from './volume-mount.ts';

export type { ControllerDependencies } from './dependencies.ts';

/** Runs every reconciler until the signal aborts, and resolves when the last one has ended. */
export async function runControllers(deps: ControllerDependencies, signal: AbortSignal): Promise<void> {
  const nodePacer = createSilencePacer(deps.clock);
  await using running = new AsyncDisposableStack();
  const massSilence = running.use(createMassSilence(deps, nodePacer));
  const nodes = createEdgeNodeController(deps, massSilence, nodePacer);
  running.defer(() => nodes[Symbol.dispose]());
  const templates = createTemplateController(deps, (key) => applications.enqueue(key));
  const applications: Controller = createApplicationController(
    deps,
    massSilence,
    createSilencePacer(deps.clock),
    templates.verdicts,
  );
  /** Kinds with a reconciler of their own; every other kind gets the plain one. */
  const own: Partial<Record<KindKey, Controller>> = {
    registries: createRegistryController(deps),
    models: createArtifactController(deps, 'models'),
    knowledge: createArtifactController(deps, 'knowledge'),
    catalogItems: createCatalogItemController(deps),
    nodes,
    volumeMounts: createVolumeMountController(deps),
    applicationTemplates: createTemplateKindController(deps, KINDS.applicationTemplates),
    microserviceTemplates: createTemplateKindController(deps, KINDS.microserviceTemplates),
    applications,
  };
  const plain = Object.values(deps.kinds).filter(({ key }) => !Object.hasOwn(own, key));
  const controllers: readonly Controller[] = [
    ...Object.values(own),
    templates.controller,
    createProvisioningKeyController(deps),
    createDebugShellController(deps),
    createCoreObjectController(deps, 'secrets'),
    createCoreObjectController(deps, 'configMaps'),
    ...plain.map((kind) => createKindController(deps, kind)),
  ];
  for (const controller of controllers) running.use(controller);
  await Promise.all(controllers.map((controller) => controller.run(signal)));
}
