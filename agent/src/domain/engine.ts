import type { PortMapping } from '../../../src/api/container/index.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { ContainerFields } from '../../../src/wire/container.ts';
import type { Container } from './container.ts';

/**
 * The interface of a container engine, with one contract test and one adapter per engine. An adapter handles only
 * containers with the agent's own instance id, translates the engine's errors into EngineError, and does not know the
 * desired state.
 */
export interface Engine {
  readonly url: string;
  /** Connects, agrees on an API version, and answers what the engine is. */
  connect(signal?: AbortSignal): Promise<EngineFacts>;
  /** All containers of this agent, running or not. */
  containers(signal?: AbortSignal): Promise<Container[]>;
  /**
   * Names of the containers on this engine that are not of this agent, running or not, without the one that it runs in. They
   * are touched only where the machine's own file says so.
   */
  foreignContainers(signal?: AbortSignal): Promise<string[]>;
  /** Containers of other agents, running or not, without those that have the label only from their image. */
  containersOfOtherAgents(signal?: AbortSignal): Promise<OtherAgentContainer[]>;
  /** Changes the instance whose containers this adapter handles. Connect again afterwards. */
  become(instance: string): void;
  /** The network that this agent's containers share, if it exists. */
  network(signal?: AbortSignal): Promise<EngineNetwork | undefined>;
  /** Makes that network unless it is there. */
  ensureNetwork(signal?: AbortSignal): Promise<EngineNetwork>;
  removeNetwork(signal?: AbortSignal): Promise<void>;
  /** The engine's id of a local image, or undefined. */
  image(reference: string, signal?: AbortSignal): Promise<string | undefined>;
  /** Pulls, and answers the image's id. */
  pull(request: PullRequest, signal?: AbortSignal): Promise<string>;
  /** Takes an image's name away, or the image by its id. One that is not there is no error. */
  removeImage(id: string, signal?: AbortSignal): Promise<void>;
  /**
   * Bytes that the removal of an image frees: of its layers that no other image has, as the engine counts them. 0 for an image that
   * is not there, undefined where the engine does not say.
   */
  imageBytes(id: string, signal?: AbortSignal): Promise<number | undefined>;
  /**
   * Gives a local image a further reference. Under one with a digest, `image` and `create` find it from then on, even
   * where the engine itself knows it by another name.
   */
  tag(id: string, reference: string, signal?: AbortSignal): Promise<void>;
  /** The names of all local images, those by digest among them. */
  imageNames(signal?: AbortSignal): Promise<string[]>;
  create(spec: ContainerSpec, signal?: AbortSignal): Promise<{ id: string; imageId: string }>;
  start(id: string, signal?: AbortSignal): Promise<void>;
  /** A container's first process; 0 when it does not run. */
  processOf(id: string, signal?: AbortSignal): Promise<number>;
  /** SIGTERM, after the grace SIGKILL. A container that does not run is no error. */
  stop(id: string, graceSeconds: number, signal?: AbortSignal): Promise<void>;
  /** Resumes a paused container. One that is not paused is no error. */
  resume(id: string, signal?: AbortSignal): Promise<void>;
  kill(id: string, posixSignal: string, signal?: AbortSignal): Promise<void>;
  rename(id: string, name: string, signal?: AbortSignal): Promise<void>;
  /** Removes a stopped container; anonymous volumes go with it. One that is not there is no error. */
  remove(id: string, signal?: AbortSignal): Promise<void>;
  /**
   * Makes sure that a health check has ended since a time: runs it unless the engine did. Only called for containers with
   * `checkEvery`.
   */
  checkHealth(id: string, since: number, signal?: AbortSignal): Promise<void>;
  /** Lines of a container's log; with `follow` until it ends. Reading slowly stops the reading from the engine. */
  logs(id: string, options: LogOptions, signal?: AbortSignal): AsyncIterable<LogLine>;
  /** Starts a program in a container that runs. The signal counts until it has started. */
  exec(id: string, options: ExecOptions, signal?: AbortSignal): Promise<ExecProcess>;
  /**
   * Ends a program of `exec`, and what it has started, which an earlier process of the agent has left. One that is not there is no
   * error.
   */
  endProgram(program: StartedProgram): Promise<void>;
  /**
   * Events of the agent's containers; after the first one, `connected`, none is missed. Ends or throws when the connection
   * is lost.
   */
  events(signal: AbortSignal): AsyncIterable<EngineEvent>;
}

