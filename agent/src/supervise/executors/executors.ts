import type { PortMapping } from '../../../../src/api/container/index.ts';
import { pullImage } from '../../content/registries/pull.ts';
import type { PathCheck } from '../../domain/binds.ts';
import { missingDevices } from '../../domain/cdi.ts';
import type { ReachLimits } from '../../domain/reach.ts';
import { isPinned } from '../../domain/reference.ts';
import type { Step, StepOf } from '../../domain/step.ts';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import type { ContainerPort } from '../../engine-port/containers.ts';
import { EngineError, type EngineErrorCode } from '../../engine-port/error.ts';
import type { ImagePort } from '../../engine-port/images.ts';
import type { NetworkPort } from '../../engine-port/networks.ts';
import type { OtherAgentsPort } from '../../engine-port/ownership.ts';
import { portName } from '../plan/ports.ts';
import type { StepResult } from '../plan/step-result.ts';
import { resolveHosts } from './extra-hosts.ts';
import type { PullSlots } from './pull-slots.ts';

/** A container gets so long, s, to end by itself. */
export const STOP_GRACE_SECONDS = 10;

type StepEngine = ContainerPort & ImagePort & NetworkPort & OtherAgentsPort & { readonly url: string };

/** What executors work with. What is to be done stands in the step. */
export interface ExecutorDependencies {
  engine: StepEngine;
  machine: MachineAccess;
  /** turns to pull; looking up what is there needs none */
  slots: PullSlots;
  /** A pull begins. The returned function is called when it has ended: `ok`, `given-up`, or the reason of its failure. */
  pullBegins(step: StepOf<'image'>): (outcome: string) => void;
  /** This agent pulled an image; one that is new may be removed by it one day. */
  pulled(step: StepOf<'image'>, imageId: string, isNew: boolean): void;
  /** where the engine has its CDI specifications; absent: at the usual places */
  cdiDirectories?: readonly string[];
  /** whether a microservice may run an image that is here without pulling it (image-access.ts) */
  mayUse(step: StepOf<'image'>, imageId: string): boolean;
}

/**
 * What executors ask the machine at the moment of a step. These are no facts of the plan, because other programs of the
 * machine change them between the look that the plan was made from and the step.
 */
export interface MachineAccess {
  /** why paths may not be bound, by where they lead now */
  pathRefusal(check: PathCheck): string | undefined;
  /** the first source that a process does not have mounted as it was checked */
  exchangedPath(sources: readonly string[], pid: number): string | undefined;
  /** Makes the directories that a container binds; returns its mounts without links. Throws EngineError. */
  prepareMounts(spec: ContainerSpec, runAsGroup: string | undefined): ContainerSpec['mounts'];
  /** Makes a container, and keeps volumes from being destroyed until the engine lists it. */
  whileVolumesStay<T>(make: () => Promise<T>): Promise<T>;
  /** whether some program of this machine has a port; absent where that cannot be known */
  portTaken?: (port: PortMapping) => Promise<boolean>;
  /** the CDI devices that specifications in these directories name now */
  cdiDevices(directories?: readonly string[]): readonly string[];
  /** the address of another machine */
  lookup(name: string): Promise<string>;
  /** what bounds where images come from */
  reach(): ReachLimits;
}

/** How a step ended, or why it has no result: the engine does not answer, or the step was aborted. */
export type Ended = StepResult | 'unavailable' | 'aborted';

type Executors = {
  [K in Step['kind']]: (
    step: StepOf<K>,
    deps: ExecutorDependencies,
    onProgress: (percentage: number) => void,
    signal: AbortSignal,
  ) => Promise<string | undefined>;
};

/** One executor per kind of step, which returns the image's id where there is one; a kind without one does not compile. */
const EXECUTORS: Executors = {
  network: async (_step, { engine }, _onProgress, signal) => {
    await engine.ensureNetwork(signal);
    return undefined;
  },
  image: prepareImage,
  create: async (step, { engine, machine, cdiDirectories }, _onProgress, signal) => {
    permit(step, machine);
    if ('invalid' in step.spec) throw new EngineError('Invalid', step.spec.invalid);
    const missing = missingDevices(step.spec.cdiDevices, machine.cdiDevices(cdiDirectories));
    if (missing) throw new EngineError('Invalid', missing);
    const extraHosts = await resolveHosts(step.spec.extraHosts, new Set(step.unresolved), machine.lookup);
    const { spec, view } = step;
    return machine.whileVolumesStay(async () => {
      const mounts = machine.prepareMounts(spec, view.runAsGroup);
      return (await engine.create({ ...spec, extraHosts, mounts }, signal)).imageId;
    });
  },
  start: async (step, { engine, machine }, _onProgress, signal) => {
    permit(step, machine);
    await engine.start(step.containerId, signal).catch((error: unknown) => withHolder(error, step, engine, signal));
    await confirm(step, engine, machine, signal);
    return undefined;
  },
  stop: async (step, { engine, machine }, _onProgress, signal) => {
    for (const port of step.ports ?? [])
      if (await machine.portTaken?.(port))
        throw new EngineError('PortTaken', `port ${portName(port)} of this machine is taken by another program`);
    return nothing(engine.stop(step.containerId, STOP_GRACE_SECONDS, signal));
  },
  resume: (step, { engine }, _onProgress, signal) => nothing(engine.resume(step.containerId, signal)),
  rename: (step, { engine }, _onProgress, signal) => nothing(engine.rename(step.containerId, step.name, signal)),
  remove: (step, { engine }, _onProgress, signal) => nothing(engine.remove(step.containerId, signal)),
};

