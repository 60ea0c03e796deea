import { createHash } from 'node:crypto';
import { BUS_HUB_CERTIFICATES, GROUP } from '../../../api/names.ts';
import type { BusHub } from '../../../api/v3/bus-hub.ts';
import type { HubServersOptions } from '../../../rules/bus-hub.ts';
import { HUB_NAMES, hubSettings, memberHost } from './hub.ts';
import { serverConfig } from './server-config.ts';
import { serverName } from './server-names.ts';
import { storeBytes } from './sizes.ts';

/** The condition of a pod that says whether the member has every token. Without it, no Service leads to the member. */
export const TOKENS_CONDITION = `${GROUP}/bus-tokens`;

/** Keys of the Secret of the configuration. */
export const HUB_KEYS = { config: 'server.conf', store: 'store-key' } as const;

const CONFIG_DIR = '/etc/nats/config';
const CERTS_DIR = '/etc/nats/certs';
const DATA_DIR = '/data';
const UID = 10_000;
/** Room for tokens beside the streams of a member. */
const TOKENS_BYTES = 2 ** 30;
/** Memory of a member beside its streams. */
const OWN_MEMORY = { request: 128 * 2 ** 20, limit: 768 * 2 ** 20 };
const POD_NAME = 'POD_NAME';

/** An object of the cluster as it is applied. */
interface ClusterObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace: string; labels: Record<string, string> };
  spec: object;
}

/** What the configuration says of the servers of the hub, and where they are made. */
export interface HubPlacement extends HubServersOptions {
  namespace: string;
}

/** The names and addresses of the hub that its certificates have. */
export function hubHosts(hub: BusHub, { namespace, replicas }: Pick<HubPlacement, 'namespace' | 'replicas'>): string[] {
  const { host } = hubSettings(hub);
  const service = [HUB_NAMES.service, `${HUB_NAMES.service}.${namespace}`, `${HUB_NAMES.service}.${namespace}.svc`];
  const members = Array.from({ length: replicas }, (_, i) => memberHost(i, namespace));
  return [
    ...new Set([
      'localhost',
      '127.0.0.1',
      ...service,
      `${service[2]}.cluster.local`,
      ...members,
      ...(host ? [host] : []),
    ]),
  ];
}

/** What each member trusts. */
export interface HubTrust {
  operators: readonly string[];
  systemAccount: string;
  /** tokens of accounts, without which nobody could push further ones */
  preload: Readonly<Record<string, string>>;
  storeKey: string;
}

/** The text of server.conf, which all members share. */
export function hubConfig(hub: BusHub, placement: HubPlacement, trust: HubTrust): string {
  const { namespace, replicas, installation } = placement;
  const settings = hubSettings(hub);
  const tls = (name: string) => ({
    ca: `${CERTS_DIR}/${name}/ca.crt`,
    cert: `${CERTS_DIR}/${name}/tls.crt`,
    key: `${CERTS_DIR}/${name}/tls.key`,
  });
  const routes = Array.from(
    { length: replicas },
    (_, i) => `nats://${memberHost(i, namespace)}:${settings.clusterPort}`,
  );
  return serverConfig({
    mode: 'hub',
    name: { variable: POD_NAME },
    serverPort: settings.serverPort,
    // The kubelet asks from outside of the pod. The NetworkPolicy lets nobody else in.
    monitor: { address: '0.0.0.0', port: settings.httpPort },
    operators: trust.operators,
    systemAccount: trust.systemAccount,
    resolver: { dir: `${DATA_DIR}/tokens`, preload: trust.preload },
    store: {
      dir: `${DATA_DIR}/streams`,
      domain: hubDomain(placement),
      memory: storeBytes(settings.jsMemoryStoreSize) ?? 0,
      file: storeBytes(settings.jsStorageSize) ?? 0,
      key: trust.storeKey,
    },
    ...(replicas > 1 && {
      cluster: { name: serverName(installation), port: settings.clusterPort, routes, tls: tls('site') },
    }),
    leafs: { port: settings.leafPort, tls: tls('site') },
    mqtt: { port: settings.mqttPort, tls: tls('mqtt') },
  });
}

/** The domain of the streams of the hub; the names of nodes are kept apart from it. */
const hubDomain = ({ namespace }: Pick<HubPlacement, 'namespace'>): string => serverName(namespace);

/** The objects of the hub in the cluster, besides its Secret, in the order in which they are made. */
export interface HubObjects {
  services: readonly ClusterObject[];
  disruptions: ClusterObject;
  network: ClusterObject;
  members: ClusterObject & { spec: Record<string, unknown> };
}

/**
 * What runs the hub. `restart` are texts with which the members run from their start on: others replace them, one after the other.
 */
