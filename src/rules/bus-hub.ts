import type { BusHub } from '../api/v3/bus-hub.ts';

/** The one object of the hub. */
export const HUB_OBJECT = 'bus-hub';

/** How nodes name the hub among their upstreams. */
export const HUB_UPSTREAM = 'default-bus-hub';

export const HUB_PORTS = ['serverPort', 'clusterPort', 'leafPort', 'mqttPort', 'httpPort'] as const;
export const HUB_SIZES = ['jsStorageSize', 'jsMemoryStoreSize'] as const;

/** What the hub is reached by, and what its servers have. */
export interface HubSettings
  extends Record<(typeof HUB_PORTS)[number], number>,
    Record<(typeof HUB_SIZES)[number], string> {
  /** absent while its Service has no address */
  host?: string;
}

/** What nodes and applications read of a hub; its status says more of its servers. */
const READ = ['host', 'clientTls', ...HUB_PORTS, ...HUB_SIZES] as const;
type Hub = Pick<BusHub, 'spec' | 'status'>;
const readOf = ({ spec, status }: Hub): string =>
  JSON.stringify([
    READ.map((field) => [spec[field], (status as Partial<BusHub['spec']> | undefined)?.[field]]),
    status?.clients,
  ]);

/** Whether nodes and applications reach a hub as before. */
export const isReachedAlike = (a: Hub, b: Hub): boolean => readOf(a) === readOf(b);

/** What the configuration says of the servers of the hub in the cluster. */
export interface HubServersOptions {
  /** the installation, and labels of what the controller makes in the cluster */
  installation: string;
  appLabel: string;
  componentDomain: string;
  image: string;
  replicas: number;
  serviceType: 'ClusterIP' | 'NodePort' | 'LoadBalancer';
  storageClass?: string;
}
