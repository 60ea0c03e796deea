/** A process that takes part in an election until it is killed: kubeconfig, namespace, identity. Tests only. */
import { loadConfig } from './_fault-proxy.ts';
import { createClient } from './client.ts';
import { startElection } from './lease.ts';

const [kubeconfig = '', namespace = '', identity = ''] = process.argv.slice(2);
startElection({
  client: createClient({ config: () => loadConfig(kubeconfig) }),
  namespace,
  name: 'leader',
  identity,
  dataAnnotation: 'test.dev/leader',
  times: { durationMs: 3_000, renewDeadlineMs: 2_000, retryMs: 400 },
  onStartedLeading: async (signal) => {
    process.send?.('leading');
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    process.send?.('stopped');
  },
});