export function hubObjects(hub: BusHub, placement: HubPlacement, restart: readonly string[]): HubObjects {
  const { namespace, installation, replicas, serviceType, storageClass, image } = placement;
  const settings = hubSettings(hub);
  const selector = { 'app.kubernetes.io/component': 'bus', 'app.kubernetes.io/instance': installation };
  const labels = {
    'app.kubernetes.io/name': placement.appLabel,
    ...selector,
    [`${placement.componentDomain}/component`]: 'bus',
  };
  const metadata = (name: string) => ({ name, namespace, labels });
  const ports = { client: settings.serverPort, leaf: settings.leafPort, mqtt: settings.mqttPort };
  const internal = { ...ports, cluster: settings.clusterPort };
  const all = { ...internal, monitor: settings.httpPort };
  const servicePorts = (of: Record<string, number>) =>
    Object.entries(of).map(([name, port]) => ({ name, port, protocol: 'TCP', targetPort: name }));
  const memory = storeBytes(settings.jsMemoryStoreSize) ?? 0;
  const mount = (name: string, mountPath: string, readOnly = true) => ({
    name,
    mountPath,
    ...(readOnly && { readOnly }),
  });
  const probe = (path: string, more: object) => ({
    httpGet: { path, port: 'monitor' },
    timeoutSeconds: 5,
    periodSeconds: 10,
    ...more,
  });
  return {
    services: [
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: metadata(HUB_NAMES.headless),
        // The leader and the other members reach a member before it takes clients.
        spec: { clusterIP: 'None', publishNotReadyAddresses: true, selector, ports: servicePorts(internal) },
      },
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: metadata(HUB_NAMES.service),
        spec: { type: serviceType, selector, ports: servicePorts(ports) },
      },
    ],
    disruptions: {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: metadata(HUB_NAMES.members),
      spec: { maxUnavailable: 1, selector: { matchLabels: selector } },
    },
    network: {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: metadata(HUB_NAMES.members),
      spec: {
        podSelector: { matchLabels: selector },
        policyTypes: ['Ingress'],
        ingress: [
          { ports: Object.keys(ports).map((port) => ({ port, protocol: 'TCP' })) },
          {
            from: [{ podSelector: { matchLabels: selector } }],
            ports: [{ port: 'cluster', protocol: 'TCP' }],
          },
        ],
      },
    },
    members: {
      apiVersion: 'apps/v1',
      kind: 'StatefulSet',
      metadata: metadata(HUB_NAMES.members),
      spec: {
        serviceName: HUB_NAMES.headless,
        replicas,
        // Members that start at once find each other, although none of them takes clients yet.
        podManagementPolicy: 'Parallel',
        selector: { matchLabels: selector },
        persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
        template: {
          metadata: { labels, annotations: { [`${GROUP}/bus-config`]: hashOf(restart) } },
          spec: {
            automountServiceAccountToken: false,
            enableServiceLinks: false,
            terminationGracePeriodSeconds: 60,
            readinessGates: [{ conditionType: TOKENS_CONDITION }],
            securityContext: {
              runAsNonRoot: true,
              runAsUser: UID,
              runAsGroup: UID,
              fsGroup: UID,
              seccompProfile: { type: 'RuntimeDefault' },
            },
            affinity: {
              podAntiAffinity: {
                preferredDuringSchedulingIgnoredDuringExecution: [
                  {
                    weight: 100,
                    podAffinityTerm: {
                      topologyKey: 'kubernetes.io/hostname',
                      labelSelector: { matchLabels: selector },
                    },
                  },
                ],
              },
            },
            containers: [
              {
                name: 'bus',
                image,
                args: ['--config', `${CONFIG_DIR}/${HUB_KEYS.config}`],
                env: [{ name: POD_NAME, valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
                ports: Object.entries(all).map(([name, containerPort]) => ({ name, containerPort, protocol: 'TCP' })),
                startupProbe: probe('/healthz?js-server-only=true', { periodSeconds: 2, failureThreshold: 90 }),
                readinessProbe: probe('/healthz?js-server-only=true', { failureThreshold: 3 }),
                livenessProbe: probe('/healthz?js-server-only=true', { periodSeconds: 30, failureThreshold: 3 }),
                resources: {
                  requests: { cpu: '100m', memory: String(OWN_MEMORY.request) },
                  limits: { memory: String(OWN_MEMORY.limit + memory) },
                },
                securityContext: {
                  allowPrivilegeEscalation: false,
                  readOnlyRootFilesystem: true,
                  capabilities: { drop: ['ALL'] },
                },
                volumeMounts: [
                  mount('config', CONFIG_DIR),
                  mount('site', `${CERTS_DIR}/site`),
                  mount('mqtt', `${CERTS_DIR}/mqtt`),
                  mount('data', DATA_DIR, false),
                ],
              },
            ],
            volumes: [
              {
                name: 'config',
                secret: { secretName: HUB_NAMES.config, items: [{ key: HUB_KEYS.config, path: HUB_KEYS.config }] },
              },
              { name: 'site', secret: { secretName: BUS_HUB_CERTIFICATES.site } },
              { name: 'mqtt', secret: { secretName: BUS_HUB_CERTIFICATES.mqtt } },
            ],
          },
        },
        volumeClaimTemplates: [
          {
            apiVersion: 'v1',
            kind: 'PersistentVolumeClaim',
            metadata: { name: 'data', labels },
            spec: {
              accessModes: ['ReadWriteOnce'],
              ...(storageClass && { storageClassName: storageClass }),
              resources: { requests: { storage: String((storeBytes(settings.jsStorageSize) ?? 0) + TOKENS_BYTES) } },
            },
          },
        ],
      },
    },
  };
}

function hashOf(texts: readonly string[]): string {
  const hash = createHash('sha256');
  for (const text of texts) hash.update(text).update('\0');
  return hash.digest('hex');
}
