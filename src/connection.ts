import { hostname, networkInterfaces } from 'node:os';
import { KubeConfig } from '@kubernetes/client-node';
import packageJson from '../package.json' with { type: 'json' };
import type { Config } from './config.ts';
import { createClient, type KubeMetrics } from './kube/mod.ts';

/** A client of the API server that the configuration names. Credentials are read for every connection, since they rotate. */
export const connect = (config: Config, metrics?: KubeMetrics) =>
  createClient({
    config: () => loadKubeConfig(config),
    userAgent: `skerry/${packageJson.version}`,
    ...(metrics && { metrics }),
  });

function loadKubeConfig(config: Config): KubeConfig {
  const kubeConfig = new KubeConfig();
  if (config.kubeconfigFile) kubeConfig.loadFromFile(config.kubeconfigFile);
  else kubeConfig.loadFromDefault();
  return kubeConfig;
}

/** Where other replicas reach the internal listener of this one: as configured, else at an address of this machine. */
export function internalAddress(config: Config, port: number): string {
  const address = config.internal.address ?? ownAddress();
  return /:\d+$/.test(address) ? address : `${address}:${port}`;
}

function ownAddress(): string {
  const outside = Object.values(networkInterfaces())
    .flat()
    .find((one) => one && !one.internal && one.family === 'IPv4');
  return outside?.address ?? hostname();
}
