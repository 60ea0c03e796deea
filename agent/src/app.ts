import type { KeyObject } from 'node:crypto';
import type { Clock } from '../../src/lib/clock.ts';
import type { Log } from '../../src/lib/log.ts';
import type { AgentConfig, MicroserviceView } from '../../src/wire/agent.ts';
import type { ArtifactsDependencies, ArtifactsPart } from './artifacts/artifacts.ts';
import type { Transport } from './controller/client.ts';
import type { Scope } from './controller/membership.ts';
import type { ArtifactItem, ArtifactKind } from './domain/artifact.ts';
import type { Config, LogLevel } from './domain/config.ts';
import type { Random } from './domain/jitter.ts';
import { AGENT_VERSION } from './domain/names.ts';
import type { Places, Policy } from './domain/policy.ts';
import type { Engine } from './engines/port/engine.ts';
import type { OtherAgentContainer } from './engines/port/ownership.ts';
import { createParts } from './parts.ts';
import type { OwnLog, StartedPrograms } from './sessions/session.ts';
import type { Sessions } from './sessions/sessions.ts';
import type { Database } from './state/database.ts';
import type { Identity, IdentityStore, Node } from './state/identity.ts';
import type { MachineAccess } from './supervise/executors.ts';
import { type PrunedImage, prune, runPruning } from './supervise/pruning.ts';
import { untilRemoved } from './supervise/removal.ts';
import type { CdiDevices } from './system/cdi.ts';
import type { Machine } from './system/machine.ts';
import type { Program } from './update/program.ts';
import type { MountedFiles } from './volume-mounts/files.ts';

/** Dependencies of an agent. It has no other state, so that a thousand agents can run in one process. */
export interface AgentDependencies {
  clock: Clock;
  random: Random;
  log: Log;
  /** the engine that this agent's containers run on, for the instance id that they carry */
  engine(instance: string): Engine;
  database: Database;
  identity: IdentityStore;
  machine: Machine;
  /** how requests to the controller are sent; absent: by HTTP */
  transport?: Transport;
  policy: Policy;
  /** never bound into a container */
  protectedPaths: readonly string[];
  /** the paths of this machine */
  places: Places;
  /** makes the directories that a container binds */
  prepareMounts: MachineAccess['prepareMounts'];
  /** where what the agent writes for containers lies */
  mountedFiles: MountedFiles;
  /** what keeps the models and knowledge of this machine */
  artifacts(deps: Omit<ArtifactsDependencies, 'store' | 'projections'>): ArtifactsPart;
  /** PEM by which containers know the local API; absent: it has no port */
  apiAuthority?: string;
  /** whether a program of this machine listens on a port; absent: the engine is on another machine */
  portTaken?: MachineAccess['portTaken'];
  /** the CDI devices that specifications in these directories name */
  cdiDevices: CdiDevices;
  /** the addresses of this machine's interfaces */
  ownAddresses: () => readonly string[];
  /** applies what the controller or the machine chose for the log */
  setLogging(level: LogLevel, settings: AgentConfig): void;
  /** problems with the machine's own files, for people */
  fileProblems(): string[];
  /** whether the agent of an instance runs on this machine */
  isAlive(instance: string): Promise<boolean>;
  /** Starts the agent again. */
  restart(): void;
  /** what this agent logs, for log sessions of the node */
  ownLog: OwnLog;
  /** where the programs that sessions started are noted for the next process */
  programs: StartedPrograms;
  /** where releases of the agent are kept on this machine, and whose signatures count; absent: it is no installed agent */
  updates?: { program: Program; keys: readonly KeyObject[] };
  /** The agent has another instance id now. */
  instanceChanged(instance: string): void;
  /** PEM of a further authority for the controller's certificate */
  controllerCa?: string;
  /** fetches the authority that a join string names */
  fetchAuthority(controllerUrl: string, digest: string): Promise<string>;
}

export type Agent = ReturnType<typeof createAgent>;

