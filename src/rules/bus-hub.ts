/** The one object of the hub. */
export const HUB_OBJECT = 'bus-hub';

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
