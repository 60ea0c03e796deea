import { spawnSync } from 'node:child_process';
import { ROOT } from '../paths.ts';

/** `make e2e KUBECONFIG=<file> IMAGE=<repository:tag>`: the stories of e2e/cluster.test.ts on a cluster that is there. */
const { KUBECONFIG, IMAGE } = process.env;
if (!KUBECONFIG || !IMAGE) {
  process.stderr.write(
    'make e2e KUBECONFIG=<file> IMAGE=<repository:tag>: name the cluster, and the image of the controller as its nodes have or pull it\n',
  );
  process.exitCode = 2;
} else {
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'cluster'];
  const env = { ...process.env, SKERRY_CLUSTER: KUBECONFIG, SKERRY_IMAGE: IMAGE };
  process.exitCode = spawnSync(process.execPath, args, { cwd: ROOT, env, stdio: 'inherit' }).status ?? 1;
}
