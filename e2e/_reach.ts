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

/** How a pod reaches a server of the message bus by TLS. */
interface SecureServer {
  host: string;
  port: number;
  /** the name that its certificate has to have */
  servername: string;
  /** PEM */
  ca: string;
}

/** What a pod gets from a server of the message bus by TLS: `secure`, or why it does not trust the server. */
export async function greetedBy(
  { kubectl }: Access,
  { namespace, name }: PodName,
  { host, port, ...tls }: SecureServer,
): Promise<string> {
  const program = `const socket = require('node:net').connect(${port}, '${host}');
    const end = (text) => { console.log(text); process.exit(); };
    setTimeout(end, 10_000, 'nothing').unref();
    socket.once('error', (error) => end(error.message)).once('data', () => {
      const secure = require('node:tls').connect({ socket, ...${JSON.stringify(tls)} }, () => end('secure'));
      secure.once('error', (error) => end(error.message));
    });`;
  const said = await kubectl('--namespace', namespace, 'exec', name, '--', '/usr/bin/node', '-e', program);
  return said.trim();
}
