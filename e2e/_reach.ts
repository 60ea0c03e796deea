import type { Access } from '../hack/cluster/cluster.ts';
import { until } from './_stack.ts';

/** A pod by its namespace and name. */
export interface PodName {
  namespace: string;
  name: string;
}

/** Starts a pod of an image with Node, which does nothing until `reached` asks it to. */
export async function startPeer({ kube }: Access, image: string, { namespace, name }: PodName): Promise<void> {
  await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  await kube.apply({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: {
      terminationGracePeriodSeconds: 0,
      // The account of the namespace may not be there yet.
      automountServiceAccountToken: false,
      containers: [
        {
          name,
          image,
          imagePullPolicy: 'IfNotPresent',
          command: ['/usr/bin/node', '-e', 'setInterval(() => {}, 1e6)'],
        },
      ],
    },
  });
  const isRunning = async () =>
    (await kube.get<{ status: { phase: string } }>(`/api/v1/namespaces/${namespace}/pods/${name}`))?.status.phase ===
    'Running';
  await until(`pod ${name} to run`, isRunning, { timeoutMs: 180_000 });
}

/** Which of these ports of an address take a connection from a pod within three seconds. */
export async function reached(
  { kubectl }: Access,
  { namespace, name }: PodName,
  address: string,
  ports: Readonly<Record<string, number>>,
): Promise<string[]> {
  const program = `const { connect } = require('node:net');
    const takes = (port) => new Promise((resolve) => {
      const socket = connect({ host: '${address}', port, timeout: 3000 });
      const end = (taken) => () => { socket.destroy(); resolve(taken); };
      socket.once('connect', end(true)).once('timeout', end(false)).once('error', end(false));
    });
    Promise.all(Object.entries(${JSON.stringify(ports)}).map(async ([name, port]) => (await takes(port)) ? [name] : []))
      .then((names) => console.log(JSON.stringify(names.flat())));`;
  return JSON.parse(await kubectl('--namespace', namespace, 'exec', name, '--', '/usr/bin/node', '-e', program));
}
