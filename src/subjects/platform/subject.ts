import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createSigner } from '../../signer/signer.ts';
import { createPlatformController } from './reconcile/platform.ts';

/** What a machine needs besides its containers: the parts of the platform of a node. */
export const platform = {
  reconcilers: (deps: ControllerDependencies) => ({ further: [createPlatformController(deps, createSigner())] }),
};
