import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DEFAULT_NAMESPACE, TOKEN_AUDIENCE } from '../../src/api/names.ts';
import { CONTROLLER_ACCOUNT } from '../../src/manifests/roles.ts';
import { type Kube, type KubeObject, withToken } from '../kube.ts';
import { ROOT } from '../paths.ts';
import { type Again, type Daemon, startDaemon } from '../process.ts';
import { waitFor } from '../wait.ts';
import { writeAtomically } from './files.ts';

const ADMIN_ACCOUNT = 'skerry-admin';
const HOUR = 3600;

export interface ControllerOptions {
  dir: string;
  kube: Kube;
  /** Path of the cluster admin's kubeconfig. */
  kubeconfig: string;
  ports: { rest: number; metrics: number; internal: number };
  /** settings besides */
  settings?: Readonly<Record<string, string>>;
  again?: Again;
  signal?: AbortSignal;
}

/**
 * Starts the controller as its own service account, so that a missing permission is noticed here before it is in a
 * cluster, and returns when it is ready.
 */
export async function startController({
  dir,
  kube,
  kubeconfig,
  ports,
  settings = {},
  again,
  signal,
}: ControllerOptions): Promise<Daemon> {
  const token = await mintToken(kube, CONTROLLER_ACCOUNT, [], 90 * 24 * HOUR);
  const file = join(dir, 'controller.kubeconfig');
  writeFileSync(file, withToken(readFileSync(kubeconfig, 'utf8'), token), { mode: 0o600 });
  const controller = await startDaemon({
    name: 'controller',
    dir,
    command: process.execPath,
    args: [join(ROOT, 'src/main.ts')],
    env: {
      ...settings,
      ...process.env,
      KUBECONFIG: file,
      CONTROLLER_NAMESPACE: DEFAULT_NAMESPACE,
      SERVER_HOST: '127.0.0.1',
      SERVER_PORT: `${ports.rest}`,
      METRICS_PORT: `${ports.metrics}`,
      INTERNAL_PORT: `${ports.internal}`,
      SKERRY_INTERNAL_ADDRESS: '127.0.0.1',
    },
    deathSignal: 'SIGTERM',
    again,
  });
  const ready = async () => {
    controller.assertRunning();
    const hasTls = settings.SKERRY_TLS_HOSTS !== undefined;
    // With TLS only its certificate says whether a client may trust it.
    const rest = hasTls ? [] : [`http://127.0.0.1:${ports.rest}/api/v3/status`];
    const urls = [`http://127.0.0.1:${ports.metrics}/readyz`, ...rest];
    return (await Promise.all(urls.map((url) => fetch(url)))).every(({ ok }) => ok);
  };
  try {
    await waitFor(ready, { what: 'the controller to be ready', timeoutMs: 60_000, intervalMs: 50, signal });
  } catch (error) {
    await controller.stop();
    throw error;
  }
  return controller;
}

/** The service account of the user of this machine: an admin. */
export function adminAccount(): KubeObject[] {
  const metadata = { name: ADMIN_ACCOUNT, namespace: DEFAULT_NAMESPACE };
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { ...metadata, name: 'skerry-admin-account' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'skerry-admin' },
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
    },
  ];
}

/** Maintains a file with the admin's bearer token for REST, valid for at least another half an hour at any time. */
export async function keepAdminToken(kube: Kube, file: string): Promise<Disposable> {
  const renew = async () => writeAtomically(file, `${await mintToken(kube, ADMIN_ACCOUNT, [TOKEN_AUDIENCE], HOUR)}\n`);
  await renew();
  // A renewal that failed is repeated next time; the token in the file is valid until then.
  const timer = setInterval(() => void renew().catch(() => {}), (HOUR / 4) * 1000);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

async function mintToken(kube: Kube, account: string, audiences: string[], expirationSeconds: number): Promise<string> {
  const path = `/api/v1/namespaces/${DEFAULT_NAMESPACE}/serviceaccounts/${account}/token`;
  const body = {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { audiences, expirationSeconds },
  };
  return (await kube.request<{ status: { token: string } }>('POST', path, body)).status.token;
}
