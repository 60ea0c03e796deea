import type { UpgradeRequest } from '../../../src/session-client/socket.ts';
import type { AgentConfig, MicroserviceStatus, MicroserviceView, StatusReport } from '../../../src/wire/agent.ts';
import type { ArtifactKind, PrunedArtifacts } from '../domain/artifact.ts';
import type { Config } from '../domain/config.ts';
import type { Container } from '../domain/container.ts';
import type { EngineFacts, LogLine, LogOptions, OtherAgentContainer } from '../domain/engine.ts';
import type { MicroserviceRecord } from '../domain/record.ts';
import type { VolumeMountItem } from '../domain/volume-mounts.ts';
import type { Identity, Node } from '../state/identity.ts';
import type { Observed } from './metrics-page.ts';

/** What the local API needs of the agent. */
export interface LocalApiAgent extends Observed {
  readonly config: Config;
  readonly identity: Identity;
  readonly connection: { state: string; error: string; lastContact: number };
  readonly problems: string[];
  readonly supervisor: LocalApiSupervisor;
  /** the settings in force */
  effective(): AgentConfig;
  report(measurements: boolean): Promise<StatusReport>;
  /** undefined until the engine was read once */
  microservices(): MicroserviceStatus[] | undefined;
  measureUsage(): Promise<void>;
  /** Begins an exec session, over the connection that `take` gives. */
  exec(
    session: { id: string; microservice: string; command?: readonly string[]; tty?: boolean },
    take: () => UpgradeRequest,
  ): Promise<void>;
  logs(uuid: string, options: LogOptions & { previous?: boolean }, signal: AbortSignal): AsyncIterable<LogLine>;
  view(uuid: string): MicroserviceView | undefined;
  provision(text: string, signal?: AbortSignal): Promise<Node>;
  deprovision(scope: 'all' | 'local'): Promise<{ controllerTold?: boolean }>;
  /** Resolves when no container of the agent is left, or when the removal is stuck; answers what is left. */
  cleared(signal: AbortSignal): Promise<string[]>;
  /** Removes images that this agent pulled and nothing uses; `bytes` is absent where the engine did not count them. */
  prune(): Promise<{ reference: string; bytes?: number }[]>;
  volumeMounts(): readonly VolumeMountItem[];
  /** Removes artifacts that nothing uses, of one kind or of both. */
  pruneArtifacts(kind?: ArtifactKind): Promise<PrunedArtifacts>;
  orphans(signal?: AbortSignal): Promise<OtherAgentContainer[]>;
  removeOrphans(names: readonly string[], signal?: AbortSignal): Promise<OtherAgentContainer[]>;
}

interface LocalApiSupervisor {
  readonly engine:
    | { state: 'connecting' | 'lost'; error?: string }
    | { state: 'connected'; facts: EngineFacts; error?: undefined };
  /** how many steps are under way or wait for their turn */
  readonly pending: number;
  readonly containers: readonly Container[];
  readonly desired: readonly { uuid: string }[] | undefined;
  readonly local: {
    /** These three answer why what they do would not survive the end of the agent. */
    start(uuid: string): string | undefined;
    stop(uuid: string): string | undefined;
    restart(uuid: string): string | undefined;
    remove(uuid: string): Promise<void>;
    /** Removes stopped containers that nothing needs; `kept` has those that could not be removed, with the reason. */
    prune(): Promise<{ removed: string[]; kept: Record<string, string> }>;
    kill(uuid: string, posixSignal: string): Promise<void>;
  };
  record(uuid: string): MicroserviceRecord | undefined;
  /** Resolves when the condition holds, or with false when it does not in time. */
  until(condition: () => boolean, milliseconds: number, signal?: AbortSignal): Promise<boolean>;
  /** Answers how to stop listening. */
  onChange(listener: () => void): () => void;
}
