import type { ObjectMeta } from '../../../api/meta.ts';
import type { Service } from '../../../api/v3/service.ts';
import type { ServiceSettings } from '../../../rules/service-settings.ts';
import { annotationsOf } from './annotations.ts';

/** A Service of the cluster, as far as the controller writes and reads it. */
export interface ClusterService {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec: {
    type: string;
    selector: Record<string, string>;
    ports: { name: string; port: number; protocol: string; targetPort: number; nodePort?: number }[];
  };
  status?: { loadBalancer?: { ingress?: readonly { ip?: string; hostname?: string }[] } };
}

type Placement = Pick<ServiceSettings, 'installation' | 'appLabel' | 'componentDomain'>;

/** Labels by which the controller finds the Services that it made. */
export const madeLabels = ({ installation }: Pick<Placement, 'installation'>): Record<string, string> => ({
  'app.kubernetes.io/managed-by': 'controller',
  'app.kubernetes.io/instance': installation,
});

/** The Service of the cluster that leads to the port of a service at the router of the hub. */
export function clusterServiceOf(service: Service, bridgePort: number, placement: Placement): ClusterService {
  const { metadata, spec } = service;
  const component = `${placement.componentDomain}/component`;
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: metadata.name,
      namespace: metadata.namespace as string,
      labels: {
        'app.kubernetes.io/name': placement.appLabel,
        'app.kubernetes.io/component': 'controller',
        ...madeLabels(placement),
        [component]: 'router',
      },
      annotations: annotationsOf(spec.tags ?? []).annotations,
    },
    spec: {
      type: spec.clusterType ?? 'ClusterIP',
      selector: { [component]: 'router' },
      ports: [{ name: 'service', port: spec.servicePort ?? bridgePort, protocol: 'TCP', targetPort: bridgePort }],
    },
  };
}

/** The address of a load balancer: an IP address, else a host name. */
export function ingressOf({ status }: Pick<ClusterService, 'status'>): string | undefined {
  const [ingress] = status?.loadBalancer?.ingress ?? [];
  return ingress?.ip ?? ingress?.hostname;
}

/**
 * Whether a Service of the cluster has all that is wanted. Annotations of others and ports that the cluster chose do not count, nor do
 * annotations that are wanted no more: what asked for them changed, which is seen there.
 */
export function hasWanted(present: ClusterService, wanted: ClusterService): boolean {
  const [port] = present.spec.ports;
  const [needs] = wanted.spec.ports;
  const has = (all: Record<string, string> = {}, some: Record<string, string> = {}) =>
    Object.entries(some).every(([key, value]) => all[key] === value);
  const isSelected =
    has(present.spec.selector, wanted.spec.selector) &&
    Object.keys(present.spec.selector ?? {}).length === Object.keys(wanted.spec.selector).length;
  const isLabelled =
    has(present.metadata.labels, wanted.metadata.labels) &&
    has(present.metadata.annotations, wanted.metadata.annotations);
  const isSamePort =
    present.spec.ports.length === 1 && port?.port === needs?.port && port?.targetPort === needs?.targetPort;
  return present.spec.type === wanted.spec.type && isSamePort && isSelected && isLabelled;
}
