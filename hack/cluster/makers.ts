import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { compareVersions, versionInGoMod } from '../binaries.ts';
import { callEngine, probeEngine } from '../engine-api.ts';
import { cached } from '../package/parts.ts';
import { shortHash } from '../paths.ts';
import type { Log } from '../progress.ts';
import { buildTool } from '../tool.ts';

/** Clusters of other makes, in containers of a docker engine, for `make e2e CLUSTER=`. */

/** What a cluster is made by, and the image of its nodes. The image of kind is the default of the version that hack/tools pins. */
export const NODE_IMAGES = {
  k3s: 'rancher/k3s:v1.36.1-k3s1',
  kind: 'kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5',
} as const;
export type Maker = keyof typeof NODE_IMAGES;

/** Why no cluster can be made, for people, in one line. */
export class Refusal extends Error {}

/** A cluster that was made; its disposal takes it away. */
export interface MadeCluster extends AsyncDisposable {
  /** path of the kubeconfig of its admin */
  readonly kubeconfig: string;
}

interface MakeOptions {
  maker: Maker;
  /** of the cluster and its containers */
  name: string;
  /** folder for its files */
  dir: string;
  /** the image of the controller, which its nodes get; absent where they pull it */
  archive?: () => Promise<Buffer>;
  env: NodeJS.ProcessEnv;
  log: Log;
  /** ends the making, and what was made until then */
  signal: AbortSignal;
}

/**
 * Makes a cluster. Throws a Refusal within seconds where there is no docker engine, or one that neither has the image of the nodes
 * nor reaches the registry that has it.
 */
export async function makeCluster(options: MakeOptions): Promise<MadeCluster> {
  const { maker, dir, archive, env, log, signal } = options;
  const engine = await requireImage(maker, env.DOCKER_HOST || 'unix:///var/run/docker.sock');
  signal.throwIfAborted();
  const image = archive && join(dir, 'controller.tar');
  if (image) writeFileSync(image, await archive());
  const made: Making = { ...options, engine, image };
  log(`Starting ${maker}: ${NODE_IMAGES[maker]}`);
  return maker === 'kind' ? makeKind(made) : makeK3s(made);
}

interface Making extends Omit<MakeOptions, 'archive'> {
  /** URL of the docker engine */
  engine: string;
  /** path of the archive of the controller's image */
  image: string | undefined;
}

/** The URL of the engine, which has the image of the nodes or can pull it. */
async function requireImage(maker: Maker, engine: string): Promise<string> {
  const image = NODE_IMAGES[maker];
  const kind = await probeEngine(engine);
  if (kind !== 'docker')
    throw new Refusal(
      `CLUSTER=${maker} needs docker, and ${kind ?? 'nothing'} answers at ${engine}: start it, or name another one in DOCKER_HOST`,
    );
  const isThere = await callEngine(engine, 'GET', `/images/${image}/json`).then(
    () => true,
    () => false,
  );
  if (isThere) return engine;
  // The engine asks the registry for the manifest alone.
  await callEngine(engine, 'GET', `/distribution/${image}/json`).catch((error: Error) => {
    const reason = error.message.replaceAll(/\s+/g, ' ').slice(0, 300);
    throw new Refusal(
      `CLUSTER=${maker}: docker at ${engine} has no image ${image} and cannot pull it (${reason}): load it, or name a cluster with KUBECONFIG`,
    );
  });
  return engine;
}

const run = promisify(execFile);
const INSTALL_MS = 300_000;

