import { join } from 'node:path';
import { DEFAULT_NAMESPACE } from '../api/names.ts';
import { API_SERVER_URL, ETCD_URL, etcdFolder, keyFile, type Layout, LOOPBACK_PORTS } from './layout.ts';

/** One program of the control plane. */
export interface ProgramToRun {
  name: 'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'controller';
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  /** answers 200 when the program is ready; absent: nothing waits for it */
  ready?: string;
  /** time that it has to end, ms; all together end before an engine kills the container, after 10 s */
  endMs: number;
}

const ISSUER = 'https://kubernetes.default.svc.cluster.local';
const MIB = 2 ** 20;
/** Of etcd: more than the budgets of users allow, less than a small disk has. */
export const QUOTA_BYTES = 2 * 1024 * MIB;

/** The controllers that there is work for where no pod runs; the garbage collector ends what has lost its owner. */
const CONTROLLERS = [
  'clusterrole-aggregation-controller',
  'garbage-collector-controller',
  'namespace-controller',
  'serviceaccount-controller',
  'serviceaccount-token-controller',
  'validatingadmissionpolicy-status-controller',
];

/** Go gives memory back earlier, for a little more CPU: a machine with a control plane may have 2 GiB. */
const goMemory = (mebibytes: number) => ({ GOGC: '50', GOMEMLIMIT: `${mebibytes}MiB` });

/** The variable of the container for SKERRY_TLS_HOSTS: an agent gives containers no variable of a user that begins with SKERRY_. */
export const CERTIFICATE_HOSTS = 'CERTIFICATE_HOSTS';

/** The programs, in the order in which they start; they end the other way round. */
export function programs(layout: Layout, settings: Readonly<Record<string, string>>): readonly ProgramToRun[] {
  const program = (name: string) => join(layout.programs, name);
  const key = (name: string) => keyFile(layout, name);
  const peer = `http://127.0.0.1:${LOOPBACK_PORTS.etcdPeer}`;
  const manager = key('controller-manager.kubeconfig');
  return [
    {
      name: 'etcd',
      command: program('etcd'),
      args: [
        ...['--name', 'default', '--data-dir', etcdFolder(layout)],
        ...['--listen-client-urls', ETCD_URL, '--advertise-client-urls', ETCD_URL],
        ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer, '--initial-cluster', `default=${peer}`],
        ...['--quota-backend-bytes', String(QUOTA_BYTES), '--log-level', 'warn'],
      ],
      env: goMemory(128),
      // A full etcd answers as well: the start ends this state.
      ready: `${ETCD_URL}/health?exclude=NOSPACE`,
      endMs: 1_000,
    },
    {
      name: 'kube-apiserver',
      command: program('kube-apiserver'),
      args: [
        ...['--etcd-servers', ETCD_URL, '--bind-address', '127.0.0.1', '--advertise-address', '127.0.0.1'],
        ...['--secure-port', String(LOOPBACK_PORTS.apiServer), '--endpoint-reconciler-type', 'none'],
        ...['--tls-cert-file', key('api-server.crt'), '--tls-private-key-file', key('api-server.key')],
        ...['--client-ca-file', key('authority.crt'), '--anonymous-auth=false', '--authorization-mode', 'RBAC'],
        ...['--service-account-key-file', key('service-accounts.key')],
        ...['--service-account-signing-key-file', key('service-accounts.key'), '--service-account-issuer', ISSUER],
        ...['--service-cluster-ip-range', '10.0.0.0/16', '--profiling=false', '--shutdown-delay-duration', '0s'],
      ],
      env: goMemory(448),
      ready: `${API_SERVER_URL}/readyz`,
      endMs: 2_000,
    },
    {
      name: 'kube-controller-manager',
      command: program('kube-controller-manager'),
      args: [
        ...['--kubeconfig', manager, '--authentication-kubeconfig', manager, '--authorization-kubeconfig', manager],
        ...['--authentication-tolerate-lookup-failure', '--bind-address', '127.0.0.1', '--secure-port', '0'],
        ...['--leader-elect=false', '--use-service-account-credentials', '--profiling=false'],
        ...['--service-account-private-key-file', key('service-accounts.key')],
        ...['--root-ca-file', key('authority.crt'), '--controllers', CONTROLLERS.join(',')],
      ],
      env: goMemory(96),
      endMs: 1_000,
    },
    {
      name: 'controller',
      command: process.execPath,
      args: ['--max-semi-space-size=1', join(layout.bundles, 'skerry.mjs')],
      env: {
        ...settings,
        ...(settings[CERTIFICATE_HOSTS] !== undefined && { SKERRY_TLS_HOSTS: settings[CERTIFICATE_HOSTS] }),
        KUBECONFIG: key('controller.kubeconfig'),
        CONTROLLER_NAMESPACE: DEFAULT_NAMESPACE,
        CONTROL_PLANE: 'remote',
        SKERRY_INTERNAL_ADDRESS: '127.0.0.1',
      },
      ready: `http://127.0.0.1:${settings.METRICS_PORT ?? 51122}/readyz`,
      endMs: 4_000,
    },
  ];
}