/** Builds an agent: a supervisor of containers and a membership at a controller, around one database. */
export function createAgent(config: Config, deps: AgentDependencies) {
  const { startedAt, metrics, identity, policy, responses, link, adoption, ...rest } = createParts(config, deps);
  const { supervisor, inventory, settings, pruning, content, artifacts, sessions, parts } = rest;
  const { actions, reporter, membership, provisioning, apply, applyLogging } = rest;
  const { log, database, machine } = deps;
  return {
    config,
    supervisor,
    database,
    metrics,
    machine,
    startedAt,
    /** the settings in force */
    effective: settings,
    microservices: () => inventory.microservices(),
    measureUsage: () => inventory.measureUsage(),
    report: (measurements: boolean) => reporter.report(measurements),
    prune: (): Promise<PrunedImage[]> => prune(pruning),
    /** the models or knowledge of this machine */
    artifacts: (kind: ArtifactKind): ArtifactItem[] => artifacts.items(kind),
    /** the volume mounts of this machine, without their content */
    volumeMounts: () => content.items,
    /** Removes the models and knowledge that nothing uses. */
    pruneArtifacts: pruning.pruneArtifacts,
    /** Containers of agents that no longer exist, of any node. */
    orphans: (signal?: AbortSignal) => adoption.orphans(signal),
    async removeOrphans(names: readonly string[], signal?: AbortSignal): Promise<OtherAgentContainer[]> {
      const removed = await adoption.removeOrphans(names, signal);
      await inventory.refreshOrphans(signal);
      link.changed();
      return removed;
    },
    /** The machine's own settings have changed. */
    settingsChanged: applyLogging,
    /** Wakes the reporter: the state of this machine has changed. */
    changed: () => link.changed(),
    /** milliseconds that the controller's clock is ahead of the agent's, 0 while unknown */
    get clockOffset(): number {
      return link.client?.offset ?? 0;
    },
    /** Begins an exec session of a user on this machine. */
    exec: (...args: Parameters<Sessions['exec']>) => sessions.exec(...args),
    /** The log of a microservice; with `follow` it goes on when the container starts again or is replaced. */
    logs: (...args: Parameters<Sessions['logs']>) => sessions.logs(...args),
    /** Replaces the policy. Containers keep running, unless the policy has `stopRefused`. */
    setPolicy(next: Policy): void {
      policy.policy = next;
      apply();
      supervisor.policyChanged();
      sessions.changed();
      link.changed();
    },
    get identity(): Identity {
      return identity.current;
    },
    get problems(): string[] {
      return reporter.problems;
    },
    /** The view of a microservice, as the controller last sent it or as it last ran. */
    view: (uuid: string): MicroserviceView | undefined =>
      responses.sent.microservices?.views.get(uuid) ?? supervisor.record(uuid)?.lastGood,
    get connection() {
      return membership.connection;
    },
    /** Supervises, polls and reports until the signal fires. Containers keep running. */
    async run(signal: AbortSignal): Promise<void> {
      membership.finishEnding();
      const { instance, node } = identity.current;
      log.info({ version: AGENT_VERSION, instance, node: node?.uuid }, 'Starting');
      membership.start(signal);
      actions.resume(signal);
      const work = [supervisor.run(signal), runPruning(pruning, signal)];
      await Promise.all([...work, ...parts.map((part) => part.run?.(signal, apply))]);
      await membership.ended();
    },
    /** Moves the membership to another address of the controller. Node and containers stay. */
    moveController: (url: string): void => provisioning.moveController(url),
    /** What is wrong with the controller at another address, for people; undefined where it answers and knows this node. */
    controllerProblemAt: (url: string, signal?: AbortSignal) => provisioning.problemAt(url, signal),
    /** Exchanges a join string for an identity. */
    provision: (text: string, signal?: AbortSignal): Promise<Node> => provisioning.provision(text, signal),
    /**
     * Ends the membership and begins to remove its containers; volumes stay. With the scope `local` the containers keep
     * running.
     */
    deprovision: (scope: Scope = 'all', signal?: AbortSignal) => provisioning.deprovision(scope, signal),
    /** Resolves when all containers of the agent are removed, or when the removal is stuck; returns the names that are left. */
    cleared: (signal: AbortSignal): Promise<string[]> => untilRemoved(supervisor, signal),
  };
}
