import type { MicroserviceStatus } from '../../../../../src/wire/agent.ts';
import { ARTIFACT_KINDS, type ArtifactItem, type ArtifactKind } from '../../../domain/artifact.ts';
import { AGENT_VERSION } from '../../../domain/names.ts';
import type { Machine } from '../../../machine/machine.ts';
import { Metrics } from './exposition.ts';
import { AGENT_METRICS } from './metrics.ts';

export type AgentMetrics = Metrics<typeof AGENT_METRICS>;

/** The metrics of one agent. */
export function createAgentMetrics(): AgentMetrics {
  return new Metrics(AGENT_METRICS);
}

/** What the page shows of an agent in addition to its counters. */
export interface MetricsFacts {
  metrics: AgentMetrics;
  /** Unix ms */
  startedAt: number;
  /** milliseconds that the controller's clock is ahead of ours */
  clockOffset: number;
  /** the node is there while the agent is provisioned */
  identity: { node?: object };
  /** `lastContact` in Unix ms */
  connection: { state: string; lastContact: number };
  supervisor: { engine: { state: string }; pending: number };
  machine: Pick<Machine, 'measure'>;
  /** the artifacts of a kind */
  artifacts(kind: ArtifactKind): readonly ArtifactItem[];
  /** undefined until the engine has been looked at once */
  microservices(): readonly MicroserviceStatus[] | undefined;
}

/** `GET /metrics`: what was counted, and how things are at this moment. */
export async function metricsPage(agent: MetricsFacts): Promise<string> {
  const { metrics, supervisor, identity, connection } = agent;
  const items = agent.microservices() ?? [];
  const figures = await agent.machine.measure();
  const { user, system } = process.cpuUsage();
  metrics.set('info', 1, { version: AGENT_VERSION });
  metrics.set('uptime', Math.round((Date.now() - agent.startedAt) / 1000));
  metrics.set('provisioned', identity.node ? 1 : 0);
  metrics.set('connected', connection.state === 'OK' ? 1 : 0);
  metrics.clear('connection');
  metrics.set('connection', 1, { state: connection.state });
  metrics.set('lastContact', connection.lastContact / 1000);
  metrics.set('clockOffset', agent.clockOffset / 1000);
  metrics.set('engineConnected', supervisor.engine.state === 'connected' ? 1 : 0);
  metrics.set('running', items.filter(({ status }) => status === 'RUNNING').length);
  for (const name of ['microservices', 'microserviceRestarts'] as const) metrics.clear(name);
  for (const { status, application = '', name = '', restartCount } of items) {
    metrics.add('microservices', { state: status ?? 'UNKNOWN' });
    metrics.set('microserviceRestarts', restartCount ?? 0, { application, microservice: name });
  }
  metrics.clear('artifacts');
  for (const kind of ARTIFACT_KINDS)
    for (const { state } of agent.artifacts(kind)) metrics.add('artifacts', { kind, state });
  metrics.set('pending', supervisor.pending);
  metrics.set('memory', process.memoryUsage.rss());
  metrics.set('cpu', (user + system) / 1e6);
  if (figures.systemAvailableDisk !== undefined) metrics.set('diskAvailable', figures.systemAvailableDisk);
  if (figures.systemTotalDisk !== undefined) metrics.set('diskSize', figures.systemTotalDisk);
  if (figures.diskUsage !== undefined) metrics.set('diskUsed', Math.round(figures.diskUsage * 1024 ** 3));
  return metrics.text();
}
