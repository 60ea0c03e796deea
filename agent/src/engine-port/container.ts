import type { PortMapping } from '../../../src/api/container/index.ts';

/** One container of this agent, as the engine shows it. Times are Unix ms; 0 means never. */
export interface Container {
  id: string;
  name: string;
  uuid: string;
  application: string;
  microservice: string;
  digest: string;
  revision: string;
  rebuildCount: number;
  /** grows with each container made for the microservice */
  generation: number;
  /** engine's id of the image it was made from */
  imageId: string;
  state: 'created' | 'running' | 'exited' | 'dead';
  /** when it was made; absent while it is not known */
  createdAt?: number;
  /** it was paused on the machine */
  paused?: boolean;
  startedAt: number;
  finishedAt: number;
  exitCode: number;
  oomKilled: boolean;
  error: string;
  /** the engine's word for how it ended, where the engine has such words */
  reason?: string;
  health?: 'starting' | 'healthy' | 'unhealthy';
  /** the last health check, where it failed */
  failedCheck?: { exitCode: number; output: string };
  /** ms between health checks, where the agent has to see to it that they take place */
  checkEvery?: number;
  hostNetwork: boolean;
  /** id of our network as the container knows it; empty when it is not attached */
  networkId: string;
  ip?: string;
  /** published ports, while it runs */
  ports: readonly PortMapping[];
  /** of its first process; 0 when it does not run */
  pid: number;
  /** what its labels say to people and programs (`STAMPS`) */
  stamps?: Readonly<Record<string, string>>;
  /** what of the machine it binds */
  binds?: readonly Bind[];
  /** what it shares its namespaces in, where the engine has such a thing */
  podId?: string;
}

/** A directory or file of the machine that a container binds. */
export interface Bind {
  /** without links */
  source: string;
  writable: boolean;
}

/** What the engine shows. */
export interface EngineSnapshot {
  containers: readonly Container[];
  /** id of the network that our containers share, once it exists */
  networkId?: string;
}

/** Names one run of one container. */
export function runKey(container: Pick<Container, 'id' | 'startedAt'>): string {
  return `${container.id.slice(0, 12)}@${container.startedAt}`;
}

export function isRunning({ state }: Pick<Container, 'state'>): boolean {
  return state === 'running';
}

/** Whether a container runs or has run. */
export function hasRun({ startedAt }: Pick<Container, 'startedAt'>): boolean {
  return startedAt > 0;
}

/** The container of a microservice that runs, else the one that ran last. */
export function latestOf(containers: readonly Container[], uuid: string): Container | undefined {
  const own = containers.filter((container) => container.uuid === uuid && hasRun(container));
  return own.find(isRunning) ?? own.sort((a, b) => b.startedAt - a.startedAt)[0];
}
