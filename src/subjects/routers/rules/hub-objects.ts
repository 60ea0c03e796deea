import { hash } from 'node:crypto';
import { GROUP, ROUTER_HUB_CERTIFICATES } from '../../../api/names.ts';
import type { RouterHub } from '../../../api/v3/index.ts';
import type { BridgedService } from '../../../rules/bridges.ts';
import { hubServicePorts } from '../../../rules/hub-service.ts';
import { ROUTER_HUB_OBJECT, type RouterHubOptions } from '../../../rules/router-hub.ts';
import { ROUTER_FILES, ROUTER_PLACES, ROUTER_SETS, type RouterPair } from '../../../wire/router.ts';
import { bridgesOfHub } from './bridges.ts';
import { HUB_PROBE_PORT, routerConfigText, routerPairs, startPairs } from './config.ts';
import { isMadeRouter, routerHubSettings } from './hub.ts';

/** Names of what the default router is in the cluster; services of users have none of them. */
export const ROUTER_HUB_NAMES = {
  workload: 'router',
  service: 'router',
  /** leads to all ports of the pod: the leader dials services there */
  pod: 'router-internal',
  config: 'skerry-router',
} as const;

const UID = 10_000;

/** An object of the cluster as it is applied. */
interface ClusterObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace: string; labels: Record<string, string> };
  spec: object;
}

/** What the configuration says of the default router, and where it is made. */
export interface RouterHubPlacement extends RouterHubOptions {
  namespace: string;
  /** of services, both ends included: whoever reaches one of them reaches what its Service in the cluster leads to */
  bridgePorts: PortRange;
  /** whether the leader dials services at its pod */
  isDialed: boolean;
}

interface PortRange {
  first: number;
  last: number;
}

/** The ports of the range that services may have, and of services that had theirs before the range was another one. */
export function bridgePortsOf(services: readonly BridgedService[], range: PortRange = ANY_PORT): PortRange {
  return services.reduce(
    ({ first, last }, { bridgePort }) => ({ first: Math.min(first, bridgePort), last: Math.max(last, bridgePort) }),
    range,
  );
}

const ANY_PORT: PortRange = { first: 10_024, last: 65_535 };

/** Under which name the controller reaches it in the cluster. */
export const routerHubHost = (namespace: string): string => `${ROUTER_HUB_NAMES.service}.${namespace}.svc`;

/** Under which name the controller reaches all ports of its pod. */
export const routerPodHost = (namespace: string): string => `${ROUTER_HUB_NAMES.pod}.${namespace}.svc`;

/** Where the controller itself reaches a default router; undefined: a router elsewhere that has no host yet. */
export function routerHubTarget(
  deps: { namespace: string; routerHub?: RouterHubOptions | undefined },
  hub: RouterHub,
): { host: string; port: number } | undefined {
  const { messagingPort: port } = routerHubSettings(hub);
  const host = isMadeRouter(deps, hub) ? routerHubHost(deps.namespace) : hub.spec.host;
  return host === undefined ? undefined : { host, port };
}

/** The names and addresses that its certificates have. */
export function routerHubHosts(hub: RouterHub, namespace: string): string[] {
  const { host } = routerHubSettings(hub);
  const { service } = ROUTER_HUB_NAMES;
  const names = [
    service,
    `${service}.${namespace}`,
    routerHubHost(namespace),
    `${routerHubHost(namespace)}.cluster.local`,
  ];
  return [...new Set(['localhost', '127.0.0.1', ...names, ...(host ? [host] : [])])];
}

const siteOf = (namespace: string) => ({ platform: 'kubernetes', namespace });

/** Our part of its configuration. */
export function routerHubPairs(hub: RouterHub, namespace: string, services: Iterable<BridgedService>): RouterPair[] {
  const { messagingPort, edgeRouterPort, interRouterPort } = routerHubSettings(hub);
  return routerPairs({
    ...{ id: ROUTER_HUB_OBJECT, mode: 'interior', place: 'hub', site: siteOf(namespace), upstreams: [] },
    ports: { messaging: messagingPort, edge: edgeRouterPort, interRouter: interRouterPort },
    bridges: bridgesOfHub(services),
  });
}

/** The objects of the default router in the cluster, besides its ConfigMap and certificates, in the order in which they are made. */
export interface RouterHubObjects {
  service: ClusterObject;
  /** without an address of its own, so that each port leads to the pod */
  pod: ClusterObject;
  network: ClusterObject;
  workload: ClusterObject;
}