/** Throws the error of a start, with the container that has the port where another agent made it: engines name only the port. */
async function withHolder(
  error: unknown,
  { ports = [] }: StepOf<'start'>,
  engine: StepEngine,
  signal: AbortSignal,
): Promise<never> {
  if (!(error instanceof EngineError && error.code === 'PortTaken')) throw error;
  const others = await engine.containersOfOtherAgents(signal).catch(() => []);
  const wanted = new Set(ports.map(portName));
  for (const { name, running, ports: held = [] } of others) {
    const port = running ? held.map(portName).find((each) => wanted.has(each)) : undefined;
    if (port)
      throw new EngineError(
        'PortTaken',
        `port ${port} of this machine is held by the container ${name} of another agent; where that agent is no more, skerry-agent orphans --remove ${name} removes it`,
      );
  }
  throw error;
}

async function nothing(done: Promise<void>): Promise<undefined> {
  await done;
  return undefined;
}

/** Throws for what the machine does not allow: by its policy, or by where paths lead now. */
function permit({ refusal, paths }: StepOf<'create' | 'start'>, machine: MachineAccess): void {
  const refused = refusal ?? (paths && machine.pathRefusal(paths));
  if (refused) throw new EngineError('PolicyRefused', refused);
}

/** What was checked is what is mounted, or the container ends at once. */
async function confirm(
  { containerId, paths }: StepOf<'start'>,
  engine: StepEngine,
  machine: MachineAccess,
  signal: AbortSignal,
): Promise<void> {
  if (!paths || paths.own.length === 0) return;
  const sources = paths.own.map((bind) => bind.source);
  const source = machine.exchangedPath(sources, await engine.processOf(containerId, signal));
  if (source === undefined) return;
  await engine.stop(containerId, 0, signal);
  throw new EngineError('PolicyRefused', `${source} was exchanged for something else while it was mounted`);
}

/** Carries out one step. Never throws; an engine that does not answer is no fault of a microservice. */
export async function execute(
  step: Step,
  deps: ExecutorDependencies,
  onProgress: (percentage: number) => void,
  signal: AbortSignal,
): Promise<Ended> {
  try {
    const executor = EXECUTORS[step.kind] as Executors[never] as (
      ...parameters: [Step, ExecutorDependencies, (percentage: number) => void, AbortSignal]
    ) => Promise<string | undefined>;
    return { ok: true, imageId: await executor(step, deps, onProgress, signal) };
  } catch (error) {
    if (signal.aborted) return 'aborted';
    if (error instanceof EngineError && error.code === 'Unavailable') return 'unavailable';
    // A container that should be stopped or removed no longer exists, which is a success.
    if (error instanceof EngineError && error.code === 'NotFound' && GONE_IS_FINE.has(step.kind)) return { ok: true };
    const code = error instanceof EngineError ? error.code : 'Failed';
    const message = error instanceof Error ? error.message : String(error);
    return { ok: false, code, reason: reasonOf(step.kind, code), message };
  }
}

const GONE_IS_FINE: ReadonlySet<Step['kind']> = new Set(['stop', 'resume', 'remove', 'rename']);

const STEP_REASONS = {
  network: 'NetworkFailed',
  image: 'ImagePullFailed',
  create: 'CreateFailed',
  start: 'StartFailed',
  stop: 'StopFailed',
  resume: 'ResumeFailed',
  rename: 'RenameFailed',
  remove: 'RemoveFailed',
} as const satisfies Record<Step['kind'], string>;

/** Codes that are more specific than the step that failed. */
const TELLING: ReadonlySet<EngineErrorCode> = new Set([
  'ImageNotFound',
  'ImageUnauthorized',
  'ImageMissing',
  'NameTaken',
  'PortTaken',
  'DiskFull',
  'LimitRefused',
  'PolicyRefused',
]);

function reasonOf(kind: Step['kind'], code: EngineErrorCode): string {
  return TELLING.has(code) ? code : STEP_REASONS[kind];
}

async function prepareImage(
  step: StepOf<'image'>,
  { engine, machine, pulled, mayUse, slots, pullBegins }: ExecutorDependencies,
  onProgress: (percentage: number) => void,
  signal: AbortSignal,
): Promise<string> {
  const { pull: target, policy, platform, instance } = step;
  const { reference } = target;
  const present = await engine.image(reference, signal);
  const usable = present !== undefined && mayUse(step, present);
  if (usable && (policy === 'never' || policy === 'ifMissing' || isPinned(reference))) return present;
  if (policy === 'never' && present)
    throw new EngineError(
      'ImageUnauthorized',
      `image ${reference} was pulled to this machine with the credentials of a registry that this microservice does not name; it can name that registry in place of the local cache`,
    );
  if (policy === 'never')
    throw new EngineError(
      'ImageMissing',
      `image ${reference} is not on this machine, and its registry is the local cache: load the image, or name a registry that has it`,
    );
  try {
    using _turn = await slots.take(reference, signal);
    const ended = pullBegins(step);
    const options = { target, platform, instance, onProgress, reach: machine.reach() };
    const id = await pullImage(engine, options, signal).catch((error: unknown) => {
      ended(signal.aborted ? 'given-up' : error instanceof EngineError ? error.code : 'Failed');
      throw error;
    });
    ended('ok');
    pulled(step, id, id !== present);
    return id;
  } catch (error) {
    const isUnreachable = error instanceof EngineError && error.code === 'ImagePullFailed';
    if (usable && policy === 'preferFresh' && isUnreachable) return present;
    throw error;
  }
}
