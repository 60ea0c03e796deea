import type { KeyObject } from 'node:crypto';
import type { Clock } from '../../src/lib/clock.ts';
import type { Log } from '../../src/lib/log.ts';
import type { AgentConfig } from '../../src/wire/agent.ts';
import type { ArtifactsDependencies, ArtifactsPart } from './content/artifacts/artifacts.ts';
import type { ArtifactKind } from './domain/artifact.ts';
import type { LogLevel } from './domain/config.ts';
import type { Random } from './domain/jitter.ts';
import type { PathFacts, Policy } from './domain/policy.ts';
import type { Engine } from './engine-port/engine.ts';
import type { Transport } from './link/client.ts';
import type { LocalArtifact } from './local/artifacts.ts';
import type { LocalRegistry } from './local/registries.ts';
import type { LocalRow } from './local/row.ts';
import type { LocalRuntimeClass } from './local/runtime-classes.ts';
import type { CdiDevices } from './machine/cdi.ts';
import type { Machine } from './machine/machine.ts';
import type { MountedFiles } from './machine/mounted-files.ts';
import type { MountInUse } from './machine/mounts.ts';
import type { PositionDependencies } from './position/position.ts';
import type { OwnLog, StartedPrograms } from './sessions/session.ts';
import type { Database } from './state/database.ts';
import type { IdentityStore } from './state/identity.ts';
import type { RevocationList } from './state/revocations.ts';
import type { Rows } from './state/rows.ts';
import type { MachineAccess } from './supervise/executors/executors.ts';
import type { SshClient } from './tunnel/ssh-client.ts';
import type { Program } from './update/program.ts';

/** Dependencies of an agent. It has no other state, so that a thousand agents can run in one process. */
export interface AgentDependencies {
  clock: Clock;
  random: Random;
  log: Log;
  /** the engine that this agent's containers run on, for the instance id that they carry */
  engine(instance: string): Engine;
  database: Database;
  identity: IdentityStore;
  /** the microservices of the machine itself */
  ownMicroservices: Rows<LocalRow>;
  localRegistries: Rows<LocalRegistry>;
  localArtifacts: Readonly<Record<ArtifactKind, Rows<LocalArtifact>>>;
  localRuntimeClasses: Rows<LocalRuntimeClass>;
  machine: Machine;
  /** how requests to the controller are sent; absent: by HTTP */
  transport?: Transport;
  policy: Policy;
  /** never bound into a container */
  protectedPaths: readonly string[];
  /** the paths of this machine */
  places: PathFacts;
  /** makes the directories that a container binds */
  prepareMounts: MachineAccess['prepareMounts'];
  /** the mounts of this machine */
  mountsInUse(): readonly MountInUse[];
  /** where what the agent writes for containers lies */
  mountedFiles: MountedFiles;
  /** what keeps the models and knowledge of this machine */
  artifacts(deps: Omit<ArtifactsDependencies, 'store' | 'projections'>): ArtifactsPart;
  /** tokens of the local API that were revoked */
  revocations: Rows<RevocationList>;
  /** PEM by which containers know the local API; undefined: it has no port */
  apiAuthority(): string | undefined;
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
  /** opens the tunnel of this machine */
  ssh: SshClient;
  /** where releases of the agent are kept on this machine, and whose signatures count; absent: it is no installed agent */
  updates?: { program: Program; keys: readonly KeyObject[] };
  /** The agent has another instance id now. */
  instanceChanged(instance: string): void;
  /** PEM of a further authority for the controller's certificate, as it is now; absent: there is none */
  controllerCa?: () => string | undefined;
  /** what a device of this machine sends, until the signal fires */
  readDevice: PositionDependencies['readDevice'];
  /** the answer of an address that is asked for the position of this machine */
  lookUp: PositionDependencies['lookUp'];
  /** fetches the authority that a join string names */
  fetchAuthority(controllerUrl: string, digest: string): Promise<string>;
}
