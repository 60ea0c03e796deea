import { BUILT_IN_REGISTRIES } from '../../../src/api/names.ts';
import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { ControllerRegistration, MicroserviceStatus, MicroserviceView } from '../../../src/wire/agent.ts';
import { AgentError } from '../domain/agent-error.ts';
import type { Part } from '../domain/part.ts';
import { errorText } from '../machine/log.ts';
import { CONTROL_PLANE_NAME, type ManifestControlPlane } from './control-plane-manifest.ts';
import type { Deployment } from './own-microservices.ts';
import type { LocalRow } from './row.ts';

/** A registration, and the end of a removal, are tried so often, ms. */
const TRY_EVERY = 30_000;

export interface MachineControlPlaneDependencies {
  clock: Clock;
  log: Log;
  own: {
    readonly rows: ReadonlyMap<string, LocalRow>;
    /** its uuid where its row is lost or damaged */
    readonly rowlessControlPlane: string | undefined;
    deploy(deployment: Deployment): { row: LocalRow; isOther: boolean };
    change(uuid: string, consequence: string, change: (row: LocalRow) => LocalRow): void;
    remove(uuid: string): void;
    forget(uuid: string): void;
  };
  observed: { readonly hasLooked: boolean; readonly present: readonly string[] };
  volumes: { destroyOfControlPlane(uuid: string): Promise<void> };
  /** undefined while the supervision has not looked at it */
  status(uuid: string): MicroserviceStatus | undefined;
  /** the uuid of this node; undefined while the machine has no controller */
  node(): string | undefined;
  /** id of the architecture of this machine */
  archId: number;
  /** Registers at the controller of this machine. Throws when the controller refuses, or does not answer. */
  register(body: ControllerRegistration, signal: AbortSignal): Promise<string>;
}

/**
 * The control plane that runs on this machine: at most one, a microservice of the machine with rules of its own.
 *
 * Guarantees:
 * - an apply that fails, or that the agent ends in, leaves what ran before it, unless there was nothing;
 * - its volumes are destroyed with it and by nothing else, once no container of it is left.
 */
export class MachineControlPlane implements Part<never> {
  readonly #deps: MachineControlPlaneDependencies;
  #isRemoving = false;
  /** how an apply has ended that could not be saved yet */
  #unsaved: 'succeed' | 'fail' | undefined;
  #problem = '';
  #transition: { state: string; at: number } | undefined;

  constructor(deps: MachineControlPlaneDependencies) {
    this.#deps = deps;
  }

