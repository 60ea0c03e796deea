import type { Controller } from '../kube/mod.ts';
import { createApplicationController } from './application.ts';
import type { Leader } from './dependencies.ts';
import { createEdgeNodeController } from './edge-node.ts';
import { createProvisioningKeyController } from './provisioning-key.ts';
import { createRegistryController } from './registry.ts';
import { createSilence, type Silence } from './silence-pacer.ts';

/** Every reconciler. The list is the table of contents of what the leader does. */
const CONTROLLERS: readonly ((leader: Leader, silence: Silence) => Controller & Partial<Disposable>)[] = [
  createRegistryController,
  createEdgeNodeController,
  createApplicationController,
  createProvisioningKeyController,
];

/** Runs them until the signal aborts, and resolves when the last one ended. */
export async function runControllers(leader: Leader, signal: AbortSignal): Promise<void> {
  const silence = createSilence(leader.clock);
  const controllers = CONTROLLERS.map((create) => create(leader, silence));
  try {
    await Promise.all(controllers.map((controller) => controller.run(signal)));
  } finally {
    for (const controller of controllers) {
      controller[Symbol.dispose]?.();
      await controller[Symbol.asyncDispose]();
    }
  }
}