export function routerHubObjects(hub: RouterHub, placement: RouterHubPlacement): RouterHubObjects {
  const { namespace, installation, serviceType, image, bridgePorts } = placement;
  const settings = routerHubSettings(hub);
  const selector = { 'app.kubernetes.io/component': 'router', 'app.kubernetes.io/instance': installation };
  const labels = {
    'app.kubernetes.io/name': placement.appLabel,
    ...selector,
    [`${placement.componentDomain}/component`]: 'router',
  };
  const metadata = (name: string) => ({ name, namespace, labels });
  const ports = {
    amqps: settings.messagingPort,
    edge: settings.edgeRouterPort,
    'inter-router': settings.interRouterPort,
  };
  const all = { ...ports, probes: HUB_PROBE_PORT };
  const probe = (more: object) => ({
    httpGet: { path: '/healthz', port: 'probes' },
    ...{ timeoutSeconds: 1, periodSeconds: 10, failureThreshold: 3 },
    ...more,
  });
  const mount = (name: string, mountPath: string) => ({ name, mountPath, readOnly: true });
  const started = routerConfigText(
    startPairs({ id: ROUTER_HUB_OBJECT, mode: 'interior', place: 'hub', site: siteOf(namespace) }),
  );
  return {
    service: {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: metadata(ROUTER_HUB_NAMES.service),
      spec: {
        type: serviceType,
        selector,
        ports: hubServicePorts(serviceType, ports),
      },
    },
    pod: {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: metadata(ROUTER_HUB_NAMES.pod),
      spec: { type: 'ClusterIP', clusterIP: 'None', selector },
    },
    network: {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: metadata(ROUTER_HUB_NAMES.workload),
      spec: {
        podSelector: { matchLabels: selector },
        policyTypes: ['Ingress'],
        // Services of users lead to bridge ports. The kubelet alone reaches the port of probes.
        ingress: [
          {
            ports: [
              ...Object.keys(ports).map((port) => ({ port, protocol: 'TCP' })),
              { port: bridgePorts.first, endPort: bridgePorts.last, protocol: 'TCP' },
            ],
          },
        ],
      },
    },
    workload: {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: metadata(ROUTER_HUB_NAMES.workload),
      spec: {
        replicas: 1,
        // Two routers of one id break the network that both are in.
        strategy: { type: 'Recreate' },
        selector: { matchLabels: selector },
        template: {
          metadata: { labels, annotations: { [`${GROUP}/router-config`]: hash('sha256', started) } },
          spec: {
            automountServiceAccountToken: false,
            enableServiceLinks: false,
            securityContext: {
              runAsNonRoot: true,
              runAsUser: UID,
              runAsGroup: UID,
              fsGroup: UID,
              seccompProfile: { type: 'RuntimeDefault' },
            },
            containers: [
              {
                name: 'router',
                image,
                command: ['skrouterd'],
                args: ['-c', `${ROUTER_PLACES.config}/${ROUTER_FILES.config}`],
                env: [
                  { name: 'APPLICATION_NAME', value: ROUTER_HUB_OBJECT },
                  { name: 'QDROUTERD_AUTO_MESH_DISCOVERY', value: 'QUERY' },
                  { name: 'QDROUTERD_CONF', value: `${ROUTER_PLACES.config}/${ROUTER_FILES.config}` },
                  { name: 'QDROUTERD_CONF_TYPE', value: 'json' },
                  { name: 'SSL_PROFILE_PATH', value: ROUTER_PLACES.certificates },
                  { name: 'SKUPPER_SITE_ID', value: ROUTER_HUB_OBJECT },
                  { name: 'SKUPPER_PLATFORM', value: 'kubernetes' },
                  { name: 'POD_NAMESPACE', valueFrom: { fieldRef: { fieldPath: 'metadata.namespace' } } },
                  { name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } },
                ],
                ports: Object.entries(all).map(([name, containerPort]) => ({ name, containerPort, protocol: 'TCP' })),
                readinessProbe: probe({ initialDelaySeconds: 1 }),
                livenessProbe: probe({ initialDelaySeconds: 60 }),
                resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '1Gi' } },
                securityContext: {
                  allowPrivilegeEscalation: false,
                  readOnlyRootFilesystem: true,
                  capabilities: { drop: ['ALL'] },
                },
                volumeMounts: [
                  mount('config', ROUTER_PLACES.config),
                  mount('site', `${ROUTER_PLACES.certificates}/${ROUTER_SETS.site}`),
                  mount('local', `${ROUTER_PLACES.certificates}/${ROUTER_SETS.local}`),
                ],
              },
            ],
            volumes: [
              { name: 'config', configMap: { name: ROUTER_HUB_NAMES.config } },
              { name: 'site', secret: { secretName: ROUTER_HUB_CERTIFICATES.site } },
              { name: 'local', secret: { secretName: ROUTER_HUB_CERTIFICATES.local } },
            ],
          },
        },
      },
    },
  };
}
