import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { installPackages } from '../apt.ts';
import { findTools } from '../binaries.ts';
import { startControlPlane } from '../control-plane.ts';
import { goBuild } from '../go.ts';
import { findHelm } from '../helm.ts';
import { buildImage, saveImage } from '../image.ts';
import { type Kube, kubeFromFile } from '../kube.ts';
import { tail } from '../last-words.ts';
import { lock } from '../lock.ts';
import { cacheFolder, shortHash } from '../paths.ts';
import { startDaemon } from '../process.ts';
import type { Log } from '../progress.ts';
import { waitFor } from '../wait.ts';
import { findCalico, prepareCalico } from './calico.ts';
import { startNames } from './names.ts';
import { type ClusterNetwork, createClusterNetwork } from './network.ts';
import { type Node, PODS, startNode } from './node.ts';

export interface ClusterOptions {
  /** Folder of all data and logs; not below /var/lib or /var/log, which nodes have of their own. */
  dir: string;
  /** 1 when absent */
  nodes?: number;
  /** Whether NetworkPolicies are enforced: by Calico, which takes minutes to build once. */
  policies?: boolean;
  /** Whether pods look up names of the cluster. */
  names?: boolean;
  log?: Log;
}

/** A cluster as its admin sees it. */
export interface Access {
  /** path of the kubeconfig */
  readonly kubeconfig: string;
  readonly kube: Kube;
  kubectl(...args: string[]): Promise<string>;
  helm(...args: string[]): Promise<string>;
}

/** A whole Kubernetes with nodes that run pods. */
export interface Cluster extends Access, AsyncDisposable {
  readonly nodes: readonly Node[];
  /** Machines outside are attached to it. */
  readonly network: ClusterNetwork;
  /** Stores an image on every node, from an archive as saveImage makes it. */
  load(archive: Buffer): Promise<void>;
  stop(): Promise<void>;
}

const run = promisify(execFile);
const PAUSE = 'skerry.local/pause:1';
/** The user of the name service. */
const NAMES = 'coredns';
/** What a node runs besides Kubernetes, and the packages of Debian that have it. */
const PARTS: Readonly<Record<string, string>> = {
  '/usr/bin/containerd': 'containerd',
  '/usr/sbin/runc': 'runc',
  '/usr/lib/cni/bridge': 'containernetworking-plugins',
  '/usr/sbin/iptables': 'iptables',
  '/usr/bin/ip': 'iproute2',
};

/** kubectl, helm and a client for a cluster; helm keeps what it needs in `dir`. */
export async function accessTo(kubeconfig: string, dir: string, log?: Log): Promise<Access> {
  const [{ kubectl }, helm] = [await findTools(['kubectl'], { log }), await findHelm(log)];
  const homes = { HELM_CACHE_HOME: dir, HELM_CONFIG_HOME: dir, HELM_DATA_HOME: dir };
  const env = { ...process.env, KUBECONFIG: kubeconfig, ...homes };
  const output = async (command: string, args: readonly string[]) =>
    (await run(command, args, { env, maxBuffer: 64 * 1024 ** 2 })).stdout;
  return {
    kubeconfig,
    kube: await kubeFromFile(kubeconfig),
    kubectl: (...args) => output(kubectl, args),
    helm: (...args) => output(helm, args),
  };
}

