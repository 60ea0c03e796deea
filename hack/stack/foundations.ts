import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DEFAULT_NAMESPACE } from '../../src/api/names.ts';
import { findTools } from '../binaries.ts';
import { startControlPlane } from '../control-plane.ts';
import { type Engine, findEngine } from '../engine.ts';
import { pushImage } from '../image.ts';
import { kubeFromFile } from '../kube.ts';
import type { Log } from '../progress.ts';
import { type Registry, startRegistry } from '../registry.ts';
import { sampleImage } from '../sample.ts';

/** What Skerry runs on. */
export interface Foundations {
  /** Path of a kubectl. */
  kubectl: string;
  /** Path of the kubeconfig of a cluster admin. */
  kubeconfig: string;
  engine: Engine;
  registry: Registry;
  /** Reference of the sample's image in the registry; absent without the sample. */
  image?: string;
}

export interface FoundationsOptions {
  dir: string;
  registryPort: number;
  sample: boolean;
  log: Log;
  signal?: AbortSignal;
}

/**
 * Starts control plane, container engine and registry side by side, and pushes the sample's image. What has been
 * started is put on the stack of things to stop, whether the rest succeeds or not. With SKERRY_KUBECONFIG that cluster
 * is used.
 */
export async function startFoundations(
  started: AsyncDisposableStack,
  options: FoundationsOptions,
): Promise<Foundations> {
  const { dir, registryPort, sample, log, signal } = options;
  const tools = findTools(['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl', 'registry'], {
    log,
    signal,
  });
  const work = {
    kubectl: tools.then(({ kubectl }) => kubectl),
    engine: findEngine({ dir: join(dir, 'engine'), outbound: true, registry: `127.0.0.1:${registryPort}`, log }).then(
      (engine) => started.use(engine),
    ),
    kubeconfig: tools.then(() => startCluster(started, dir, log)),
    registry: tools.then(async () => {
      const registry = await startRegistry({ dir: join(dir, 'registry'), port: registryPort, log });
      return started.use(registry);
    }),
    image: sample ? sampleImage({}, undefined, log) : Promise.resolve(undefined),
  };
  // All are awaited even when one fails, so that none comes up after the others were stopped.
  const failures = (await Promise.allSettled(Object.values(work))).flatMap((result) =>
    result.status === 'rejected' ? [(result.reason as Error).message] : [],
  );
  signal?.throwIfAborted();
  if (failures.length > 0) throw new Error([...new Set(failures)].join('\n'));

  const [kubectl, engine, kubeconfig, registry, image] = await Promise.all([
    work.kubectl,
    work.engine,
    work.kubeconfig,
    work.registry,
    work.image,
  ]);
  if (!image) return { kubectl, engine, kubeconfig, registry };
  // Named by its content: another build is another image, which the agent then pulls.
  const tag = image.top.digest.slice('sha256:'.length).slice(0, 12);
  const { reference } = await pushImage(registry.url, 'sample', tag, image);
  return { kubectl, engine, kubeconfig, registry, image: reference };
}

async function startCluster(started: AsyncDisposableStack, dir: string, log: Log): Promise<string> {
  const kubeconfig = join(dir, 'kubeconfig');
  const given = process.env.SKERRY_KUBECONFIG;
  if (given) {
    writeFileSync(kubeconfig, readFileSync(given), { mode: 0o600 });
    const kube = await kubeFromFile(kubeconfig);
    kube.close();
    if (kube.namespace === DEFAULT_NAMESPACE) return kubeconfig;
    throw new Error(`The context of ${given} has the namespace ${kube.namespace}; it must be ${DEFAULT_NAMESPACE}`);
  }
  const cluster = started.use(
    await startControlPlane({ dir: join(dir, 'control-plane'), namespace: DEFAULT_NAMESPACE, log }),
  );
  writeFileSync(kubeconfig, cluster.kubeconfigText, { mode: 0o600 });
  log(`etcd, kube-apiserver and kube-controller-manager are ready at ${cluster.url}`);
  return kubeconfig;
}
