import type { ControlPlane } from '../api/names.ts';
import type { Finding } from './conditions.ts';

/** What the configuration of an installation says of services. */
export interface ServiceSettings {
  /** whether routers and services act at all */
  isEnabled: boolean;
  controlPlane: ControlPlane;
  /** bridge ports, both ends included */
  ports: { first: number; last: number };
  /** what tags of nodes that select services begin with */
  tagPrefix: string;
  /** name of the installation, and labels of what the controller makes in the cluster */
  installation: string;
  appLabel: string;
  componentDomain: string;
}

/** The state of the ends of one service at running routers. */
interface ServiceLink {
  /** Why the hub lacks its ends; absent: the hub has them. */
  hubLacks?: string;
  connected: Finding;
  listening: Finding;
  listeners: { up: number; of: number };
}

/** What the leader knows of the ends of services at running routers. */
export interface ServiceLinks {
  /** by the name of the service; undefined: nothing is known yet */
  of(name: string): ServiceLink | undefined;
  /** The listener is called with the name of a service of which something else is known now. */
  subscribe(listener: (name: string) => void): Disposable;
}