async function makeKind({ name, dir, image, engine, env, log, signal }: Making): Promise<MadeCluster> {
  const program = await findKind(env, log);
  const kubeconfig = join(dir, 'kubeconfig');
  const options = { env: { ...env, DOCKER_HOST: engine, KIND_EXPERIMENTAL_PROVIDER: 'docker' } };
  const kind = (...args: string[]) => run(program, [...args, '--name', name], { ...options, signal });
  log(`If this is killed, "${program} delete cluster --name ${name}" removes what it made`);
  await using started = new AsyncDisposableStack();
  started.defer(async () => {
    await run(program, ['delete', 'cluster', '--name', name, '--kubeconfig', kubeconfig], options);
  });
  await kind('create', 'cluster', '--image', NODE_IMAGES.kind, '--kubeconfig', kubeconfig, '--wait', '3m');
  if (image) await kind('load', 'image-archive', image);
  const all = started.move();
  return { kubeconfig, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** Path of a kind: the one on PATH, if it is not older than the pinned one, else the pinned one from its Go module. */
async function findKind(env: NodeJS.ProcessEnv, log: Log): Promise<string> {
  const { stdout } = spawnSync('kind', ['version'], { encoding: 'utf8', env });
  const version = /\bv(\d+\.\d+\.\d+)/.exec(stdout ?? '')?.[1];
  const pins = readFileSync(join(import.meta.dirname, '../tools/kind/go.mod'), 'utf8');
  const pinned = versionInGoMod(pins, 'sigs.k8s.io/kind');
  if (version !== undefined && pinned !== undefined && compareVersions(version, pinned) >= 0) return 'kind';
  return buildTool('kind', 'sigs.k8s.io/kind', { log });
}

/** The used part of @testcontainers/k3s. */
interface K3sModule {
  K3sContainer: new (
    image: string,
  ) => {
    withName(name: string): { start(): Promise<StartedK3s> };
  };
}
interface StartedK3s {
  getKubeConfig(): string;
  copyFilesToContainer(files: { source: string; target: string }[]): Promise<void>;
  exec(command: string[]): Promise<{ exitCode: number; output: string }>;
}

/**
 * @testcontainers/k3s as `hack/tools/k3s` pins it, in the user's cache folder. Its 148 packages would make `npm ci`, for which
 * `make up` waits, longer by half. None of their install scripts is needed.
 */
async function loadK3s(): Promise<K3sModule> {
  const pins = join(import.meta.dirname, '../tools/k3s');
  const lockFile = readFileSync(join(pins, 'package-lock.json'), 'utf8');
  const folder = await cached(`testcontainers-k3s-${shortHash(lockFile)}`, async (draft) => {
    for (const name of ['package.json', 'package-lock.json']) copyFileSync(join(pins, name), join(draft, name));
    const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
    await run('npm', ['ci', ...quiet], { cwd: draft, timeout: INSTALL_MS });
  });
  return createRequire(join(folder, 'package.json'))('@testcontainers/k3s') as K3sModule;
}

async function makeK3s({ name, dir, image, engine, log, signal }: Making): Promise<MadeCluster> {
  // Its reaper is a further image; what is made here is removed here.
  Object.assign(process.env, { DOCKER_HOST: engine, TESTCONTAINERS_RYUK_DISABLED: 'true' });
  const { K3sContainer } = await loadK3s();
  log(`If this is killed, "docker rm --force --volumes ${name}" removes what it made`);
  await using started = new AsyncDisposableStack();
  started.defer(async () => {
    // It may not exist yet.
    await callEngine(engine, 'DELETE', `/containers/${name}?force=true&v=true`).catch((error: Error) =>
      log(error.message),
    );
  });
  // It takes no signal.
  const interrupted = once(signal, 'abort').then((): never => signal.throwIfAborted() as never);
  const container = await Promise.race([new K3sContainer(NODE_IMAGES.k3s).withName(name).start(), interrupted]);
  const kubeconfig = join(dir, 'kubeconfig');
  writeFileSync(kubeconfig, container.getKubeConfig(), { mode: 0o600 });
  if (image) {
    const target = '/tmp/controller.tar';
    await container.copyFilesToContainer([{ source: image, target }]);
    const { exitCode, output } = await container.exec(['ctr', 'images', 'import', target]);
    if (exitCode !== 0) throw new Error(`k3s does not take the image of the controller: ${output.trim()}`);
  }
  const all = started.move();
  return { kubeconfig, [Symbol.asyncDispose]: () => all.disposeAsync() };
}
