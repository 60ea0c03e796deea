import type { RequestOptions } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';
import packageJson from '../../package.json' with { type: 'json' };
import { DEFAULT_NAMESPACE } from '../../src/api/names.ts';
import { createClient, type KubeClient } from '../../src/kube/mod.ts';
import { UsageError } from './errors.ts';

/** The cluster of a command: a client with the credentials of the user, and the namespace of the controller. */
export interface Cluster extends AsyncDisposable {
  client: KubeClient;
  namespace: string;
  /** the bearer token of the user, where the kubeconfig has one or a program that makes one */
  token?(): Promise<string | undefined>;
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
    async token() {
      const options: RequestOptions = {};
      await config.applyToHTTPSOptions(options);
      const { Authorization: header } = (options.headers ?? {}) as Record<string, unknown>;
      return /^Bearer (\S+)$/.exec(String(header))?.[1];
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}
