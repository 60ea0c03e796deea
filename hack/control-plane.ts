import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findTools } from './binaries.ts';
import { createKube, type Kube, kubeFromFile, readObjects } from './kube.ts';
import { tail } from './last-words.ts';
import { ROOT } from './paths.ts';
import { freePort } from './ports.ts';
import { type Again, type Daemon, startDaemon, stopLeftovers } from './process.ts';
import type { Log } from './progress.ts';
import { waitFor } from './wait.ts';

export interface ControlPlaneOptions {
  /** Folder of data, keys and logs. A later start in the same folder continues with the data. */
  dir: string;
  /** Name of cluster, user and context in the kubeconfig. */
  name?: string;
  /** Namespace of the kubeconfig's context; it is created. */
  namespace?: string;
  /** Without it no service accounts are created, no garbage is collected and no namespace ends; it can be started later. */
  controllerManager?: boolean;
  /** Port of the API server; the last one used in `dir`, else a free one. */
  port?: number;
  /** Further flags of kube-apiserver. */
  apiServerFlags?: readonly string[];
  /**
   * For a cluster with nodes: the address that the API server listens on and advertises to pods, and the users of the
   * programs on the nodes, with their groups. All controllers run then.
   */
  nodes?: { address: string; users: Readonly<Record<string, readonly string[]>> };
  log?: Log;
  /** Starts again what ends by itself. */
  again?: Again;
}

/** An etcd, an API server and a controller manager of our own, on loopback unless there are nodes. */
export interface ControlPlane extends AsyncDisposable {
  /** Path of the kubeconfig of a cluster admin. */
  readonly kubeconfig: string;
  readonly kubeconfigText: string;
  readonly url: string;
  /** where etcd answers, without TLS */
  readonly etcdUrl: string;
  /** The certificate authority of the API server's certificate, PEM. */
  readonly caFile: string;
  /** Bearer token of the cluster admin. */
  readonly adminToken: string;
  /** Writes a kubeconfig for one of the users of `nodes`; returns its path. */
  kubeconfigOf(user: string): string;
  readonly logs: { etcd: string; apiServer: string; controllerManager?: string };
  /** Current process ids; a process that does not run is absent. */
  pids(): { etcd?: number; apiServer?: number; controllerManager?: number };
  /** Starts the controller manager unless it runs; returns when it has created the default service account. */
  startControllerManager(): Promise<void>;
  /** Stops the API server gracefully, with two seconds for open requests, and starts it with the same address and data. */
  restartApiServer(): Promise<void>;
  /** Stops the API server gracefully. */
  stopApiServer(): Promise<void>;
  /** Ends the API server as a crash would: no connection is closed gracefully. */
  killApiServer(): Promise<void>;
  /** Starts it again after stop or kill; returns when it is ready. */
  startApiServer(): Promise<void>;
  /** Freezes it: connections stay open and nothing answers. */
  pauseApiServer(): void;
  /** Ends the freeze. */
  resumeApiServer(): void;
  /**
   * Stops the API server and etcd gracefully, calls `change`, which may copy, replace or remove etcd's folder, and starts
   * both again.
   */
  whileDown(change: (etcdDir: string) => void | Promise<void>): Promise<void>;
  stop(): Promise<void>;
}

const CRD_PATH = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const ISSUER = 'https://kubernetes.default.svc.cluster.local';

/**
 * The controllers that the controller manager runs where there are no nodes and no pods: the controllers for those would
 * only delay the start.
 */
const CONTROLLERS = [
  'clusterrole-aggregation-controller',
  'garbage-collector-controller',
  'legacy-serviceaccount-token-cleaner-controller',
  'namespace-controller',
  'resourcequota-controller',
  'root-ca-certificate-publisher-controller',
  'serviceaccount-controller',
  'serviceaccount-token-controller',
  'validatingadmissionpolicy-status-controller',
];