/**
 * Starts a control plane, and nodes in namespaces of their own: no registry. It needs root on linux, and ends with this process. Images are loaded (`load`), and pods name them with `imagePullPolicy: IfNotPresent`.
 */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const { dir, nodes: count = 1, policies = false, names: withNames = false, log = () => {} } = options;
  if (process.getuid?.() !== 0) throw new Error('a cluster with nodes needs namespaces: run this as root');
  // A containerd of another origin may be here already, with which Debian's cannot be installed.
  const missing = () => Object.keys(PARTS).filter((path) => !existsSync(path));
  await installPackages({
    packages: missing().map((path) => PARTS[path] ?? ''),
    missing: () => missing().join(', '),
    why: 'A cluster with nodes cannot be started',
    elsewhere: 'https://github.com/containerd/containerd/blob/main/docs/getting-started.md',
    log,
  });
  const programs = await findTools(['kube-scheduler', 'kubelet', 'kube-proxy'], { log });
  const pause = await pauseImage(log);
  const calico = policies ? await findCalico(log) : undefined;

  await using started = new AsyncDisposableStack();
  mkdirSync(dir, { recursive: true });
  const network = started.use(createClusterNetwork());
  const names = Array.from({ length: count }, (_, index) => `node-${index + 1}`);
  const control = started.use(
    await startControlPlane({
      dir: join(dir, 'control-plane'),
      namespace: 'default',
      log,
      nodes: {
        address: network.address(1),
        users: {
          'system:kube-scheduler': [],
          'system:kube-proxy': [],
          ...(calico && { calico: ['system:masters'] }),
          ...(withNames && { [NAMES]: ['system:masters'] }),
          ...Object.fromEntries(names.map((name) => [`system:node:${name}`, ['system:nodes']])),
        },
      },
    }),
  );
  const access = await accessTo(control.kubeconfig, dir, log);
  const { kube } = access;
  started.defer(() => kube.close());

  if (calico) await prepareCalico(calico, kube, access.kubectl, PODS);

  const nameServer = withNames ? network.address(1) : undefined;
  if (nameServer !== undefined) {
    const own = { dir: join(dir, 'control-plane'), address: nameServer, kubeconfig: control.kubeconfigOf(NAMES), log };
    const coredns = await startNames(own);
    started.defer(() => coredns.stop(2_000));
  }

  const scheduler = control.kubeconfigOf('system:kube-scheduler');
  const scheduling = await startDaemon({
    name: 'kube-scheduler',
    dir,
    command: programs['kube-scheduler'],
    args: [
      ...['--kubeconfig', scheduler, '--authentication-kubeconfig', scheduler, '--authorization-kubeconfig', scheduler],
      ...['--leader-elect=false', '--secure-port', '0'],
    ],
  });
  started.defer(() => scheduling.stop(2_000));

  const nodes = await Promise.all(
    names.map(async (name, index) => {
      const kubeconfigs = {
        kubelet: control.kubeconfigOf(`system:node:${name}`),
        proxy: control.kubeconfigOf('system:kube-proxy'),
        calico: calico ? control.kubeconfigOf('calico') : '',
      };
      const own = {
        name,
        index,
        dir: join(dir, name),
        kubeconfigs,
        calico,
        nameServer,
        pause: { archive: pause, reference: PAUSE },
      };
      return started.use(await startNode({ ...own, nodes: count, network, programs }));
    }),
  );
  for (const { name } of nodes) {
    const isReady = async () => {
      const node = await kube.get<{ status: { conditions?: { type: string; status: string }[] } }>(
        `/api/v1/nodes/${name}`,
      );
      return node?.status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
    };
    await waitFor(isReady, { what: `node ${name} to be ready`, timeoutMs: 120_000 }).catch((error: Error) => {
      throw new Error(`${error.message}\nThe end of kubelet's log:\n${tail(join(dir, name, 'logs/kubelet.log'))}`);
    });
  }

  const owned = started.move();
  const stop = () => owned.disposeAsync();
  return {
    ...access,
    ...{ nodes, network },
    load: async (archive) => void (await Promise.all(nodes.map((node) => node.load(archive)))),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** The image that holds the namespaces of pods; its program is built once. */
async function pauseImage(log: Log): Promise<Buffer> {
  const module = join(import.meta.dirname, 'pause');
  const source = readFileSync(join(module, 'main.go'), 'utf8');
  const path = join(cacheFolder(), `pause-${shortHash(source)}`, 'pause');
  if (!existsSync(path)) {
    await using _one = await lock(join(cacheFolder(), 'pause.lock'));
    if (!existsSync(path)) await goBuild({ name: 'pause', module, package: '.', output: path, log });
  }
  const files = [{ path: '/pause', content: readFileSync(path), mode: 0o755 }];
  return saveImage(buildImage({ files, entrypoint: ['/pause'], user: '65535:65535' }), PAUSE);
}
