import { KubeConfig } from '@kubernetes/client-node';
import packageJson from '../../package.json' with { type: 'json' };
import { DEFAULT_NAMESPACE } from '../../src/api/names.ts';
import { createClient, type KubeClient } from '../../src/kube/mod.ts';
import { UsageError } from './command.ts';

/** The cluster of a command: a client with the credentials of the user, and the namespace of the controller. */
export interface Cluster extends AsyncDisposable {
  client: KubeClient;
  namespace: string;
}

export interface ClusterFlags {
  kubeconfig?: string;
  context?: string;
  namespace?: string;
}

/**
 * Connects as kubectl does: flag, KUBECONFIG, ~/.kube/config. The namespace is the flag's, else that of the context, else the
 * one in which the controller runs by default. Throws UsageError when there is no such context.
 */
export function loadCluster({ kubeconfig, context, namespace }: ClusterFlags): Cluster {
  const load = () => {
    const config = new KubeConfig();
    if (kubeconfig) config.loadFromFile(kubeconfig);
    else config.loadFromDefault();
    if (context) config.setCurrentContext(context);
    return config;
  };
  const config = load();
  const chosen = config.getContextObject(config.getCurrentContext());
  if (!chosen) throw new UsageError(`there is no context "${config.getCurrentContext()}" in the kubeconfig`);
  const client = createClient({ config: load, userAgent: `kubectl-skerry/${packageJson.version}` });
  return {
    client,
    namespace: namespace ?? chosen.namespace ?? DEFAULT_NAMESPACE,
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}
