import { readFileSync } from 'node:fs';
import { mkdtemp, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { installCrds, startControlPlane } from '../hack/control-plane.ts';
import { removeEngineData } from '../hack/engine.ts';
import { type Kube, type KubeObject, kubeFromFile, readObjects } from '../hack/kube.ts';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import type { Daemon } from '../hack/process.ts';
import type { Log } from '../hack/progress.ts';
import { adminAccount, keepAdminToken, startController } from '../hack/stack/controller.ts';
import { waitFor } from '../hack/wait.ts';
import { API_VERSION, DEFAULT_NAMESPACE } from '../src/api/names.ts';
import { routerHubRoles, serviceRoles } from '../src/manifests/roles.ts';
import { type Edge, startEdge } from './edge.ts';
import { createFleet, type Fleet } from './fleet.ts';
import { createHttp, createRest, type Http, type Rest } from './http.ts';
import type { Inspected } from './inspector.ts';
import { samplesOf, sumOf } from './prometheus.ts';

/** Everything that is measured: a control plane, a controller, and real and test agents. */
export interface Stack extends AsyncDisposable {
  readonly kube: Kube;
  /** path of the kubeconfig of a cluster admin */
  readonly kubeconfig: string;
  readonly rest: Rest;
  /** the client with which the test agents send requests */
  readonly http: Http;
  /** URL of the controller, for REST and agent routes */
  readonly url: string;
  readonly fleet: Fleet;
  /** A container engine, a registry and the real agent; started by the first call. */
  edge(): Promise<Edge>;
  /** The processes whose CPU time and memory are measured. */
  pids(): { controller: number; 'API server': number; etcd: number };
  /** Grows the fleet to `count` nodes and applications that are Ready, and waits until nothing is written any more. */
  settled(count: number): Promise<void>;
  /** Begins to count writes to the API server by all clients, except leases, reviews and tokens. */
  watchWrites(): Promise<() => Promise<Requests>>;
  /** The same of reads: objects and lists, without watches. */
  watchReads(): Promise<() => Promise<Requests>>;
  /** Kills the controller, runs `meanwhile`, starts the controller again and waits until it is ready. */
  restartController(meanwhile?: () => Promise<void>): Promise<{ beganAt: number; readyMs: number }>;
  /** Waits until the controller leads, has nothing to do, and nothing is written any more. */
  quiet(timeoutMs?: number): Promise<void>;
  /** A gauge or counter of the controller, summed over the label sets that match. */
  metric(name: string, passes?: (labels: Readonly<Record<string, string>>) => boolean): Promise<number>;
  /** Bearer token of the admin, for REST. */
  token(): string;
  /** The controller's process, for an inspector. */
  controller(): Inspected;
  /** Whether etcd's data is on a disk. */
  readonly onDisk: boolean;
}

/** The number of successful requests, in total and by verb and resource: `PUT edgenodes/status`. */
export interface Requests {
  total: number;
  kinds: ReadonlyMap<string, number>;
}

/** Whether the statuses of `count` nodes and of `count` applications are among the writes. */
export const haveStatuses = ({ kinds }: Requests, count: number) =>
  ['edgenodes', 'applications'].every((plural) =>
    ['PUT', 'PATCH'].some((verb) => (kinds.get(`${verb} ${plural}/status`) ?? 0) >= count),
  );

/** API path of our kinds. */
export const pathOf = (plural: string, name = '') =>
  `/apis/${API_VERSION}/namespaces/${DEFAULT_NAMESPACE}/${plural}${name && `/${name}`}`;

/** More than one connection, and not so many that the measuring process becomes the bottleneck. */
const CONNECTIONS = 64;

/** The statfs(2) type of a file system in memory. */
const TMPFS = 0x01021994;

const WRITES: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'APPLY', 'DELETE']);

const READS: ReadonlySet<string> = new Set(['GET', 'LIST']);

