import { join } from 'node:path';

/** Where the control plane of a node has its programs and its data. */
export interface Layout {
  /** everything that has to survive the container */
  data: string;
  /** folder of etcd, kube-apiserver, kube-controller-manager and etcdutl */
  programs: string;
  /** folder of the bundles */
  bundles: string;
}

/** Places in the image; a variable names another one. */
export const layoutOf = (env: NodeJS.ProcessEnv): Layout => ({
  data: env.SKERRY_CONTROL_PLANE_DATA ?? '/var/lib/skerry',
  programs: env.SKERRY_CONTROL_PLANE_PROGRAMS ?? '/opt/skerry/bin',
  bundles: env.SKERRY_CONTROL_PLANE_BUNDLES ?? '/opt/skerry',
});

/** Ports on the loopback of the container: nothing outside of it reaches them. */
export const LOOPBACK_PORTS = { etcd: 2379, etcdPeer: 2380, apiServer: 6443 } as const;

export const ETCD_URL = `http://127.0.0.1:${LOOPBACK_PORTS.etcd}`;
export const API_SERVER_URL = `https://127.0.0.1:${LOOPBACK_PORTS.apiServer}`;

export const etcdFolder = ({ data }: Layout): string => join(data, 'etcd');
export const keyFile = ({ data }: Layout, name: string): string => join(data, 'keys', name);
/** The authority of the certificate that the controller made for itself: what machines that join are to trust. */
export const authorityFile = ({ data }: Layout): string => join(data, 'ca.crt');
/** A snapshot of etcd while a restore reads it. */
export const restoreFile = ({ data }: Layout): string => join(data, 'restore.snapshot');
