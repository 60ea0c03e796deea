import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeInstallation } from '../../e2e/_given-cluster.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { ROOT } from '../paths.ts';
import { startClock } from '../progress.ts';
import { accessTo } from './cluster.ts';
import { type Maker, makeCluster, NODE_IMAGES, Refusal } from './makers.ts';
import { controllerImage } from './release.ts';

/**
 * `make e2e KUBECONFIG=<file> IMAGE=<repository:tag>`: the stories of e2e/cluster.test.ts on a cluster that is there, or with
 * `CLUSTER=k3s` and `CLUSTER=kind` on one that is made for them. Whatever ends the stories, a signal included, their namespace and roles
 * are removed then, or the cluster that was made; where this process is killed, the line that it printed first does so.
 */
async function main(): Promise<number> {
  const { KUBECONFIG, IMAGE, REMOVE, CLUSTER } = process.env;
  if (CLUSTER && !REMOVE) return onMadeCluster(CLUSTER, IMAGE);
  if (!KUBECONFIG || (!IMAGE && !REMOVE))
    return refuse(
      'make e2e KUBECONFIG=<file> IMAGE=<repository:tag>: name the cluster, and the image of the controller as its nodes have or pull it; or CLUSTER=k3s or CLUSTER=kind alone',
    );
  const namespace = REMOVE ?? `skerry-e2e-${shortId()}`;
  if (!/^skerry-e2e-[0-9a-f]{8}$/.test(namespace))
    return refuse(`REMOVE="${namespace}" is no namespace of a run: it begins with skerry-e2e-`);
  try {
    if (REMOVE) return 0;
    say(`If this is killed, "make e2e KUBECONFIG=${KUBECONFIG} REMOVE=${namespace}" removes what it made\n`);
    return await tellStories(KUBECONFIG, IMAGE ?? '', namespace);
  } finally {
    await remove(KUBECONFIG, namespace);
  }
}

/** The stories on a cluster that is made for them, with our image unless another one is named. */
async function onMadeCluster(maker: string, given: string | undefined): Promise<number> {
  if (!Object.hasOwn(NODE_IMAGES, maker)) return refuse(`CLUSTER="${maker}" must be k3s or kind`);
  const dir = mkdtempSync(join(tmpdir(), 'skerry-e2e-'));
  const name = `skerry-e2e-${shortId()}`;
  try {
    await using cluster = await makeCluster({
      ...{ maker: maker as Maker, name, dir, env: process.env, log: startClock(say), signal: stopped.signal },
      ...(!given && { archive: () => controllerImage() }),
    });
    return await tellStories(cluster.kubeconfig, given || `docker.io/skerry/controller:${packageJson.version}`, name);
  } catch (error) {
    if (error instanceof Refusal) return refuse(error.message);
    if (stopped.signal.aborted) return 130;
    throw error;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const stopped = new AbortController();
let child: ReturnType<typeof spawn> | undefined;
// A terminal sends its signal to the child as well; another one for the child ends it at once.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    child?.kill(signal);
    stopped.abort();
  });

/** Runs the stories; resolves with their exit code. */
function tellStories(kubeconfig: string, image: string, namespace: string): Promise<number> {
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'cluster'];
  const env = { ...process.env, SKERRY_CLUSTER: kubeconfig, SKERRY_IMAGE: image, SKERRY_NAMESPACE: namespace };
  const run = spawn(process.execPath, args, { cwd: ROOT, env, stdio: 'inherit' });
  child = run;
  return new Promise((resolve, reject) => {
    run.once('error', reject);
    run.once('close', (status) => resolve(status ?? 1));
  });
}

const say = (text: string) => void process.stderr.write(text);
const shortId = () => randomUUID().slice(0, 8);

/** A command line that cannot be carried out: the exit code. */
function refuse(text: string): number {
  say(`${text}\n`);
  return 2;
}

/** Does nothing where the stories have removed all of it. */
async function remove(kubeconfig: string, namespace: string): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'skerry-e2e-'));
  try {
    const cluster = await accessTo(
      kubeconfig,
      dir,
      startClock((text) => process.stderr.write(text)),
    );
    try {
      await removeInstallation({ cluster, namespace, image: '' });
    } finally {
      cluster.kube.close();
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

// What makes a cluster may still wait for an engine.
process.exit(await main());
