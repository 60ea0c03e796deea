import type { ControlPlane } from '../api/names.ts';

/** What the configuration of an installation says of services. */
export interface ServiceSettings {
  /** whether routers and services act at all */
  isEnabled: boolean;
  controlPlane: ControlPlane;
  /** bridge ports, both ends included */
  ports: { first: number; last: number };
  /** what tags of nodes that select services begin with */
  tagPrefix: string;
  /** whether the leader dials the ports of services at the default router */
  isDialed: boolean;
  /** name of the installation, and labels of what the controller makes in the cluster */
  installation: string;
  appLabel: string;
  componentDomain: string;
}
