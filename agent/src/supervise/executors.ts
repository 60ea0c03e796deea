import type { PortMapping } from '../../../src/api/container/index.ts';
import { type ContainerSpec, type Engine, EngineError, type EngineErrorCode } from '../domain/engine.ts';
import { isPinned } from '../domain/reference.ts';
import type { Step } from '../domain/step.ts';
import type { PullTarget } from '../domain/target.ts';
import { portName } from '../plan/ports.ts';
import type { StepResult } from '../plan/step-result.ts';
import { pullImage } from '../registries/pull.ts';
import type { PullSlots } from './pull-slots.ts';

/** What the steps are carried out with. */
export interface ExecutorPorts {
  engine: Engine;
  /** the container that a create step asks for; makes the directories it binds */
  specOf(step: Extract<Step, { kind: 'create' }>): Promise<ContainerSpec>;
  /** the agent's instance id */
  instance: string;
  /** throws EngineError PolicyRefused where the machine does not allow what the step is about */
  permit?: (step: Extract<Step, { kind: 'create' | 'start' }>) => void;
  /** throws EngineError PolicyRefused where what was started is not what was permitted */
  confirm?: (step: Extract<Step, { kind: 'start' }>, signal: AbortSignal) => Promise<void>;
  /** what is to be pulled, and how */
  pullOf(step: Extract<Step, { kind: 'image' }>): PullTarget;
  /** an image was pulled by this agent, so this agent may remove it one day */
  pulled(reference: string, imageId: string): void;
  onProgress(uuid: string, percentage: number): void;
  /** a turn to pull; looking up what is there needs none */
  slots: PullSlots;
  /** A pull begins. What is answered is called when it ended: `ok`, `given-up`, or the reason of its failure. */
  pulling?(): (outcome: string) => void;
  stopGraceSeconds: number;
  /** whether some program of this machine has a port; absent where that cannot be known */
  portTaken?: (port: PortMapping) => Promise<boolean>;
}

type Executors = {
  [K in Step['kind']]: (
    step: Extract<Step, { kind: K }>,
    ports: ExecutorPorts,
    signal: AbortSignal,
  ) => Promise<string | undefined>;
};

/** One executor per kind of step, which answers the image's id where there is one; a kind without one does not compile. */
const EXECUTORS: Executors = {
  network: async (_step, { engine }, signal) => {
    await engine.ensureNetwork(signal);
    return undefined;
  },
  image: prepareImage,
  create: async (step, ports, signal) => {
    ports.permit?.(step);
    return (await ports.engine.create(await ports.specOf(step), signal)).imageId;
  },
  // Asked again at each start: where a path leads may have changed since the container was made.
  start: async (step, { engine, permit, confirm }, signal) => {
    permit?.(step);
    await engine.start(step.containerId, signal);
    await confirm?.(step, signal);
    return undefined;
  },
  stop: async (step, { engine, stopGraceSeconds, portTaken }, signal) => {
    for (const port of step.ports ?? [])
      if (await portTaken?.(port))
        throw new EngineError('PortTaken', `port ${portName(port)} of this machine is taken by another program`);
    return nothing(engine.stop(step.containerId, stopGraceSeconds, signal));
  },
  resume: (step, { engine }, signal) => nothing(engine.resume(step.containerId, signal)),
  rename: (step, { engine }, signal) => nothing(engine.rename(step.containerId, step.name, signal)),
  remove: (step, { engine }, signal) => nothing(engine.remove(step.containerId, signal)),
};

async function nothing(done: Promise<void>): Promise<undefined> {
  await done;
  return undefined;
}

/** Carries out one step. Never throws; an engine that does not answer is told apart, since no microservice is to blame. */
export async function execute(
  step: Step,
  ports: ExecutorPorts,
  signal: AbortSignal,
): Promise<StepResult | 'unavailable' | 'aborted'> {
  try {
    const executor = EXECUTORS[step.kind] as (
      step: Step,
      ports: ExecutorPorts,
      signal: AbortSignal,
    ) => Promise<string | undefined>;
    return { ok: true, imageId: await executor(step, ports, signal) };
  } catch (error) {
    if (signal.aborted) return 'aborted';
    if (error instanceof EngineError && error.code === 'Unavailable') return 'unavailable';
    // What is to be stopped or removed is gone: that was the point.
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

/** Codes that tell people more than the step that failed. */
const TELLING: ReadonlySet<EngineErrorCode> = new Set([
  'ImageNotFound',
  'ImageUnauthorized',
  'ImageMissing',
  'NameTaken',
  'PortTaken',
  'DiskFull',
  'PolicyRefused',
]);

function reasonOf(kind: Step['kind'], code: EngineErrorCode): string {
  return TELLING.has(code) ? code : STEP_REASONS[kind];
}

async function prepareImage(
  step: Extract<Step, { kind: 'image' }>,
  { engine, instance, pullOf, pulled, onProgress, slots, pulling }: ExecutorPorts,
  signal: AbortSignal,
): Promise<string> {
  const target = pullOf(step);
  const { reference } = target;
  const present = await engine.image(reference, signal);
  if (present && (step.policy === 'never' || step.policy === 'ifMissing' || isPinned(reference))) return present;
  if (step.policy === 'never')
    throw new EngineError(
      'ImageMissing',
      `image ${reference} is not on this machine, and its registry is the local cache`,
    );
  try {
    using _turn = await slots.take(reference, signal);
    const onPercentage = (percentage: number) => onProgress(step.uuid, percentage);
    const ended = pulling?.();
    const options = { target, platform: step.platform, instance, onProgress: onPercentage };
    const id = await pullImage(engine, options, signal).catch((error: unknown) => {
      ended?.(signal.aborted ? 'given-up' : error instanceof EngineError ? error.code : 'Failed');
      throw error;
    });
    ended?.('ok');
    if (id !== present) pulled(reference, id);
    return id;
  } catch (error) {
    const unreachable = error instanceof EngineError && error.code === 'ImagePullFailed';
    if (present && step.policy === 'preferFresh' && unreachable) return present;
    throw error;
  }
}