  get row(): LocalRow | undefined {
    return [...this.#deps.own.rows.values()].find(({ origin }) => origin === 'controlplane');
  }

  get ownProblems(): string[] {
    return this.#problem ? [`control plane: ${this.#problem}`] : [];
  }

  /** What runs again where the apply that is under way fails. */
  get former(): MicroserviceView[] {
    const { former } = this.row?.controlPlane ?? NAMELESS;
    return former ? [former.view] : [];
  }

  /** The row. Throws NOT_FOUND where there is none. */
  get(): LocalRow {
    const { row } = this;
    if (row) return row;
    const lost = this.#deps.own.rowlessControlPlane;
    if (lost === undefined) throw new AgentError('NOT_FOUND', 'no control plane was deployed on this machine');
    throw new AgentError(
      'NOT_FOUND',
      `the file of the control plane of this machine (${lost}) is lost or damaged, and what there is of it stays as it is: deploy its manifest again (skerry-agent deploy -f), which leaves its data`,
    );
  }

  /** Unix s of the last change of its state that this process has seen, or of its row. */
  get lastTransitionAt(): number {
    const { state, at } = this.#transition ?? {};
    const row = this.get();
    const seen = state !== undefined ? at : undefined;
    return Math.floor((seen ?? Date.parse(row.updatedAt)) / 1000);
  }

  /** Deploys it, or changes it; durable when this returns. Throws AgentError for another name than it has. */
  deploy(
    manifest: ManifestControlPlane,
    form: { manifest: string; sourceName?: string | undefined },
  ): { row: LocalRow; mode: 'create' | 'patch' } {
    const before = this.row;
    const { name, namespace, view } = manifest;
    const known = before?.controlPlane;
    if (known && (known.name !== name || known.namespace !== namespace))
      throw new AgentError(
        'CONFLICT',
        `metadata: this machine has the control plane ${known.namespace}/${known.name}, whose name stays: remove it first (skerry-agent controlplane delete), with its data, or deploy it under its name`,
      );
    const former = known?.former ?? formerOf(before);
    const { row } = this.#deps.own.deploy({
      ...{ name: CONTROL_PLANE_NAME, view: (uuid: string) => view(uuid), ...form },
      controlPlane: { name, namespace, isApplying: true, ...(former && { former }) },
    });
    this.#unsaved = undefined;
    return { row, mode: before ? 'patch' : 'create' };
  }

  /** An apply has succeeded. */
  succeed(): void {
    const row = this.get();
    this.#unsaved = 'succeed';
    this.#change(row, 'the agent goes on trying to save that it is ready', ({ controlPlane, ...rest }) => {
      const { former, isApplying, ...kept } = controlPlane ?? row.controlPlane ?? NAMELESS;
      return { ...rest, controlPlane: kept };
    });
    this.#unsaved = undefined;
  }

  /** An apply has failed: what was there before it counts again. Returns whether something was. */
  fail(): boolean {
    const row = this.get();
    const { former } = row.controlPlane ?? NAMELESS;
    this.#unsaved = 'fail';
    this.#change(row, 'the agent goes on trying to bring back what ran', (failed) => {
      if (!former) return { ...failed, controlPlane: { ...nameOf(failed), isApplying: false } };
      const { view, manifest, name, namespace, desiredState = failed.desiredState } = former;
      const generation = failed.generation + 1;
      return { ...failed, view, manifest, desiredState, generation, controlPlane: { name, namespace } };
    });
    this.#unsaved = undefined;
    return former !== undefined;
  }

  /** Has its container made again from its image, which is pulled before where it comes from a registry. */
  recreate(): void {
    const row = this.get();
    const { view } = row;
    if (!view) throw new AgentError('CONFLICT', 'its manifest is not known: deploy it again');
    this.#change(row, 'nothing was changed', (same) => ({
      ...same,
      view: { ...view, rebuild: true, rebuildCount: view.rebuildCount + 1 },
    }));
  }

  /** Whether `pull` can fetch anything: with the cache of this machine, nothing is pulled. */
  get isPulled(): boolean {
    return this.get().view?.registryId !== BUILT_IN_REGISTRIES.local.id;
  }

  /** Ends it for good, with its data. Throws AgentError where that cannot be saved, or where it manages this machine. */
  remove(): void {
    const { uuid } = this.get();
    this.requireUnprovisioned('delete');
    this.#deps.own.remove(uuid);
  }

  /** Throws FORBIDDEN for what would end the control plane that may manage this machine. */
  requireUnprovisioned(what: string): void {
    if (this.#deps.node() === undefined) return;
    throw new AgentError(
      'FORBIDDEN',
      `${what}: this machine is a node, perhaps of this control plane: deprovision it first (skerry-agent deprovision --scope local)`,
    );
  }

  /** Follows its state, and finishes an apply and a removal. */
  observed(): void {
    const { row } = this;
    if (!row) return;
    const state = this.#deps.status(row.uuid)?.status ?? '';
    if (state !== this.#transition?.state)
      this.#transition = { state, at: this.#transition ? this.#deps.clock.wall() : Date.parse(row.updatedAt) };
    this.#finishApply();
    void this.#finishRemoval();
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    while (!signal.aborted) {
      this.#finishApply();
      await this.#finishRemoval();
      await this.#register(signal);
      await sleep(TRY_EVERY, signal, clock);
    }
  }

  /**
   * Saves the end of an apply that could not be saved. What became ready after its apply had failed counts as an apply that
   * succeeded: a later apply brings it back when it fails.
   */
  #finishApply(): void {
    const { row } = this;
    if (!row || row.desiredState === 'deleted') return;
    const end = this.#unsaved ?? (isReadyLate(row, this.#deps.status(row.uuid)) ? 'succeed' : undefined);
    if (!end) return;
    try {
      this[end]();
      this.#note('');
    } catch (error) {
      this.#note(errorText(error));
    }
  }

  async #finishRemoval(): Promise<void> {
    const { observed, own, volumes } = this.#deps;
    const { row } = this;
    if (row?.desiredState !== 'deleted' || this.#isRemoving) return;
    if (!observed.hasLooked || observed.present.includes(row.uuid)) return;
    this.#isRemoving = true;
    try {
      await volumes.destroyOfControlPlane(row.uuid);
      own.forget(row.uuid);
      this.#note('');
    } catch (error) {
      this.#note(`its volumes are not removed yet: ${errorText(error)}`);
    } finally {
      this.#isRemoving = false;
    }
  }

  /** Tells its controller that it runs here, once for each node that this machine becomes. */
  async #register(signal: AbortSignal): Promise<void> {
    const { row } = this;
    const node = this.#deps.node();
    if (!row?.view || !node || !isToRegister(row, node, this.#deps.status(row.uuid))) return;
    const { uuid } = row;
    const images = [{ containerImage: row.view.imageId, archId: this.#deps.archId }];
    // Registries of the machine are not registries of a controller, so it is said to be here already.
    const body = { uuid, name: CONTROL_PLANE_NAME, images, registryId: BUILT_IN_REGISTRIES.local.id };
    try {
      const registered = await this.#deps.register(body, signal);
      if (registered !== uuid) throw new Error(`the controller registered ${registered}`);
      this.#change(row, 'it is registered again', (same) => ({
        ...same,
        controlPlane: { ...(same.controlPlane ?? NAMELESS), registeredAs: node },
      }));
      this.#deps.log.info({ uuid }, 'The control plane is registered');
      this.#note('');
    } catch (error) {
      if (!signal.aborted) this.#note(`it is not registered at its controller yet: ${errorText(error)}`);
    }
  }

  #note(problem: string): void {
    if (problem !== '' && problem !== this.#problem) this.#deps.log.warn({ error: problem }, 'Control plane');
    this.#problem = problem;
  }

  #change(row: LocalRow, consequence: string, change: (row: LocalRow) => LocalRow): void {
    this.#deps.own.change(row.uuid, consequence, change);
  }
}

