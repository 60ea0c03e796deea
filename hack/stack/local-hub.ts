import type { Kube } from '../kube.ts';
import type { Again } from '../process.ts';
import type { Log } from '../progress.ts';

/** What a hub that runs on this machine, beside the controller, is started with. */
export interface LocalHubOptions {
  /** Data folder of the stack. */
  dir: string;
  /** a superuser */
  kube: Kube;
  /** of the controller; the default one when absent */
  namespace?: string;
  log: Log;
  again?: Again;
  signal?: AbortSignal;
}
