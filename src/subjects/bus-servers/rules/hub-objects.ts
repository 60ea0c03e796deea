import { createHash } from 'node:crypto';
import { BUS_HUB_CERTIFICATES, GROUP } from '../../../api/names.ts';
import type { BusHub } from '../../../api/v3/bus-hub.ts';
import type { HubServersOptions } from '../../../rules/bus-hub.ts';
import { hubServicePorts } from '../../../rules/hub-service.ts';
import { BUS_KEYS } from '../../bus-accounts/rules/secret.ts';
import { HUB_NAMES, hasClientTls, hubSettings, memberHost } from './hub.ts';
import { isSmallerStore, type ServerConfigInput, serverConfig, startedWith } from './server-config.ts';
import { serverName } from './server-names.ts';
import { storeBytes } from './sizes.ts';

/** The condition of a pod that says whether the member has every token. Without it, no Service leads to the member. */
export const TOKENS_CONDITION = `${GROUP}/bus-tokens`;

/** Keys of the Secret of the configuration, besides files of certificates. */
export const HUB_KEYS = { config: 'server.conf', store: 'store-key', tag: 'tag' } as const;

const CONFIG_DIR = '/etc/nats/config';
const CERTIFICATE_FILES = ['ca.crt', 'tls.crt', 'tls.key'] as const;
const DATA_DIR = '/data';
const UID = 10_000;
/** Room for tokens beside the streams of a member. */
const TOKENS_BYTES = 2 ** 30;
/** Memory of a member beside its streams. */
const OWN_MEMORY = { request: 128 * 2 ** 20, limit: 768 * 2 ** 20 };
const POD_NAME = 'POD_NAME';
/** After its start, a member has compared its tokens with the other members by then: they do so every 10 s. */
const COMPARED_SECONDS = 15;

/** An object of the cluster as it is applied. */
interface ClusterObject {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace: string;
    labels: Record<string, string>;
    annotations?: Record<string, string>;
  };
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
  /** when its lost keys were followed by others; absent: none was lost */
  systemRenewed?: string | undefined;
  /** tokens of accounts, without which nobody could push further ones */
  preload: Readonly<Record<string, string>>;
  storeKey: string;
}

/** Texts of a certificate by the names of its files. */
type CertificateTexts = Readonly<Record<string, string>>;

/** What the members of a hub read, and what they have from their start to their end. */
export interface HubConfig {
  /** Texts of the Secret of the configuration. One Secret has all files, so that a member never has some of two versions. */
  files: Readonly<Record<string, string>>;
  /** Another text replaces the members; a running one reads all others (docs/decisions/2026-11-27-what-restarts-a-bus-server.md). */
  start: string;
  store: StoreMark;
}

/** What the members were last given for streams in bytes, and how often they got less, for which a server has to be started again. */
export interface StoreMark {
  memory: number;
  file: number;
  shrinks: number;
}

/** `former`: what the members have now; absent: there are none. */
export function hubConfig(
  hub: BusHub,
  placement: HubPlacement,
  trust: HubTrust,
  certificates: Readonly<Record<keyof typeof BUS_HUB_CERTIFICATES, CertificateTexts>>,
  former?: StoreMark,
): HubConfig {
  const input = configOf(hub, placement, trust);
  const files = Object.fromEntries(
    Object.entries(certificates).flatMap(([name, texts]) =>
      CERTIFICATE_FILES.map((file) => [keyOfFile(name, file), texts[file] ?? '']),
    ),
  );
  const sizes = storeOf(hub);
  const shrinks = (former?.shrinks ?? 0) + (former && isSmallerStore(sizes, former) ? 1 : 0);
  // Tokens reach running members by themselves.
  const own = serverConfig({ ...input, resolver: { dir: input.resolver.dir } });
  const tag = `config:${hashOf([own, ...Object.values(files)])}`;
  return {
    files: {
      ...files,
      [HUB_KEYS.config]: serverConfig({ ...input, tag }),
      [HUB_KEYS.tag]: tag,
      // The account keeps its key by it, whatever becomes of its Secret and its object.
      [BUS_KEYS.systemToken]: trust.preload[trust.systemAccount] ?? '',
    },
    start: serverConfig(startedWith(input)),
    store: { ...sizes, shrinks },
  };
}

const keyOfFile = (certificate: string, file: string) => `${certificate}.${file}`;

const storeOf = (hub: BusHub) => {
  const { jsMemoryStoreSize, jsStorageSize } = hubSettings(hub);
  return { memory: storeBytes(jsMemoryStoreSize) ?? 0, file: storeBytes(jsStorageSize) ?? 0 };
};