/** Requests that store no object, or that are periodic. */
const UNCOUNTED: ReadonlySet<string> = new Set([
  'leases',
  'subjectaccessreviews',
  'selfsubjectaccessreviews',
  'tokenreviews',
  'serviceaccounts',
]);

/** `settings`: of the controller, besides its defaults. */
export async function createStack(log: Log, settings: Readonly<Record<string, string>> = {}): Promise<Stack> {
  await using started = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'skerry-bench-'));
  if (process.env.SKERRY_KEEP) log(`Data and logs are kept in ${dir}`);
  else started.defer(() => removeData(dir));

  log('Starting etcd, kube-apiserver and kube-controller-manager');
  const cluster = started.use(
    await startControlPlane({ dir: join(dir, 'control-plane'), namespace: DEFAULT_NAMESPACE, log }),
  );
  const kube = await kubeFromFile(cluster.kubeconfig);
  started.defer(() => kube.close());
  await installCrds(cluster.kubeconfig);
  // As the chart does with these settings.
  const roles = [
    ...(settings.ROUTERS_ENABLED ? serviceRoles(DEFAULT_NAMESPACE) : []),
    ...(settings.ROUTER_HUB ? routerHubRoles(DEFAULT_NAMESPACE) : []),
  ] as unknown as KubeObject[];
  const objects = [...readObjects(join(ROOT, 'manifests/install.yaml')), ...adminAccount(), ...roles];
  for (const object of objects) await kube.apply(object);

  const ports = { rest: await freePort(), metrics: await freePort(), internal: await freePort() };
  const url = `http://127.0.0.1:${ports.rest}`;
  const launch = () => startController({ dir, kube, kubeconfig: cluster.kubeconfig, ports, settings });
  log('Starting the controller');
  let controller: Daemon = await launch();
  started.defer(() => controller.stop(5_000));
  const tokenFile = join(dir, 'token');
  started.use(await keepAdminToken(kube, tokenFile));

  const http = started.use(createHttp(url, CONNECTIONS));
  const pollHttp = started.use(createHttp(url, null));
  const token = remembered(() => readFileSync(tokenFile, 'utf8').trim(), 60_000);
  const rest = createRest(http, token);
  await waitFor(() => rest.call('GET', '/application').then(() => true), { what: 'REST to answer' });
  const fleet = started.use(createFleet({ rest, http, pollHttp }));

  /** started by the first call */
  const late = started.use(new AsyncDisposableStack());
  let edge: Promise<Edge> | undefined;
  const pids = () => {
    const { apiServer, etcd } = cluster.pids();
    return { controller: controller.pid, 'API server': apiServer as number, etcd: etcd as number };
  };

  async function countedSoFar(verbs: ReadonlySet<string>): Promise<Map<string, number>> {
    const page = await kube.request<string>('GET', '/metrics');
    const kinds = new Map<string, number>();
    for (const { labels, value } of samplesOf(page, 'apiserver_request_total')) {
      const { verb = '', resource = '', subresource, code = '' } = labels;
      if (!verbs.has(verb) || resource === '' || UNCOUNTED.has(resource) || !code.startsWith('2')) continue;
      const kind = `${verb} ${resource}${subresource ? `/${subresource}` : ''}`;
      kinds.set(kind, (kinds.get(kind) ?? 0) + value);
    }
    return kinds;
  }

  async function watchRequests(verbs: ReadonlySet<string>): Promise<() => Promise<Requests>> {
    const before = await countedSoFar(verbs);
    return async () => {
      const kinds = new Map<string, number>();
      for (const [kind, count] of await countedSoFar(verbs)) {
        const more = count - (before.get(kind) ?? 0);
        if (more > 0) kinds.set(kind, more);
      }
      return { total: [...kinds.values()].reduce((sum, count) => sum + count, 0), kinds };
    };
  }

  const watchWrites = () => watchRequests(WRITES);

  async function metric(...[name, passes]: Parameters<Stack['metric']>): Promise<number> {
    return sumOf(await (await fetch(`http://127.0.0.1:${ports.metrics}/metrics`)).text(), name, passes);
  }

  async function quiet(timeoutMs = 60_000): Promise<void> {
    // A page of metrics costs the controller a few ms: asked for without a pause, it would be most of the figures.
    const nothing = async () => {
      if ((await metric('skerry_leader')) < 1 || (await metric('workqueue_depth')) > 0) return false;
      const written = await watchWrites();
      await sleep(1_500);
      return (await written()).total <= 1;
    };
    await waitFor(nothing, { what: 'the controller to have nothing left to write', timeoutMs, intervalMs: 50 });
  }

  async function settled(count: number): Promise<void> {
    if (fleet.agents.length < count) {
      log(`Provisioning nodes, until there are ${count}`);
      await fleet.grow(count);
    }
    if (fleet.applications.length < count) {
      log(`Creating applications, until there are ${count}`);
      await fleet.deploy(count);
    }
    const allReady = async () => {
      const { all, ready } = await countReady(kube);
      return ready === all;
    };
    await waitFor(allReady, {
      what: 'all applications to be ready',
      timeoutMs: 120_000,
      intervalMs: 500,
    });
    await quiet();
  }

  const stack: Stack = {
    kube,
    kubeconfig: cluster.kubeconfig,
    rest,
    http,
    url,
    fleet,
    edge: () => {
      edge ??= startEdge({ dir, kube, rest: { url, tokenFile }, log }).then((it) => late.use(it));
      return edge;
    },
    pids,
    settled,
    watchWrites,
    watchReads: () => watchRequests(READS),
    quiet,
    async restartController(meanwhile) {
      controller.signal('SIGKILL');
      await controller.exited;
      await meanwhile?.();
      const beganAt = performance.now();
      controller = await launch();
      return { beganAt, readyMs: performance.now() - beganAt };
    },
    metric,
    token,
    onDisk: (await statfs(dir)).type !== TMPFS,
    controller: () => ({ pid: controller.pid, log: controller.logFile }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
  const owned = started.move();
  return stack;
}

/** `1.0 POST applications, 2.3 PUT applications/status`, each divided by `by`. */
export function describeRequests({ kinds }: Requests, by: number): string {
  const parts = [...kinds]
    .filter(([, count]) => count / by >= 0.05)
    .sort(([, a], [, b]) => b - a)
    .map(([kind, count]) => `${(count / by).toFixed(1)} ${kind}`);
  return parts.join(', ') || 'none';
}

/** The engine's data has mounts in it after the engine was killed. */
function removeData(dir: string): void {
  removeEngineData(join(dir, 'engine'));
  removeEngineData(dir);
}

/** The number of applications, and of those whose present generation is Ready. */
export async function countReady(kube: Kube): Promise<{ all: number; ready: number }> {
  interface Application {
    metadata: { generation?: number };
    status?: { conditions?: { type: string; status: string; observedGeneration?: number }[] };
  }
  const { items } = await kube.request<{ items: Application[] }>('GET', pathOf('applications'));
  const ready = items.filter(({ metadata, status }) => {
    const condition = status?.conditions?.find(({ type }) => type === 'Ready');
    return condition?.status === 'True' && condition.observedGeneration === metadata.generation;
  });
  return { all: items.length, ready: ready.length };
}

/** ms until the last byte of a list over REST has been received. */
export async function timeList({ http, token }: Pick<Stack, 'http' | 'token'>, path: string): Promise<number> {
  const headers = { authorization: `Bearer ${token()}` };
  const began = performance.now();
  const { status, text } = await http.send({ method: 'GET', path: `/api/v3${path}`, headers, discard: true });
  if (status !== 200) throw new Error(`GET ${path}: ${status} ${text}`);
  return performance.now() - began;
}

/** Caches the result of a function for this time. */
function remembered<T>(ask: () => T, ms: number): () => T {
  let answer: { value: T; at: number } | undefined;
  return () => {
    if (!answer || performance.now() - answer.at > ms) answer = { value: ask(), at: performance.now() };
    return answer.value;
  };
}
