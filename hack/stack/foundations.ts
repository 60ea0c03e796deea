import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DEFAULT_NAMESPACE } from '../../src/api/names.ts';
import { areAtHand, cachedPath, findTools, type Tool } from '../binaries.ts';
import { type ControlPlane, startControlPlane } from '../control-plane.ts';
import { type Engine, findEngine } from '../engine.ts';
import { loadImage } from '../engine-api.ts';
import { type Image, pushImage, saveImage } from '../image.ts';
import { kubeFromFile } from '../kube.ts';
import type { Again } from '../process.ts';
import type { Log } from '../progress.ts';
import { startRegistry } from '../registry.ts';
import { sampleImage } from '../sample.ts';
import { authenticationFlags } from './tls.ts';

/** What Skerry runs on. */
export interface Foundations {
  /** Path of a kubectl. */
  kubectl: string;
  /** Path of the kubeconfig of a cluster admin. */
  kubeconfig: string;
  /** Path of the program of the API server; absent with SKERRY_KUBECONFIG. */
  apiServer?: string;
  engine: Engine;
  /** URL of the registry. */
  registry: string;
  /** Reference of the sample's image in the registry; absent without the sample. */
  image?: string;
  /** Gives the engine a further image; resolves with its reference. */
  provide(repository: string, image: Image): Promise<string>;
  /** Starts what the sample runs without, until the result is disposed of; nothing when everything runs. */
  later(): AsyncDisposable | undefined;
}

export interface FoundationsOptions {
  dir: string;
  /** whether the API server accepts logins of people */
  trustsLogins: boolean;
  registryPort: number;
  sample: boolean;
  log: Log;
  again: Again;
  signal?: AbortSignal;
}

/** Tools that the sample runs without; a machine that has to build them does so while the sample runs already. */
const LATER: readonly Tool[] = process.env.SKERRY_KUBECONFIG
  ? ['kubectl', 'registry']
  : ['kube-controller-manager', 'kubectl', 'registry'];

/**
 * Starts control plane, container engine and registry, and pushes the sample's image. What was started is added to the
 * stack of things to stop, whether the rest succeeds or not. With SKERRY_KUBECONFIG that cluster is used.
 */
export async function startFoundations(
  started: AsyncDisposableStack,
  options: FoundationsOptions,
): Promise<Foundations> {
  const { dir, registryPort, sample, log, again, signal } = options;
  const host = `127.0.0.1:${registryPort}`;
  const atHand = await areAtHand(LATER);
  const work = {
    engine: findEngine({ dir: join(dir, 'engine'), outbound: true, registry: host, log, again }).then((engine) =>
      started.use(engine),
    ),
    cluster: startCluster(started, options),
    image: sample ? sampleImage({}, undefined, log, signal) : Promise.resolve(undefined),
  };
  // All are awaited even when one fails, so that none starts after the others were stopped.
  const failures = (await Promise.allSettled(Object.values(work))).flatMap((result) =>
    result.status === 'rejected' ? [(result.reason as Error).message] : [],
  );
  signal?.throwIfAborted();
  if (failures.length > 0) throw new Error([...new Set(failures)].join('\n'));
  const [engine, { kubeconfig, cluster, apiServer }, image] = await Promise.all([
    work.engine,
    work.cluster,
    work.image,
  ]);

  const tag = image && tagOf(image);
  const complete = async (owned: AsyncDisposableStack, until?: AbortSignal) => {
    await findTools(LATER, { log, signal: until });
    const serve = async () => {
      const registry = owned.use(await startRegistry({ dir: join(dir, 'registry'), port: registryPort, log, again }));
      if (image && tag) await pushImage(registry.url, 'sample', tag, image);
    };
    await Promise.all([serve(), cluster?.startControllerManager()]);
  };
  if (atHand) await complete(started, signal);
  else {
    log(`What is missing of ${LATER.join(', ')} comes once the sample runs`);
    if (image) await loadImage(engine.url, saveImage(image, `${host}/sample:${tag}`));
  }
  return {
    kubectl: (await areAtHand(['kubectl'])) ? (await findTools(['kubectl'])).kubectl : cachedPath('kubectl'),
    kubeconfig,
    ...(apiServer !== undefined && { apiServer }),
    engine,
    registry: `http://${host}`,
    ...(image && { image: `${host}/sample:${tag}` }),
    async provide(repository, further) {
      const reference = `${host}/${repository}:${tagOf(further)}`;
      if (atHand) await pushImage(`http://${host}`, repository, tagOf(further), further);
      else await loadImage(engine.url, saveImage(further, reference));
      return reference;
    },
    later: () => (atHand ? undefined : beside(complete, log)),
  };
}

/** A hash of the content, so that the agent pulls the image of another build. */
const tagOf = ({ top }: Image): string => top.digest.slice('sha256:'.length).slice(0, 12);

/** Runs in the background and ends with the stack, as does what it has started. */
function beside(act: (owned: AsyncDisposableStack, until: AbortSignal) => Promise<void>, log: Log): AsyncDisposable {
  const stop = new AbortController();
  const owned = new AsyncDisposableStack();
  const done = act(owned, stop.signal).then(
    () => log(`${LATER.join(', ')} are there as well`),
    (error: Error) => stop.signal.aborted || log(`Without ${LATER.join(', ')}: ${error.message}`),
  );
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
      await owned.disposeAsync();
    },
  };
}

async function startCluster(
  started: AsyncDisposableStack,
  { dir, trustsLogins, log, again, signal }: FoundationsOptions,
): Promise<{ kubeconfig: string; cluster?: ControlPlane; apiServer?: string }> {
  const kubeconfig = join(dir, 'kubeconfig');
  const given = process.env.SKERRY_KUBECONFIG;
  if (given) {
    writeFileSync(kubeconfig, readFileSync(given), { mode: 0o600 });
    const kube = await kubeFromFile(kubeconfig);
    kube.close();
    if (kube.namespace === DEFAULT_NAMESPACE) return { kubeconfig };
    throw new Error(`The context of ${given} has the namespace ${kube.namespace}; it must be ${DEFAULT_NAMESPACE}`);
  }
  // Built here, where the build can be aborted.
  const { 'kube-apiserver': apiServer } = await findTools(['etcd', 'kube-apiserver'], { log, signal });
  const options = {
    dir: join(dir, 'control-plane'),
    namespace: DEFAULT_NAMESPACE,
    controllerManager: false,
    ...(trustsLogins && { apiServerFlags: authenticationFlags(dir, apiServer) }),
    log,
    again,
  };
  const cluster = started.use(await startControlPlane(options));
  writeFileSync(kubeconfig, cluster.kubeconfigText, { mode: 0o600 });
  log(`etcd and kube-apiserver are ready at ${cluster.url}`);
  return { kubeconfig, cluster, apiServer };
}
