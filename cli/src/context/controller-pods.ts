import { CONTROLLER_CERTIFICATE } from '../../../src/api/names.ts';
import type { KubeObject, Resource } from '../../../src/kube/object.ts';

/** Which pods of a cluster the controller is, as the chart makes them, and how they are spoken to. */

/** Name of the Service and of its port in the chart. */
export const SERVICE = 'skerry';
const PORT = 'rest';

export interface CoreService extends KubeObject {
  spec: {
    selector?: Record<string, string>;
    ports?: { name?: string; port: number; targetPort?: number | string }[];
  };
}

export interface Pod extends KubeObject {
  spec: {
    containers: {
      ports?: { name?: string; containerPort: number }[];
      env?: { name: string; value?: string }[];
      volumeMounts?: { name: string; mountPath: string }[];
    }[];
    volumes?: { name: string; secret?: { secretName?: string } }[];
  };
  status?: { conditions?: { type: string; status: string }[] };
}

export const SERVICES: Resource<CoreService> = {
  ...{ group: '', version: 'v1', plural: 'services', kind: 'Service', namespaced: true },
};
export const PODS: Resource<Pod> = { group: '', version: 'v1', plural: 'pods', kind: 'Pod', namespaced: true };

/** A replica that takes sessions. */
export interface ReplicaPod {
  pod: string;
  port: number;
  /** absent: it serves HTTP */
  tls?: ReplicaTls;
}

export interface ReplicaTls {
  /** host of the URL under which agents reach the controller, where it has one */
  publicHost?: string;
  /** the Secret with the certificate; `authority` is the key of the certificate of its authority, where the chart names one */
  secret?: { name: string; authority?: string };
}

/** The labels of the pods of a Service, as a selector. */
export const selectorOf = ({ spec: { selector = {} } }: CoreService): string =>
  Object.entries(selector)
    .map(([label, value]) => `${label}=${value}`)
    .join(',');

/** The pods of the Service that are ready, with the port and the TLS that their specs say. */
export function replicasOf({ spec: { ports = [] } }: CoreService, pods: readonly Pod[]): ReplicaPod[] {
  const served = ports.find(({ name }) => name === PORT) ?? ports[0];
  if (!served) return [];
  const target = served.targetPort ?? served.port;
  return pods.filter(isReady).flatMap((pod) => {
    const named = pod.spec.containers.flatMap((one) => one.ports ?? []).find(({ name }) => name === target);
    const port = typeof target === 'number' ? target : named?.containerPort;
    const tls = tlsOf(pod);
    return port === undefined ? [] : [{ pod: pod.metadata.name, port, ...(tls && { tls }) }];
  });
}

const isReady = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined &&
  status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;

/** What the settings of the controller in a pod say of its TLS. */
function tlsOf({ spec: { containers, volumes = [] } }: Pod): ReplicaTls | undefined {
  for (const { env = [], volumeMounts = [] } of containers) {
    const setting = (name: string) => env.find((one) => one.name === name)?.value ?? '';
    const url = setting('CONTROLLER_PUBLIC_URL');
    const publicHost = URL.canParse(url) ? { publicHost: new URL(url).hostname.replace(/^\[|\]$/g, '') } : {};
    if (setting('SKERRY_TLS_HOSTS') !== '')
      return { ...publicHost, secret: { name: CONTROLLER_CERTIFICATE, authority: 'ca.crt' } };
    const file = setting('TLS_PATH_CERT');
    if (file === '') continue;
    const mount = volumeMounts.find(({ mountPath }) => file.startsWith(`${mountPath}/`));
    const name = volumes.find((one) => one.name === mount?.name)?.secret?.secretName;
    const authority = setting('TLS_PATH_CA').slice((mount?.mountPath.length ?? 0) + 1);
    return {
      ...publicHost,
      ...(name !== undefined && { secret: { name, ...(authority !== '' && { authority }) } }),
    };
  }
  return undefined;
}