/** What all members share. */
function configOf(hub: BusHub, placement: HubPlacement, trust: HubTrust): ServerConfigInput {
  const { namespace, replicas, installation } = placement;
  const settings = hubSettings(hub);
  const tls = (name: string) => ({
    ca: `${CONFIG_DIR}/${keyOfFile(name, 'ca.crt')}`,
    cert: `${CONFIG_DIR}/${keyOfFile(name, 'tls.crt')}`,
    key: `${CONFIG_DIR}/${keyOfFile(name, 'tls.key')}`,
  });
  const routes = Array.from(
    { length: replicas },
    (_, i) => `nats://${memberHost(i, namespace)}:${settings.clusterPort}`,
  );
  return {
    mode: 'hub',
    name: { variable: POD_NAME },
    serverPort: settings.serverPort,
    ...(hasClientTls(hub) && { clientTls: tls('mqtt') }),
    // The kubelet asks from outside of the pod. The NetworkPolicy lets nobody else in.
    monitor: { address: '0.0.0.0', port: settings.httpPort },
    operators: trust.operators,
    systemAccount: trust.systemAccount,
    systemRenewed: trust.systemRenewed,
    resolver: { dir: `${DATA_DIR}/tokens`, preload: trust.preload },
    store: { dir: `${DATA_DIR}/streams`, domain: hubDomain(placement), ...storeOf(hub), key: trust.storeKey },
    ...(replicas > 1 && {
      cluster: { name: serverName(installation), port: settings.clusterPort, routes, tls: tls('site') },
    }),
    leafs: { port: settings.leafPort, tls: tls('site') },
    mqtt: { port: settings.mqttPort, tls: tls('mqtt') },
  };
}

/** Keys of the Secret that members have as files: the key of the streams is in the configuration. */
const CONFIG_FILES: readonly string[] = [
  HUB_KEYS.config,
  ...Object.keys(BUS_HUB_CERTIFICATES).flatMap((name) => CERTIFICATE_FILES.map((file) => keyOfFile(name, file))),
];

/** The annotation of the StatefulSet with the store that its members were last given. */
const STORE_ANNOTATION = `${GROUP}/bus-store`;

/** The store that the members of a StatefulSet were last given; undefined without one. */
export function storeMarkIn(annotations: Readonly<Record<string, string>> | undefined): StoreMark | undefined {
  const [memory, file, shrinks] = (annotations?.[STORE_ANNOTATION] ?? '').split(' ').map(Number);
  return memory !== undefined &&
    file !== undefined &&
    shrinks !== undefined &&
    Number.isSafeInteger(memory + file + shrinks)
    ? { memory, file, shrinks }
    : undefined;
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

/** What runs the hub. Another `start` and a smaller `store` replace the members, one after the other. */
export function hubObjects(
  hub: BusHub,
  placement: HubPlacement,
  { start, store }: Pick<HubConfig, 'start' | 'store'>,
): HubObjects {
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
  const { memory, file } = storeOf(hub);
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
        spec: {
          clusterIP: 'None',
          publishNotReadyAddresses: true,
          selector,
          ports: hubServicePorts('ClusterIP', internal),
        },
      },
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: metadata(HUB_NAMES.service),
        spec: {
          type: serviceType,
          selector,
          ports: [...hubServicePorts(serviceType, ports), ...formerPort(hub, ports)],
        },
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
      metadata: {
        ...metadata(HUB_NAMES.members),
        annotations: { [STORE_ANNOTATION]: `${store.memory} ${store.file} ${store.shrinks}` },
      },
      spec: {
        serviceName: HUB_NAMES.headless,
        replicas,
        // Members that start at once find each other, although none of them takes clients yet.
        podManagementPolicy: 'Parallel',
        selector: { matchLabels: selector },
        persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
        template: {
          metadata: { labels, annotations: { [`${GROUP}/bus-config`]: hashOf([start, String(store.shrinks)]) } },
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
                // As on nodes: an image may have another entry point.
                command: ['nats-server'],
                args: ['--config', `${CONFIG_DIR}/${HUB_KEYS.config}`],
                env: [{ name: POD_NAME, valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
                ports: Object.entries(all).map(([name, containerPort]) => ({ name, containerPort, protocol: 'TCP' })),
                startupProbe: probe('/healthz?js-server-only=true', {
                  periodSeconds: 2,
                  failureThreshold: 90,
                  // A container that starts again in its pod keeps the condition of the pod, also while no replica leads.
                  ...(replicas > 1 && { initialDelaySeconds: COMPARED_SECONDS }),
                }),
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
                volumeMounts: [mount('config', CONFIG_DIR), mount('data', DATA_DIR, false)],
              },
            ],
            volumes: [
              {
                name: 'config',
                secret: { secretName: HUB_NAMES.config, items: CONFIG_FILES.map((key) => ({ key, path: key })) },
              },
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
              resources: { requests: { storage: String(file + TOKENS_BYTES) } },
            },
          },
        ],
      },
    },
  };
}

/** Containers reach the hub at its former port until their node has the present one. */
function formerPort({ status }: BusHub, ports: Readonly<Record<string, number>>) {
  const former = status?.clients?.former?.port;
  return former === undefined || Object.values(ports).includes(former)
    ? []
    : [{ name: 'client-former', port: former, protocol: 'TCP', targetPort: 'client' }];
}

function hashOf(texts: readonly string[]): string {
  const hash = createHash('sha256');
  for (const text of texts) hash.update(text).update('\0');
  return hash.digest('hex');
}
