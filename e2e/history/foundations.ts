import { join } from 'node:path';
import type { TestEngine } from '../../agent/src/engines/_outside.ts';
import { findTools } from '../../hack/binaries.ts';
import { bundleController } from '../../hack/build.ts';
import { pushImage } from '../../hack/image.ts';
import type { Log } from '../../hack/progress.ts';
import { startRegistry } from '../../hack/registry.ts';
import { sampleImage } from '../../hack/sample.ts';
import { askedKind, startTestEngine } from '../../hack/testing/global-engine.ts';
import { IMAGES } from './generate.ts';
import type { Foundations } from './lane.ts';

export interface FoundationOptions {
  dir: string;
  kubeconfig: string;
  /** a container engine and a registry that run already, or whether to start them; SKERRY_ENGINE selects the kind */
  real: boolean | { engine: TestEngine; registryUrl: string };
  log?: Log;
}

/** Finds or starts what all stories need; `started` stops what was started. */
export async function layFoundations(
  { dir, kubeconfig, real, log }: FoundationOptions,
  started: AsyncDisposableStack,
): Promise<Foundations> {
  const { kubectl } = await findTools(['kubectl'], { log });
  const controller = await bundleController(join(dir, 'programs'));
  const foundations = { dir, kubeconfig, kubectl, controller };
  if (!real) return foundations;
  const { engine, registryUrl } = real === true ? await startEngine(dir, started, log) : real;
  const images: Record<string, string> = {};
  for (const colour of IMAGES) {
    await pushImage(registryUrl, `history/${colour}`, '1', await sampleImage({ env: { VERSION: colour } } as never));
    images[colour] = `${new URL(registryUrl).host}/history/${colour}:1`;
  }
  return { ...foundations, real: { engine, images } };
}

async function startEngine(dir: string, started: AsyncDisposableStack, log?: Log) {
  const { url, host } = started.use(await startRegistry({ dir: join(dir, 'registry'), log }));
  const options = { kind: askedKind(), dir: join(dir, 'engine'), registry: host, log };
  return { engine: await startTestEngine(options, started), registryUrl: url };
}
