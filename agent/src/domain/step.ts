import type { PortMapping } from '../../../src/api/container/index.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { Bind } from './binds.ts';

/**
 * The vocabulary of the planner. Everything here is data; nothing here knows an engine.
 *
 * entry      what the controller wants of one microservice
 * container  what the engine shows of one container of ours
 * memory     what the agent remembers of one microservice: saved, except for `live`
 * target     what a container must look like to serve an entry: digest, image, rebuild order, network
 * step       one thing to do; after each the planner looks again
 */

/** A microservice that is to run. */
export interface RunEntry {
  kind: 'run';
  uuid: string;
  view: MicroserviceView;
  /** container digest of the view */
  digest: string;
}

/** A microservice that may not be changed now: keep what runs, restart it when it dies, start nothing new. */
export interface HoldEntry {
  kind: 'hold';
  uuid: string;
  reason: string;
  message: string;
  /** what runs is stopped, and not started again */
  stop?: boolean;
}

export type Entry = RunEntry | HoldEntry;

/** One container of this agent, as the engine shows it. Times are Unix ms; 0 means never. */
export interface Container {
  id: string;
  name: string;
  uuid: string;
  application: string;
  microservice: string;
  digest: string;
  revision: string;
  rebuildOrder: number;
  /** grows with each container made for the microservice */
  generation: number;
  /** engine's id of the image it was made from */
  imageId: string;
  state: 'created' | 'running' | 'exited' | 'dead';
  /** it is there, and somebody on the machine has frozen it */
  paused?: boolean;
  startedAt: number;
  finishedAt: number;
  exitCode: number;
  oomKilled: boolean;
  error: string;
  health?: 'starting' | 'healthy' | 'unhealthy';
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
  /** what of the machine it binds */
  binds?: readonly Bind[];
}

/** What the engine shows. */
export interface Current {
  containers: readonly Container[];
  /** id of the network that our containers share, once it exists */
  networkId?: string;
}

/** Why a container was found stopped. Only Crash counts and waits. */
export type ExitCause = 'Stopped' | 'Crash' | 'Engine' | 'Reboot' | 'Unwatched';

/** What is remembered of one microservice. Plain JSON, apart from `live`. */
export interface Remembered {
  uuid: string;
  application: string;
  name: string;
  isSystem: boolean;
  schedule: number;
  /** the image that containers are made from now, and for which rebuild order it was looked up */
  image?: { reference: string; id: string; rebuildOrder: number };
  /** the view of the last container that ran as it should */
  lastGood?: MicroserviceView;
  generation: number;
  /** the container that was seen last: it may be there still when the engine cannot be looked at */
  containerId?: string;
  /** the last exit seen, by container and time */
  exit?: { key: string; cause: ExitCause };
  /** crashes since the last ten steady minutes */
  crash?: { target: string; count: number; at: number; notBefore: number };
  /** the last attempt that failed and has not succeeded since */
  failure?: Failure;
  restartCount: number;
  /** current error; cleared by 30 s of running */
  error?: { message: string; at: number };
  lastError?: string;
  lastErrorAt?: number;
  /** stopped on the machine; ends with a local start, a rebuild, or a new revision */
  localHold?: { revision: string; rebuildOrder: number };
  /** removed because it is no longer wanted; kept until the controller has heard STOPPED */
  gone?: boolean;
  /** not saved */
  live: Live;
}

/** What is known only while the process lives. */
export interface Live {
  /** containers that we stop: their exit is no crash */
  stopping?: string;
  /** since when it is wanted and not up */
  downSince?: number;
  /** since when it is no longer wanted */
  unwantedSince?: number;
  /** since when the container runs, in steady time */
  running?: { key: string; since: number };
  /** somebody on the machine has ended it, and may not be done: it is left alone until then */
  leftAloneUntil?: number;
  /** local restart: the run of the container that is to end */
  restart?: { key: string };
  /** the next start was asked for on the machine */
  startedLocally?: boolean;
}

export interface Failure {
  step: Step['kind'];
  target: string;
  /** the container that the step was about */
  containerId?: string;
  count: number;
  at: number;
  notBefore: number;
  /** machine-readable, one of FAILURE_REASONS or the engine's own code */
  reason: string;
  message: string;
}

