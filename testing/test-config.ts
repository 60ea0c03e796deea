import { type Config, readConfig } from '../src/config.ts';

/** The configuration of a controller under test: on loopback, at free ports. */
export const testConfig = (kubeconfig: string, namespace: string, env: Record<string, string> = {}): Config =>
  readConfig({
    KUBECONFIG: kubeconfig,
    CONTROLLER_NAMESPACE: namespace,
    SERVER_HOST: '127.0.0.1',
    SERVER_PORT: '0',
    METRICS_PORT: '0',
    INTERNAL_PORT: '0',
    ...env,
  });