/** A container that another agent made. */
export interface OtherAgentContainer {
  id: string;
  name: string;
  /** of the agent that made it, and of the node that this one was then */
  instance: string;
  nodeUuid: string;
  application: string;
  microservice: string;
  running: boolean;
  /** the ports of the machine that it has while it runs */
  ports?: readonly Pick<PortMapping, 'external' | 'protocol'>[];
}

/** The engines that are supported; the first is the default. */
export const ENGINE_KINDS = ['docker', 'podman'] as const;
export type EngineKind = (typeof ENGINE_KINDS)[number];

/** What kind of engine it is and what it can do. */
export interface EngineFacts {
  kind: EngineKind;
  version: string;
  apiVersion: string;
  /** names of its runtimes, sorted; only its own one where containers have no choice */
  runtimes: string[];
  /** whether a container can be made for a runtime other than the engine's own */
  choosesRuntime: boolean;
  rootless: boolean;
  selinux: boolean;
  architecture: string;
  /** health checks with an interval of their own while starting */
  startInterval: boolean;
  cdi: boolean;
  /** where it looks for CDI specifications; undefined where it does not say */
  cdiDirectories?: readonly string[];
  /** whether a container can be given names of its own for other containers */
  links: boolean;
  /** names of limits that the engine sets on every container, whether this machine grants them or not */
  defaultLimits: readonly string[];
}

export interface EngineNetwork {
  id: string;
  name: string;
  /** the machine as its containers see it */
  gateway?: string;
  /** what it lacks, for people */
  problem?: string;
}

export interface EngineEvent {
  containerId: string;
  action: string;
}

export interface PullRequest {
  reference: string;
  /** `os/arch[/variant]`, or empty for the machine's own */
  platform: string;
  credentials?: { username: string; password: string; host: string };
  onProgress?: (percentage: number) => void;
}

export interface LogOptions {
  tail: number;
  since?: number;
  until?: number;
  follow?: boolean;
}

export interface LogLine {
  ts: string;
  stream: 'stdout' | 'stderr';
  line: string;
}

/** A program in a container, as the engine names it. */
export interface StartedProgram {
  container: string;
  id: string;
}

export interface ExecOptions {
  command: readonly string[];
  /** with a terminal, whose output is all stdout */
  tty: boolean;
  env?: readonly string[];
  /** Called before it starts. */
  made?(program: StartedProgram): void;
}

/** A program that was started in a container. */
export interface ExecProcess {
  /** What it writes, until it has ended; to be read once. Reading slowly stops the program, as a full pipe does. */
  output(): AsyncIterable<{ stream: LogLine['stream']; data: Uint8Array }>;
  /** Resolves once there is room for more. What is written to a program that has ended is dropped. */
  write(data: Uint8Array): Promise<void>;
  closeStdin(): void;
  /** Sets the size of its terminal. */
  resize(columns: number, rows: number): Promise<void>;
  /** After its output has ended; undefined when the engine does not know it. */
  exitCode(): Promise<number | undefined>;
  /** Ends the program and what it has started: with a hangup, and soon after by force. */
  end(): Promise<void>;
}

/**
 * A container to make. What depends on the machine, or on several fields, stands here in no engine's words; all other
 * container fields are as the view has them.
 */
export interface ContainerSpec {
  name: string;
  image: string;
  imageId: string;
  labels: Record<string, string>;
  env: string[];
  user?: string;
  aliases: string[];
  ports: MicroserviceView['portMappings'];
  mounts: { source: string; target: string; readOnly: boolean; relabel: boolean }[];
  extraHosts: { name: string; address: string }[];
  cdiDevices: string[];
  ulimits: { name: string; soft: number; hard: number }[];
  fields: ContainerFields;
}

/** Errors of an engine, independent of its kind. */
const ENGINE_ERRORS = {
  Unavailable: 'the engine does not answer',
  NotFound: 'there is no such thing',
  Conflict: 'the thing is in another state',
  ImageMissing: 'the image is not there',
  ImageNotFound: 'the registry has no such image',
  ImageUnauthorized: 'the registry refuses the credentials',
  ImagePullFailed: 'the image could not be pulled',
  NameTaken: 'another container has the name',
  PortTaken: 'another process has the port',
  DiskFull: 'the disk is full',
  LimitRefused: 'the engine does not accept a limit',
  Invalid: 'the engine does not accept the settings',
  Failed: 'the engine failed',
  PolicyRefused: 'the machine does not allow it',
} as const;
export type EngineErrorCode = keyof typeof ENGINE_ERRORS;

/** An error of an engine, translated. */
export class EngineError extends Error {
  readonly code: EngineErrorCode;
  constructor(code: EngineErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EngineError';
    this.code = code;
  }
}
