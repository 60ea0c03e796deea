import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeInstallation } from '../../e2e/_given-cluster.ts';
import { ROOT } from '../paths.ts';
import { startClock } from '../progress.ts';
import { accessTo } from './cluster.ts';

/**
 * `make e2e KUBECONFIG=<file> IMAGE=<repository:tag>`: the stories of e2e/cluster.test.ts on a cluster that is there. Whatever ends
 * the stories, a signal included, their namespace and roles are removed then; where this process is killed, the line
 * that it printed first does so.
 */
async function main(): Promise<number> {
  const { KUBECONFIG, IMAGE, REMOVE } = process.env;
  if (!KUBECONFIG || (!IMAGE && !REMOVE)) {
    process.stderr.write(
      'make e2e KUBECONFIG=<file> IMAGE=<repository:tag>: name the cluster, and the image of the controller as its nodes have or pull it\n',
    );
    return 2;
  }
  const namespace = REMOVE ?? `skerry-e2e-${randomUUID().slice(0, 8)}`;
  if (!/^skerry-e2e-[0-9a-f]{8}$/.test(namespace)) {
    process.stderr.write(`REMOVE="${namespace}" is no namespace of a run: it begins with skerry-e2e-\n`);
    return 2;
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  let child: ReturnType<typeof spawn> | undefined;
  // A terminal sends its signal to the child as well; another one for the child ends it at once.
  for (const signal of signals) process.on(signal, () => child?.kill(signal));
  let code = 0;
  try {
    if (!REMOVE) {
      process.stderr.write(
        `If this is killed, "make e2e KUBECONFIG=${KUBECONFIG} REMOVE=${namespace}" removes what it made\n`,
      );
      const args = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'cluster'];
      const env = { ...process.env, SKERRY_CLUSTER: KUBECONFIG, SKERRY_IMAGE: IMAGE, SKERRY_NAMESPACE: namespace };
      const run = spawn(process.execPath, args, { cwd: ROOT, env, stdio: 'inherit' });
      child = run;
      code = await new Promise<number>((resolve, reject) => {
        run.once('error', reject);
        run.once('close', (status) => resolve(status ?? 1));
      });
    }
  } finally {
    await remove(KUBECONFIG, namespace);
  }
  return code;
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

process.exitCode = await main();
