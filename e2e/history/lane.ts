import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestEngine } from '../../agent/src/engines/_outside.ts';
import { type Kube, kubeFromFile, withToken } from '../../hack/kube.ts';
import { freePort } from '../../hack/ports.ts';
import { type Daemon, startDaemon } from '../../hack/process.ts';
import { waitFor } from '../../hack/wait.ts';
import { type FaultProxy, startFaultProxy } from '../../src/kube/_fault-proxy.ts';
import { controllerRoles, namespaceManifests, peopleRoles } from '../../src/manifests/roles.ts';

/** What all lanes share. */
export interface Foundations {
  /** path of a cluster admin's kubeconfig; the CRDs are installed */
  kubeconfig: string;
  kubectl: string;
  /** path of the controller, bundled */
  controller: string;
  /** a real container engine, and its images; when absent, stories that need them are skipped */
  real?: { engine: TestEngine; images: Readonly<Record<string, string>> };
  /** folder of everything: states of agents, logs */
  dir: string;
}

/**
 * One installation: a namespace, and controllers that reach the API server through a proxy that injects faults. Stories
 * run in it one after another; they share only what belongs to the installation.
 */
export interface Lane extends AsyncDisposable {
  readonly name: string;
  readonly kube: Kube;
  readonly foundations: Foundations;
  /** bearer token of an admin of the REST API */
  readonly token: string;
  readonly replicas: readonly Replica[];
}

/** One controller process; it is killed and started again at the same address. */
export interface Replica {
  readonly name: string;
  readonly port: number;
  readonly proxy: FaultProxy;
  readonly runs: boolean;
  start(): Promise<void>;
  kill(): void;
  /** pauses the process, as a machine that is suspended: it does not notice, and continues later */
  freeze(): void;
  thaw(): void;
}

export async function startLane(foundations: Foundations, name: string, count: number): Promise<Lane> {
  await using started = new AsyncDisposableStack();
  const { kubeconfig, controller } = foundations;
  const dir = join(foundations.dir, name);
  mkdirSync(dir, { recursive: true });
  const kube = await kubeFromFile(kubeconfig);
  started.defer(() => kube.close());
  for (const manifest of [...namespaceManifests(name), ...controllerRoles(name), ...peopleRoles(name), ...admin(name)])
    await kube.apply(manifest as never);
  const tokenFor = async (account: string, audiences: string[]) => {
    const reply = await kube.request<{ status: { token: string } }>(
      'POST',
      `/api/v1/namespaces/${name}/serviceaccounts/${account}/token`,
      {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { audiences, expirationSeconds: 24 * 3600 },
      },
    );
    return reply.status.token;
  };
  const direct = join(dir, 'direct.kubeconfig');
  writeFileSync(direct, withToken(readFileSync(kubeconfig, 'utf8'), await tokenFor('skerry-controller', [])));
  const token = await tokenFor('ann', ['skerry']);
  const replicas: Replica[] = [];
  for (let i = 1; i <= count; i++) {
    const proxy = started.use(await startFaultProxy(direct));
    const replica = await createReplica({ program: controller, name: `controller-${i}`, namespace: name, dir, proxy });
    started.defer(replica.stop);
    replicas.push(replica);
  }
  await Promise.all(replicas.map((replica) => replica.start()));
  const owned = started.move();
  return { name, kube, foundations, token, replicas, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const admin = (namespace: string) => [
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'ann', namespace } },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: 'ann', namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'skerry-admin' },
    subjects: [{ kind: 'ServiceAccount', name: 'ann', namespace }],
  },
];

interface ReplicaOptions {
  program: string;
  name: string;
  namespace: string;
  dir: string;
  proxy: FaultProxy;
}

async function createReplica({ program, name, namespace, dir, proxy }: ReplicaOptions) {
  const [port, metrics, internal] = [await freePort(), await freePort(), await freePort()];
  const kubeconfig = join(dir, `${name}.kubeconfig`);
  writeFileSync(kubeconfig, proxy.config().exportConfig());
  let daemon: Daemon | undefined;
  let starting: Promise<void> | undefined;

  async function launch(): Promise<void> {
    daemon = await startDaemon({
      name,
      command: process.execPath,
      args: [program],
      dir,
      env: {
        ...process.env,
        KUBECONFIG: kubeconfig,
        CONTROLLER_NAMESPACE: namespace,
        POD_NAME: `${name}-${Date.now()}`,
        SERVER_HOST: '127.0.0.1',
        SERVER_PORT: String(port),
        METRICS_PORT: String(metrics),
        INTERNAL_PORT: String(internal),
        SKERRY_INTERNAL_ADDRESS: `127.0.0.1:${internal}`,
        LOG_LEVEL: 'debug',
        NODE_OPTIONS: '',
      },
    });
    const own = daemon;
    const ready = async () => own.exit() !== undefined || (await fetch(`http://127.0.0.1:${port}/api/v3/status`)).ok;
    await waitFor(ready, { what: `${name} of ${namespace} to be ready`, timeoutMs: 120_000, intervalMs: 100 });
  }

  return {
    name,
    port,
    proxy,
    get runs() {
      return daemon !== undefined && daemon.exit() === undefined;
    },
    async start() {
      // It may be killed again while it starts; a daemon that repeatedly ends by itself is broken.
      for (let attempt = 1; daemon === undefined || daemon.exit(); attempt++) {
        if (attempt > 5) daemon?.assertRunning();
        starting ??= launch().finally(() => {
          starting = undefined;
        });
        await starting;
      }
    },
    kill: () => daemon?.signal('SIGKILL'),
    freeze: () => daemon?.signal('SIGSTOP'),
    thaw: () => daemon?.signal('SIGCONT'),
    stop: async () => {
      daemon?.signal('SIGKILL');
      await daemon?.exited;
    },
  };
}
