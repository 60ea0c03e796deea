import { join } from 'node:path';
import { findTools } from '../../hack/binaries.ts';
import { bundleController } from '../../hack/build.ts';
import { findEngine, removeEngineData } from '../../hack/engine.ts';
import { pushImage } from '../../hack/image.ts';
import type { Log } from '../../hack/progress.ts';
import { startRegistry } from '../../hack/registry.ts';
import { sampleImage } from '../../hack/sample.ts';
import { IMAGES } from './generate.ts';
import type { Foundations } from './lane.ts';

export interface FoundationOptions {
  dir: string;
  kubeconfig: string;
  /** a container engine and a registry that run already, or whether to start them */
  docker: boolean | { engineUrl: string; registryUrl: string };
  log?: Log;
}

/** Finds or starts what all stories need; `started` stops what was started. */
export async function layFoundations(
  { dir, kubeconfig, docker, log }: FoundationOptions,
  started: AsyncDisposableStack,
): Promise<Foundations> {
  const { kubectl } = await findTools(['kubectl'], { log });
  const controller = await bundleController(join(dir, 'programs'));
  const foundations = { dir, kubeconfig, kubectl, controller };
  if (!docker) return foundations;
  const { engineUrl, registryUrl } = docker === true ? await startEngine(dir, started, log) : docker;
  const images: Record<string, string> = {};
  for (const colour of IMAGES) {
    await pushImage(registryUrl, `history/${colour}`, '1', await sampleImage({ env: { VERSION: colour } } as never));
    images[colour] = `${new URL(registryUrl).host}/history/${colour}:1`;
  }
  return { ...foundations, docker: { url: engineUrl, images } };
}

async function startEngine(dir: string, started: AsyncDisposableStack, log?: Log) {
  const data = join(dir, 'engine');
  started.defer(() => removeEngineData(data));
  const registry = started.use(await startRegistry({ dir: join(dir, 'registry'), log }));
  const engine = started.use(await findEngine({ dir: data, registry: registry.host, log }));
  return { engineUrl: engine.url, registryUrl: registry.url };
}