/**
 * Starts a real control plane and returns when it answers and has created the default service account.
 *
 * The API server makes its own serving certificate; the admin and the controller manager authenticate with tokens from a
 * file, so we issue no certificate. Nothing is synced to the disk: a power cut loses data, a killed process does not.
 */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await launch(options);
    } catch (error) {
      // Another process may take the free port before the server listens on it.
      if (attempt === 3 || !(error as Error).message.includes('address already in use')) throw error;
    }
  }
}

async function launch(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { dir, name = 'skerry', namespace = 'skerry', log = () => {}, again } = options;
  const withManager = options.controllerManager ?? true;
  const manages = withManager ? (['kube-controller-manager'] as const) : [];
  const wanted = ['etcd', 'kube-apiserver', ...manages] as const;
  const tools: Partial<Record<string, string>> = await findTools(wanted, { log });

  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const leftovers = await stopLeftovers(dir);
  if (leftovers.length > 0) log(`Stopped what an earlier run left: ${leftovers.join(', ')}`);

  const { address = '127.0.0.1', users = {} } = options.nodes ?? {};
  const files = keyFiles(dir, users);
  const ports = await choosePorts(dir, options.port);
  const url = `https://${address}:${ports.apiServer}`;
  const etcdUrl = `http://127.0.0.1:${ports.etcd}`;
  const peerUrl = `http://127.0.0.1:${ports.etcdPeer}`;

  const startEtcd = () =>
    startDaemon({
      name: 'etcd',
      dir,
      again,
      command: tools.etcd as string,
      args: [
        ...['--name', 'default', '--data-dir', join(dir, 'etcd')],
        ...['--listen-client-urls', etcdUrl, '--advertise-client-urls', etcdUrl],
        ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
        ...['--initial-cluster', `default=${peerUrl}`],
        ...['--unsafe-no-fsync', '--quota-backend-bytes', `${8 * 2 ** 30}`, '--log-level', 'warn'],
      ],
    });

  let etcd = await startEtcd();
  let apiServer: Daemon | undefined;
  let manager: Daemon | undefined;
  let kube: Kube | undefined;

  async function startApiServer(): Promise<void> {
    if (apiServer && !apiServer.exit()) return;
    const running = await startDaemon({
      name: 'kube-apiserver',
      dir,
      again,
      command: tools['kube-apiserver'] as string,
      args: [
        ...['--etcd-servers', etcdUrl, '--secure-port', `${ports.apiServer}`],
        ...['--bind-address', address, '--advertise-address', address],
        // Other machines cannot use the loopback address, so it is not advertised.
        ...(options.nodes
          ? ['--kubelet-preferred-address-types', 'InternalIP']
          : ['--endpoint-reconciler-type', 'none']),
        ...['--cert-dir', files.certs, '--token-auth-file', files.tokens],
        ...['--service-account-key-file', files.serviceAccountKey],
        ...['--service-account-signing-key-file', files.serviceAccountKey, '--service-account-issuer', ISSUER],
        ...['--authorization-mode', options.nodes ? 'Node,RBAC' : 'RBAC'],
        ...['--service-cluster-ip-range', '10.0.0.0/16', '--allow-privileged=true'],
        ...(options.apiServerFlags ?? []),
      ],
    });
    apiServer = running;
    await waitFor(
      async () => {
        etcd.assertRunning();
        running.assertRunning();
        kube ??= existsSync(files.ca)
          ? createKube(url, { ca: readFileSync(files.ca), headers: { authorization: `Bearer ${files.adminToken}` } })
          : undefined;
        return (await kube?.request('GET', '/readyz')) === 'ok';
      },
      { what: 'the API server to be ready', timeoutMs: 60_000, intervalMs: 50 },
    );
  }

  async function endApiServer(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    // A frozen process would not see the SIGTERM.
    apiServer?.signal('SIGCONT');
    return signal === 'SIGTERM' ? apiServer?.stop(2_000) : apiServer?.kill();
  }

  async function stop(): Promise<void> {
    kube?.close();
    await manager?.stop(2_000);
    await endApiServer('SIGKILL');
    await etcd.stop();
  }

  try {
    await startApiServer();
    const client = kube as unknown as Kube;
    const ca = readFileSync(files.ca);
    const kubeconfigText = kubeconfigOf({ name, namespace, url, ca, token: files.adminToken });
    const kubeconfig = join(dir, 'kubeconfig');
    writeFileSync(kubeconfig, kubeconfigText, { mode: 0o600 });

    const startControllerManager = async () => {
      if (manager && !manager.exit()) return;
      const found = await findTools(['kube-controller-manager'], { log });
      const config = join(dir, 'controller-manager.kubeconfig');
      writeFileSync(config, kubeconfigOf({ name, namespace, url, ca, token: files.managerToken }), { mode: 0o600 });
      const running = await startDaemon({
        name: 'kube-controller-manager',
        dir,
        again,
        command: found['kube-controller-manager'],
        args: [
          ...['--kubeconfig', config, '--authentication-kubeconfig', config, '--authorization-kubeconfig', config],
          ...['--authentication-tolerate-lookup-failure', '--bind-address', '127.0.0.1', '--secure-port', '0'],
          ...['--leader-elect=false', '--use-service-account-credentials'],
          ...['--service-account-private-key-file', files.serviceAccountKey, '--root-ca-file', files.ca],
          ...['--kube-api-qps', '300', '--kube-api-burst', '600', '--controllers'],
          options.nodes ? '*' : CONTROLLERS.join(','),
        ],
      });
      manager = running;
      const account = `/api/v1/namespaces/${namespace}/serviceaccounts/default`;
      const check = () => {
        running.assertRunning();
        return client.get(account);
      };
      await waitFor(check, { what: 'the controller manager to make the default service account', intervalMs: 50 });
    };

    await createNamespace(client, namespace);
    if (withManager) await startControllerManager();

    return {
      kubeconfig,
      kubeconfigText,
      url,
      etcdUrl,
      caFile: files.ca,
      adminToken: files.adminToken,
      kubeconfigOf(user) {
        const token = files.userTokens.get(user);
        if (token === undefined) throw new Error(`there is no user ${user}`);
        const path = join(dir, `${user.replaceAll(':', '-')}.kubeconfig`);
        writeFileSync(path, kubeconfigOf({ name, namespace, url, ca, token }), { mode: 0o600 });
        return path;
      },
      logs: {
        etcd: etcd.logFile,
        apiServer: (apiServer as unknown as Daemon).logFile,
        controllerManager: (manager as Daemon | undefined)?.logFile,
      },
      pids: () => ({ etcd: pidOf(etcd), apiServer: pidOf(apiServer), controllerManager: pidOf(manager) }),
      startControllerManager,
      startApiServer,
      stopApiServer: () => endApiServer('SIGTERM'),
      killApiServer: () => endApiServer('SIGKILL'),
      async restartApiServer() {
        await endApiServer('SIGTERM');
        await startApiServer();
      },
      async whileDown(change) {
        await endApiServer('SIGTERM');
        await etcd.stop(5_000);
        await change(join(dir, 'etcd'));
        etcd = await startEtcd();
        await startApiServer();
      },
      pauseApiServer: () => apiServer?.signal('SIGSTOP'),
      resumeApiServer: () => apiServer?.signal('SIGCONT'),
      stop,
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    const log = apiServer ? `\nThe end of ${apiServer.logFile}:\n${tail(apiServer.logFile)}` : '';
    throw new Error(`Start the control plane: ${(error as Error).message}${log}`, { cause: error });
  }
}

/** Creates a namespace unless it exists. */
async function createNamespace(kube: Kube, name: string): Promise<void> {
  await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
}

/**
 * Applies every CustomResourceDefinition in `folder` (crds/) and waits until the API server serves them. Returns their
 * names; none when there is no such folder. Those that it refuses are in the error; the others are installed.
 */
export async function installCrds(kubeconfig: string, folder: string = join(ROOT, 'crds')): Promise<string[]> {
  if (!existsSync(folder)) return [];
  const files = readdirSync(folder).filter((file) => /\.ya?ml$/.test(file));
  if (files.length === 0) return [];
  const kube = await kubeFromFile(kubeconfig);
  const install = async (file: string) => {
    const objects = readObjects(join(folder, file));
    for (const object of objects) {
      const name = object.metadata.name;
      await kube.apply(object);
      await waitFor(async () => isEstablished(await kube.get(`${CRD_PATH}/${name}`)), {
        what: `${name} to be established`,
      });
    }
    return objects.map((object) => object.metadata.name);
  };
  const results = await Promise.allSettled(files.sort().map(install)).finally(() => kube.close());
  const failures = results.flatMap((result, i) =>
    result.status === 'rejected' ? [`${files[i]}: ${(result.reason as Error).message}`] : [],
  );
  if (failures.length > 0) throw new Error(`Install the definitions of ${folder}:\n${failures.join('\n')}`);
  return results.flatMap((result) => (result.status === 'fulfilled' ? result.value : []));
}

function isEstablished(crd: { status?: unknown } | undefined): boolean {
  const { conditions = [] } = (crd?.status ?? {}) as { conditions?: { type: string; status: string }[] };
  return conditions.some(({ type, status }) => type === 'Established' && status === 'True');
}

function pidOf(daemon: Daemon | undefined): number | undefined {
  return daemon && !daemon.exit() ? daemon.pid : undefined;
}

interface KeyFiles {
  certs: string;
  /** The API server writes its certificate and the authority into one file. */
  ca: string;
  serviceAccountKey: string;
  tokens: string;
  adminToken: string;
  managerToken: string;
  userTokens: ReadonlyMap<string, string>;
}

function keyFiles(dir: string, users: Readonly<Record<string, readonly string[]>>): KeyFiles {
  const certs = join(dir, 'certs');
  const serviceAccountKey = join(dir, 'service-account.key');
  const tokens = join(dir, 'tokens.csv');
  if (!existsSync(serviceAccountKey)) {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    writeFileSync(serviceAccountKey, privateKey.export({ type: 'sec1', format: 'pem' }), { mode: 0o600 });
  }
  if (!existsSync(tokens)) {
    const token = () => randomBytes(24).toString('base64url');
    const lines = [
      `${token()},admin,admin,system:masters`,
      `${token()},system:kube-controller-manager,system:kube-controller-manager,`,
      ...Object.entries(users).map(([user, groups]) => `${token()},${user},${user},"${groups.join(',')}"`),
    ];
    writeFileSync(tokens, `${lines.join('\n')}\n`, { mode: 0o600 });
  }
  const lines = readFileSync(tokens, 'utf8').trim().split('\n');
  const userTokens = new Map(lines.map((line) => line.split(',')).map(([token = '', user = '']) => [user, token]));
  const [adminToken, managerToken] = [...userTokens.values()] as [string, string];
  return { certs, ca: join(certs, 'apiserver.crt'), serviceAccountKey, tokens, adminToken, managerToken, userTokens };
}

async function choosePorts(
  dir: string,
  apiServer?: number,
): Promise<{ apiServer: number; etcd: number; etcdPeer: number }> {
  const file = join(dir, 'ports.json');
  const last = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
  const ports = {
    apiServer: apiServer ?? (await freePort(last.apiServer)),
    etcd: await freePort(last.etcd),
    etcdPeer: await freePort(last.etcdPeer),
  };
  writeFileSync(file, JSON.stringify(ports));
  return ports;
}

function kubeconfigOf(parts: { name: string; namespace: string; url: string; ca: Buffer; token: string }): string {
  const { name, namespace, url, ca, token } = parts;
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server: url, 'certificate-authority-data': ca.toString('base64') } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace } }],
    'current-context': name,
  };
  // JSON is YAML, and this file is never edited by hand.
  return `${JSON.stringify(config, undefined, 2)}\n`;
}
