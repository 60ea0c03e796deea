import type { PortMapping } from '../../../src/api/container/index.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { ContainerSpec } from '../engine-port/container-spec.ts';
import type { PathCheck } from './binds.ts';
import type { PullTarget } from './target.ts';

/**
 * The vocabulary of the planner. Everything here is data; nothing here knows an engine.
 *
 * entry      the desired state of one microservice
 * container  what the engine shows of one container of this agent
 * record     what the agent knows of one microservice from observation to observation: saved, except for `live`
 * target     what a container must have to serve an entry: digest, image, registry, rebuild count, network
 * step       one thing to do; after each the agent reads the engine and plans again
 */

/** Every reason to make a container. */
export const CREATE_REASONS = {
  New: 'there was none',
  SpecChanged: 'the desired view changed',
  ImageChanged: 'the image behind the reference changed',
  RegistryChanged: 'the image comes from another registry',
  RebuildRequested: 'a rebuild was requested',
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
/** Every reason to resume a container. */
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
 * How an image is looked up: `ifMissing` pulls only a missing image; `fresh` always pulls; `preferFresh` pulls and uses a
 * present image when that fails; `never` does not pull.
 */
export type ImagePolicy = 'ifMissing' | 'fresh' | 'preferFresh' | 'never';

/** What all steps of one microservice have. */
interface Base<K extends string> {
  kind: K;
  uuid: string;
  /** what the step serves; failures are counted for a target */
  target: string;
}

interface ImageStep extends Base<'image'> {
  /** as the view names the image */
  reference: string;
  registryId: number;
  platform: string;
  rebuildCount: number;
  policy: ImagePolicy;
  pull: PullTarget;
  /** the agent's instance id, by which its names in the engine are known */
  instance: string;
}

/** A pull that the local API was asked for, by a microservice of this uuid, or by the admin where it is empty. */
export type PullByHand = Pick<ImageStep, 'reference' | 'registryId' | 'platform' | 'pull'> & { by: string };

interface CreateStep extends Base<'create'> {
  view: MicroserviceView;
  digest: string;
  imageId: string;
  rebuildCount: number;
  generation: number;
  name: string;
  reason: keyof typeof CREATE_REASONS;
  /** the container to make, or why none can be made of the view */
  spec: ContainerSpec | { invalid: string };
  /** names among the addresses of its extra hosts that need an address of this machine's resolver */
  unresolved: readonly string[];
  /** why the machine's policy does not allow it */
  refusal?: string;
  paths?: PathCheck;
}

interface StartStep extends Base<'start'> {
  containerId: string;
  /** an older container that runs on when this one cannot start */
  protects: boolean;
  /** that it will publish */
  ports?: readonly PortMapping[];
  reason: keyof typeof START_REASONS;
  /** why the machine's policy does not allow it */
  refusal?: string;
  paths?: PathCheck;
}

interface StopStep extends Base<'stop'> {
  containerId: string;
  /** that its successor needs: it is not stopped while another program of the machine has one of them */
  ports?: readonly PortMapping[];
  reason: keyof typeof STOP_REASONS;
}

interface ResumeStep extends Base<'resume'> {
  containerId: string;
  reason: keyof typeof RESUME_REASONS;
}

interface RenameStep extends Base<'rename'> {
  containerId: string;
  name: string;
}

interface RemoveStep extends Base<'remove'> {
  containerId: string;
  reason: keyof typeof REMOVE_REASONS;
}

/** One thing to do, with everything that its executor needs. */
export type Step =
  | { kind: 'network' }
  | ImageStep
  | CreateStep
  | StartStep
  | StopStep
  | ResumeStep
  | RenameStep
  | RemoveStep;

export type StepOf<K extends Step['kind']> = Extract<Step, { kind: K }>;

type Completed = 'pull' | 'instance' | 'spec' | 'unresolved' | 'refusal' | 'paths';

/** A step as the rules decide on it, before it is completed with what its executor needs. */
export type BareStepOf<K extends Step['kind']> = Omit<StepOf<K>, Completed>;
export type BareStep = { [K in Step['kind']]: BareStepOf<K> }[Step['kind']];

/** Why nothing is done for a microservice right now. */
export interface Wait {
  uuid: string;
  why: 'CrashBackoff' | 'RetryBackoff' | 'Order' | 'Port' | 'Artifacts' | 'ArtifactFailed';
  until: number;
  /** for people, where there is more to say */
  message?: string;
}

export interface Plan {
  steps: Step[];
  waits: Wait[];
}

/**
 * Steps with one serial key are carried out one after another. A pull has its own key, so that it can run during another
 * step of its microservice.
 */
export function serialKey(step: { kind: Step['kind']; uuid?: string }): string {
  if (step.kind === 'network') return 'network';
  return step.kind === 'image' ? `${step.uuid}/image` : (step.uuid ?? '');
}
