import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import { type Binder, bindsOf, type PathCheck } from '../../domain/binds.ts';
import { containerSpec, isEdgeRouter, isHostName } from '../../domain/container-spec.ts';
import { containerDigest } from '../../domain/digest.ts';
import { refusalByPolicy } from '../../domain/policy.ts';
import { type BareStep, type BareStepOf, type Step, type StepOf, serialKey } from '../../domain/step.ts';
import { pullTarget } from '../../domain/target.ts';
import type { Bind, Container } from '../../engine-port/container.ts';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import { EngineError } from '../../engine-port/error.ts';
import type { PlanInput } from './context.ts';

/**
 * Gives steps everything that their executors need: where an image is pulled from, what the machine's policy says, the
 * container to make, and the paths that have to be looked at when the step is carried out. Pure.
 */
export function completeSteps(steps: readonly BareStep[], input: PlanInput): Step[] {
  const binders = new Binders(input);
  let known: Neighbours | undefined;
  const neighbours = () => {
    known ??= neighboursIn(input);
    return known;
  };
  return steps.map((step): Step => {
    switch (step.kind) {
      case 'image':
        return completeImage(step, input);
      case 'create':
        return completeCreate(step, input, { binders, neighbours: neighbours() });
      case 'start':
        return completeStart(step, input, binders);
      default:
        return step;
    }
  });
}

function completeImage(step: BareStepOf<'image'>, { registries, machine, policy }: PlanInput): StepOf<'image'> {
  const pull = pullTarget(step.reference, registries.get(step.registryId), policy);
  return { ...step, pull, instance: machine.instance };
}

function completeCreate(
  step: BareStepOf<'create'>,
  input: PlanInput,
  { binders, neighbours }: { binders: Binders; neighbours: Neighbours },
): StepOf<'create'> {
  const { view } = step;
  const binds = bindsOf(view);
  const others = binders.othersThan(step.uuid);
  binders.add(step);
  return {
    ...step,
    refusal: refusalOf(view, input),
    paths: pathCheck(binds, binds, others, true),
    ...specOf(step, input, neighbours),
  };
}

/** Where a path leads may have changed since the container was made, and so may the policy: both are asked again. */
function completeStart(step: BareStepOf<'start'>, input: PlanInput, binders: Binders): StepOf<'start'> {
  const container = input.snapshot.containers.find(({ id }) => id === step.containerId);
  const view = container && viewOf(container, input);
  const binds = container ? ownBinds(container, input) : [];
  return {
    ...step,
    refusal: view && refusalOf(view, input),
    paths: pathCheck(view ? bindsOf(view) : [], binds, binders.othersThan(step.uuid), false),
  };
}

/** What a new container finds on this machine; looked up once, however many containers are made. */
interface Neighbours {
  hasEdgeRouter: boolean;
  /** `application.microservice`, whose names the engine resolves */
  names: ReadonlySet<string>;
}

const neighboursIn = ({ views, records }: PlanInput): Neighbours => ({
  hasEdgeRouter: [...views.values()].some(isEdgeRouter),
  names: new Set([...records.values()].map(({ application, name }) => `${application}.${name}`)),
});

function specOf(
  step: BareStepOf<'create'>,
  input: PlanInput,
  { hasEdgeRouter, names }: Neighbours,
): Pick<StepOf<'create'>, 'spec' | 'unresolved'> {
  const { imageId, registryId } = step.view;
  try {
    const spec = containerSpec(step, { ...input.machine, hasEdgeRouter });
    const image = pullTarget(imageId, input.registries.get(registryId)).reference;
    return { spec: { ...spec, image }, unresolved: unresolvedHosts(spec, names) };
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    return { spec: { invalid: error.message }, unresolved: [] };
  }
}

/** Names of other machines among the extra hosts; names of microservices of this machine are left to the engine. */
function unresolvedHosts({ extraHosts }: ContainerSpec, names: ReadonlySet<string>): string[] {
  return extraHosts.map(({ address }) => address).filter((address) => isHostName(address) && !names.has(address));
}

/** Why the policy of this machine does not allow a view, apart from the paths that it binds. */
export function refusalOf(
  view: MicroserviceView,
  { policy, registries }: Pick<PlanInput, 'policy' | 'registries'>,
): string | undefined {
  return refusalByPolicy(view, pullTarget(view.imageId, registries.get(view.registryId)).reference, policy);
}

/** The view that a container was made from, as far as it is known. */
export function viewOf(
  { uuid, digest }: Container,
  { views, records }: Pick<PlanInput, 'views' | 'records'>,
): MicroserviceView | undefined {
  const known = [views.get(uuid), records.get(uuid)?.lastGood];
  return known.find((view) => view !== undefined && containerDigest(view) === digest);
}

function pathCheck(
  asked: readonly Bind[],
  own: readonly Bind[],
  others: readonly Binder[],
  isNew: boolean,
): PathCheck | undefined {
  return asked.length + own.length > 0 ? { asked, own, others, isNew } : undefined;
}

/** What a container binds of the machine, apart from volumes of this agent. */
function ownBinds({ binds = [] }: Container, { machine }: PlanInput): Bind[] {
  return binds.filter(({ source }) => !source.startsWith(`${machine.volumesDirectory}/`));
}

/** What containers bind: those that exist, those that are being made, and those of this plan that are made before. */
class Binders {
  readonly #binders: (Binder & { uuid: string })[];
  readonly #underWay: ReadonlySet<string>;

  constructor(input: PlanInput) {
    this.#binders = input.snapshot.containers.map((container) => ({
      uuid: container.uuid,
      name: `${container.application}.${container.microservice}`,
      binds: ownBinds(container, input),
    }));
    this.#underWay = new Set(input.underWay.map(serialKey));
    for (const step of input.underWay) if (step.kind === 'create') this.#push(step);
  }

  othersThan(uuid: string): Binder[] {
    return this.#binders.filter((binder) => binder.uuid !== uuid && binder.binds.length > 0);
  }

  /** A step of the plan waits while another step of its microservice is carried out. */
  add(step: BareStepOf<'create'>): void {
    if (!this.#underWay.has(serialKey(step))) this.#push(step);
  }

  #push({ uuid, view }: BareStepOf<'create'>): void {
    this.#binders.push({ uuid, name: `${view.application}.${view.name}`, binds: bindsOf(view) });
  }
}
