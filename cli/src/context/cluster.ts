import type { RequestOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import { KubeConfig } from '@kubernetes/client-node';
import packageJson from '../../../package.json' with { type: 'json' };
import { DEFAULT_NAMESPACE } from '../../../src/api/names.ts';
import { createClient, type KubeClient } from '../../../src/kube/mod.ts';
import { pathOf, withQuery } from '../../../src/kube/path.ts';
import { PODS } from './controller-pods.ts';
import { CommandError, UsageError } from './errors.ts';

/** The cluster of a command: a client with the credentials of the user, and the namespace of the controller. */
export interface Cluster extends AsyncDisposable {
  client: KubeClient;
  namespace: string;
  /** the bearer token of the user, where the kubeconfig has one or a program that makes one */
  token?(): Promise<string | undefined>;
  /**
   * A connection to a port of a pod in the namespace, through the API server. Rejects with an ApiError, a TransportError, or the reason
   * of the signal. It ends with the cluster at the latest.
   */
  openPort(pod: string, port: number, signal: AbortSignal): Promise<Duplex>;
}

export interface ClusterFlags {
  kubeconfig?: string;
  context?: string;
  namespace?: string;
}

function readable(load: () => KubeConfig): KubeConfig {
  try {
    return load();
  } catch (error) {
    throw new CommandError(
      `the kubeconfig cannot be read: ${(error as Error).message}; --kubeconfig or $KUBECONFIG names another one`,
    );
  }
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
  const config = readable(load);
  const chosen = config.getContextObject(config.getCurrentContext());
  if (!chosen) throw new UsageError(`there is no context "${config.getCurrentContext()}" in the kubeconfig`);
  const userAgent = `kubectl-skerry/${packageJson.version}`;
  const client = createClient({ config: load, userAgent, connectRetries: 1 });
  const place = namespace ?? chosen.namespace ?? DEFAULT_NAMESPACE;
  const open = new Set<Duplex>();
  const access = async () => {
    const options: RequestOptions = {};
    await config.applyToHTTPSOptions(options);
    return options;
  };
  return {
    client,
    namespace: place,
    async token() {
      const { Authorization: header } = ((await access()).headers ?? {}) as Record<string, unknown>;
      return /^Bearer (\S+)$/.exec(String(header))?.[1];
    },
    async openPort(pod, port, signal) {
      const { openPort } = await import('./port-forward.ts');
      const options = await access();
      const { server = '' } = config.getCurrentCluster() ?? {};
      const path = pathOf(PODS, place, pod, 'portforward');
      const connection = await openPort({
        url: `${server.replace(/^http/, 'ws').replace(/\/$/, '')}${withQuery(path, { ports: port })}`,
        options: { ...options, headers: { ...options.headers, 'user-agent': userAgent } },
        signal,
      });
      open.add(connection);
      connection.once('close', () => open.delete(connection));
      return connection;
    },
    async [Symbol.asyncDispose]() {
      for (const connection of open) connection.destroy();
      await client[Symbol.asyncDispose]();
    },
  };
}
