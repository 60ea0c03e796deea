import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { expect, inject, onTestFinished, test } from 'vitest';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { createStack, until } from './_stack.ts';

const MOUNT = '/run/secrets/kubernetes.io/serviceaccount';

/** As in a pod: the ServiceAccount's files are where the kubelet mounts them, in a mount namespace of the process. */
test.runIf(process.getuid?.() === 0)(
  'in a pod the controller uses its ServiceAccount and writes its name to the Lease when it leads',
  async () => {
    await using stack = await createStack();
    const dir = temporaryFolder();
    const config = new KubeConfig();
    config.loadFromFile(stack.controllerKubeconfig);
    const server = new URL(config.getCurrentCluster()?.server ?? '');
    writeFileSync(join(dir, 'token'), config.getCurrentUser()?.token ?? '');
    writeFileSync(join(dir, 'ca.crt'), Buffer.from(config.getCurrentCluster()?.caData ?? '', 'base64'));
    writeFileSync(join(dir, 'namespace'), stack.namespace);
    expect(readFileSync(inject('kubeconfig'), 'utf8')).not.toContain(readFileSync(join(dir, 'token'), 'utf8'));
    const [rest, metrics, internal] = [await freePort(), await freePort(), await freePort()];
    const { KUBECONFIG: _, ...env } = process.env;
    const pod = spawn(
      'unshare',
      [
        '--mount',
        'sh',
        '-c',
        `mount -t tmpfs none /run && mkdir -p ${MOUNT} && cp "$0"/* ${MOUNT} && exec "$1" "$2"`,
        dir,
        process.execPath,
        join(ROOT, 'src/main.ts'),
      ],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
        env: {
          ...env,
          HOME: dir,
          KUBERNETES_SERVICE_HOST: server.hostname,
          KUBERNETES_SERVICE_PORT: server.port,
          CONTROLLER_NAMESPACE: stack.namespace,
          POD_NAME: 'pod-1',
          SERVER_HOST: '127.0.0.1',
          SERVER_PORT: String(rest),
          METRICS_PORT: String(metrics),
          INTERNAL_PORT: String(internal),
          SKERRY_INTERNAL_ADDRESS: '127.0.0.1',
        },
      },
    );
    onTestFinished(
      () =>
        new Promise<void>((resolve) => {
          pod.once('exit', () => resolve());
          pod.kill('SIGKILL');
        }),
    );
    let log = '';
    pod.stdout.on('data', (chunk: Buffer) => {
      log += chunk;
    });
    await until('the controller to lead', async () => {
      const path = `/apis/coordination.k8s.io/v1/namespaces/${stack.namespace}/leases/skerry-controller`;
      const lease = await stack.kube.get<{ spec: { holderIdentity: string } }>(path);
      return lease?.spec.holderIdentity === 'pod-1';
    });
    // With a ServiceAccount replicas authenticate each other.
    expect(log).not.toContain('Replicas cannot know each other');
  },
  120_000,
);