export type Memory = ReadonlyMap<string, Remembered>;

/** Every reason to make a container. */
export const CREATE_REASONS = {
  New: 'there was none',
  SpecChanged: 'the desired view changed',
  ImageChanged: 'the image behind the reference changed',
  RebuildOrdered: 'a rebuild was ordered',
  NetworkChanged: 'it was not attached to the network',
  Vanished: 'the container was removed by someone else',
} as const;
/** Every reason to start a container: the closed list of reasons to restart. */
export const START_REASONS = {
  New: 'it has not run yet',
  Replacement: 'it takes over from an older container',
  Returned: 'its replacement could not be started',
  Crashed: 'its process ended',
  EngineRestarted: 'the container engine was restarted',
  MachineRebooted: 'the machine was restarted',
  FoundStopped: 'it was found stopped',
  StartedLocally: 'a start was ordered on the machine',
} as const;
/** Every reason to stop a container. */
export const STOP_REASONS = {
  Replacing: 'a newer container takes over',
  NoLongerWanted: 'the controller no longer wants it',
  StoppedLocally: 'a stop was ordered on the machine',
  RestartingLocally: 'a restart was ordered on the machine',
  Duplicate: 'two containers of one microservice were running',
  PolicyRefused: 'the machine no longer allows it',
} as const;
/** Every reason to let a container go on that does nothing. */
export const RESUME_REASONS = {
  Paused: 'it was paused on the machine',
} as const;
/** Every reason to remove a container. */
export const REMOVE_REASONS = {
  Replaced: 'a newer container took over',
  NoLongerWanted: 'the controller no longer wants it',
  FailedToStart: 'it could not be started',
  Leftover: 'it serves no purpose any more',
  Dead: 'the engine lost it',
} as const;

/**
 * How an image is looked up: `ifMissing` pulls only what is not there; `fresh` pulls always; `preferFresh` pulls and is
 * content with what is there when that fails; `never` does not pull.
 */
export type ImagePolicy = 'ifMissing' | 'fresh' | 'preferFresh' | 'never';

export type Step =
  | { kind: 'network' }
  | {
      kind: 'image';
      uuid: string;
      target: string;
      reference: string;
      registryId: number;
      platform: string;
      rebuildOrder: number;
      policy: ImagePolicy;
    }
  | {
      kind: 'create';
      uuid: string;
      target: string;
      view: MicroserviceView;
      digest: string;
      imageId: string;
      rebuildOrder: number;
      generation: number;
      name: string;
      reason: keyof typeof CREATE_REASONS;
    }
  | {
      kind: 'start';
      uuid: string;
      target: string;
      containerId: string;
      /** an older container that runs on when this one cannot start */
      protects: boolean;
      /** that it will publish */
      ports?: readonly PortMapping[];
      reason: keyof typeof START_REASONS;
    }
  | {
      kind: 'stop';
      uuid: string;
      target: string;
      containerId: string;
      /** that its successor needs: it is not stopped while somebody else on the machine has one of them */
      ports?: readonly PortMapping[];
      reason: keyof typeof STOP_REASONS;
    }
  | { kind: 'resume'; uuid: string; target: string; containerId: string; reason: keyof typeof RESUME_REASONS }
  | { kind: 'rename'; uuid: string; target: string; containerId: string; name: string }
  | { kind: 'remove'; uuid: string; target: string; containerId: string; reason: keyof typeof REMOVE_REASONS };

/** Why nothing is done for a microservice right now. */
export interface Wait {
  uuid: string;
  why: 'CrashBackoff' | 'RetryBackoff' | 'Order' | 'Port';
  until: number;
  /** for people, where there is more to say */
  message?: string;
}

export interface Plan {
  steps: Step[];
  waits: Wait[];
}

/** Steps with the same lane run one after another; an image is pulled beside the container that it is to replace. */
export function laneOf(step: Step): string {
  if (step.kind === 'network') return 'network';
  return step.kind === 'image' ? `${step.uuid}/image` : step.uuid;
}

/** Names one run of one container. */
export function runKey(container: Pick<Container, 'id' | 'startedAt'>): string {
  return `${container.id.slice(0, 12)}@${container.startedAt}`;
}