/** Of a row that was lost and deleted. */
const NAMELESS: NonNullable<LocalRow['controlPlane']> = { name: '', namespace: '' };

const nameOf = ({ controlPlane: { name, namespace } = NAMELESS }: LocalRow) => ({ name, namespace });

function formerOf(row: LocalRow | undefined): NonNullable<LocalRow['controlPlane']>['former'] {
  const { view, manifest } = row ?? {};
  if (!row || !view || manifest === undefined || row.controlPlane?.isApplying === false) return undefined;
  return {
    view,
    manifest,
    ...nameOf(row),
    ...(row.desiredState === 'stopped' && { desiredState: 'stopped' as const }),
  };
}

const isReadyLate = (row: LocalRow, status: MicroserviceStatus | undefined): boolean =>
  row.desiredState === 'running' &&
  row.controlPlane?.isApplying === false &&
  status?.status === 'RUNNING' &&
  status.revision === row.view?.revision &&
  status.healthStatus?.toLowerCase() === 'healthy';

const isToRegister = (row: LocalRow, node: string, status: MicroserviceStatus | undefined): boolean =>
  row.desiredState === 'running' &&
  !row.controlPlane?.isApplying &&
  row.controlPlane?.registeredAs !== node &&
  status?.status === 'RUNNING';
