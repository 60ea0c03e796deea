import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { MicroserviceStatus, MicroserviceView } from '../../../src/wire/agent.ts';
import { AgentError } from '../domain/agent-error.ts';
import { loweredDefaults, type SpecContext } from '../domain/container-spec.ts';
import { type Entry, POLICY_REFUSED } from '../domain/entry.ts';
import type { Random } from '../domain/jitter.ts';
import type { Observed } from '../domain/part.ts';
import type { MicroserviceRecord, Records } from '../domain/record.ts';
import { viewsAsMade } from '../domain/sent-microservices.ts';
import { type Plan, type PullByHand, type Step, type StepOf, serialKey } from '../domain/step.ts';
import { type Desired, isUnwanted, NOTHING_KNOWN } from '../domain/wanted.ts';
import type { Container } from '../engine-port/container.ts';
import { can, type Engine } from '../engine-port/engine.ts';
import { EngineError, type EngineErrorCode } from '../engine-port/error.ts';
import type { EngineFacts } from '../engine-port/facts.ts';
import type { EngineNetwork } from '../engine-port/networks.ts';
import type { Database } from '../state/database.ts';
import { mayUseImage, noteImagePull } from '../state/image-access.ts';
import { ChangeNotifier } from './change-notifier.ts';
import { Drain, type Drained } from './drain.ts';
import { EngineSession, type EngineState, type Outage } from './engine-session.ts';
import { type Ended, execute, type MachineAccess } from './executors/executors.ts';
import { NetworkRetry } from './executors/network-retry.ts';
import { createPullSlots } from './executors/pull-slots.ts';
import { PullTracker } from './executors/pull-tracker.ts';
import { StepScheduler } from './executors/step-scheduler.ts';
import { HealthChecks } from './health-checks.ts';
import { LocalActions } from './local-actions.ts';
import { untilNextLook } from './next-look.ts';
import type { PlanInput } from './plan/context.ts';
import { plan } from './plan/plan.ts';
import { nodeStatuses } from './plan/statuses.ts';
import { noteBegin, noteResult, type StepResult } from './plan/step-result.ts';
import { updateRecords } from './plan/update-records.ts';
import { stopRefused } from './policy-stops.ts';
import { RecordKeeper } from './record-keeper.ts';

const SECOND = 1000;

/** The metrics of the supervisor; durations in seconds. */
interface SupervisorMetrics {
  add(name: 'engineLosses' | 'pulls' | 'starts' | 'steps' | 'storeErrors', labels?: Record<string, string>): void;
  observe(name: 'looks' | 'pullSeconds', seconds: number): void;
}

/** The inputs of a plan that change while the agent runs; read once for each plan. */
interface PlanSources extends Pick<PlanInput, 'registries' | 'policy'> {
  /** as they were sent, by microservice */
  views: ReadonlyMap<string, MicroserviceView> | undefined;
  machine: Omit<SpecContext, 'facts'>;
}

export interface SupervisorDependencies {
  engine: Engine;
  database: Database;
  clock: Clock;
  random: Random;
  log: Log;
  metrics: SupervisorMetrics;
  /** names the machine's present boot */
  bootId: string;
  sources(): PlanSources;
  machine: MachineAccess;
  /** Notes a stop by a person, or its end, of the machine's own microservices; returns why that would not survive this process. */
  noteStop(uuid: string, isStopped: boolean): string | undefined;
  /**
   * Looks, right after the engine answers and before anything is read for a plan, whether containers of an earlier
   * installation are this agent's to look after.
   */
  adopt(signal: AbortSignal): Promise<unknown>;
}

/**
 * Keeps the machine's containers in the desired state: reads the engine, updates the records, plans, and carries the plan
 * out.
 *
 * Guarantees: records are saved before the steps that they led to begin; a look that was taken while a step ended is not
 * used; when the engine is lost nothing is concluded from that.
 */
export class Supervisor implements Observed {
  /** what a person on the machine can do with one microservice */
  readonly local: LocalActions;
  readonly #deps: SupervisorDependencies;
  readonly #records: RecordKeeper;
  readonly #session: EngineSession;
  readonly #scheduler: StepScheduler;
  readonly #pulls: PullTracker;
  readonly #slots = createPullSlots();
  /** of pulls that microservices ask for */
  readonly #askedSlots = createPullSlots({ perRegistry: 1, overall: 2 });
  readonly #health: HealthChecks | undefined;
  readonly #drain: Drain;
  readonly #networkRetry: NetworkRetry;
  readonly #isRebooted: boolean;
  readonly #changes: ChangeNotifier;
  #desired: Desired = NOTHING_KNOWN;
  #waitOf: PlanInput['artifactWait'] = () => undefined;
  #containers: readonly Container[] = [];
  #network: EngineNetwork | undefined;
  #plan: Plan = { steps: [], waits: [] };
  /** no look since the agent started, or since it became another installation */
  #isFirst = true;
  #outage: Outage | undefined;
  #hasLooked = false;
  /** of the present session */
  #signal = new AbortController().signal;
  #isAwake = false;
  #wake = () => {};

  constructor(deps: SupervisorDependencies) {
    this.#deps = deps;
    const { engine, database, bootId } = deps;
    const bootBefore = database.value('bootId');
    this.#isRebooted = bootBefore !== undefined && bootBefore !== bootId;
    this.#changes = new ChangeNotifier(deps.clock);
    this.#records = new RecordKeeper(deps);
    this.#pulls = new PullTracker(deps);
    this.#networkRetry = new NetworkRetry(deps);
    this.#health = can(engine, 'health')
      ? new HealthChecks({ ...deps, engine, changed: () => this.wake() })
      : undefined;
    this.#scheduler = new StepScheduler({
      ...deps,
      execute: (...parameters) => this.#execute(...parameters),
      begins: (step) => {
        if (step.kind !== 'network') this.#records.update(step.uuid, (record) => noteBegin(record, step));
      },
      ended: (step, result) => this.#note(step, result),
      progressed: () => this.#changes.notify(),
      wake: () => this.wake(),
    });
    this.#session = new EngineSession(deps, {
      prepare: async (signal) => {
        await deps.adopt(signal);
        await this.#pulls.removeRelayNames(deps.sources().machine.instance, signal);
      },
      connected: (facts, network, outage) => this.#connected(facts, network, outage),
      turn: (signal) => this.#turn(signal),
      wake: () => this.wake(),
      ended: () => {
        this.#health?.stop();
        this.#scheduler.abort(() => true);
      },
      changed: () => this.#changes.notify(),
    });
    this.#drain = new Drain({
      ...deps,
      records: this.#records,
      scheduler: this.#scheduler,
      containers: () => this.#containers,
      until: (condition, milliseconds) => this.until(condition, milliseconds),
    });
    this.local = new LocalActions({
      engine,
      records: this.#records,
      scheduler: this.#scheduler,
      containers: () => this.#containers,
      desired: () => this.#desired,
      noteStop: (uuid, isStopped) => deps.noteStop(uuid, isStopped),
      change: (uuid, change) => this.#change(uuid, change),
      until: (condition, milliseconds) => this.until(condition, milliseconds),
    });
  }

  /** Supervises until the signal fires. Containers run on. */
  run(signal: AbortSignal): Promise<void> {
    return this.#session.run(signal);
  }

  /** Connects to the engine again, as after a start of the agent: its containers are others now. */
  reconnect(): void {
    this.#isFirst = true;
    this.#session.renew();
  }

  /**
   * Stops all containers within so many ms; from then on nothing is started until the agent starts again. Throws UNAVAILABLE while
   * the engine is not connected.
   */
  async drain(milliseconds: number): Promise<Drained> {
    if (this.#session.facts === undefined || !this.#hasLooked)
      throw new AgentError('UNAVAILABLE', 'the container engine is not connected, so no container can be stopped');
    const drained = this.#drain.run(milliseconds);
    this.#changes.notify();
    return drained.finally(() => this.wake());
  }

  /** Looks again soon. */
  wake(): void {
    this.#isAwake = true;
    this.#wake();
  }

  /** What the machine is to run, and why one of these cannot be started yet. */
  setDesired(desired: Desired, waitOf: PlanInput['artifactWait']): void {
    this.#desired = desired;
    this.#waitOf = waitOf;
    this.wake();
  }

  get desired(): readonly Entry[] {
    return this.#desired.entries;
  }

  /** Whether it is known that a microservice without an entry is not to run here. */
  isUnwanted(uuid: string): boolean {
    return isUnwanted(this.#desired, { uuid, isKept: this.record(uuid)?.isKept });
  }

  get knowsAll(): boolean {
    const { desired } = this;
    if (!this.#desired.isListKnown && this.#deps.sources().machine.nodeUuid !== '') return false;
    const named = new Set(desired.map(({ uuid }) => uuid));
    const here = [...this.#records.all.values(), ...this.#containers.map(({ uuid }) => this.record(uuid) ?? { uuid })];
    return here.every((each) => named.has(each.uuid) || isUnwanted(this.#desired, each));
  }

  /** How the engine is reached. */
  get engine(): EngineState {
    return this.#session.state;
  }

  /** undefined while the engine is not connected */
  get facts(): EngineFacts | undefined {
    return this.#session.facts;
  }

  get containers(): readonly Container[] {
    return this.#containers;
  }

  /** Whether the containers are those of a look at the engine. */
  get hasLooked(): boolean {
    return this.#hasLooked;
  }

  /** Whether an image is being pulled. */
  get isPulling(): boolean {
    return this.#pulls.isUnderWay;
  }

  /** The machine as its containers see it, while they have a network. */
  get gateway(): string | undefined {
    return this.#network?.gateway;
  }

  get records(): Records {
    return this.#records.all;
  }

  /** The kind of the engine while it is connected, or why it is not. */
  get connection(): { engine: string } | { problem: string } {
    const { engine } = this;
    return engine.state === 'connected' ? { engine: engine.facts.kind } : { problem: engine.error ?? engine.state };
  }

  /**
   * Pulls an image that the local API was asked for, in the turn of its registry; it counts as pulled by this agent. What microservices
   * ask for has turns of its own, so that nothing else waits for it. Returns its id.
   */
  async pullByHand(
    request: PullByHand,
    onProgress: (percentage: number) => void,
    signal: AbortSignal,
  ): Promise<string> {
    const { instance } = this.#deps.sources().machine;
    const bare = { kind: 'image', uuid: '', target: '', rebuildCount: 0, policy: 'fresh' } as const;
    const { by, ...pull } = request;
    const slots = by ? this.#askedSlots : this.#slots;
    const ended = await this.#execute({ ...bare, instance, ...pull }, onProgress, signal, slots);
    if (ended === 'aborted') throw signal.reason;
    if (ended === 'unavailable') throw new EngineError('Unavailable', 'the container engine does not answer');
    if (!ended.ok) throw new EngineError(ended.code as EngineErrorCode, ended.message);
    return ended.imageId ?? '';
  }

  /** An image no longer counts as pulled by this agent: a person has loaded or removed it. */
  forgetImage(id: string): void {
    const { database } = this.#deps;
    if (database.images().has(id)) this.#records.attempt(() => database.forgetImage(id));
  }

  record(uuid: string): MicroserviceRecord | undefined {
    return this.#records.get(uuid);
  }

  /** How many steps are under way or wait for their turn. */
  get pending(): number {
    return new Set([...this.#scheduler.keys, ...this.#plan.steps.map(serialKey)]).size;
  }

  /** Microservices that have a container, or may have one as far as is known. */
  get present(): string[] {
    const known = [...this.#records.all.values()].filter(({ gone, generation }) => !gone && generation > 0);
    const atWork = this.#scheduler.underWay.flatMap((step) =>
      step.kind === 'network' || step.kind === 'image' ? [] : [step.uuid],
    );
    return [...new Set([...[...known, ...this.#containers].map(({ uuid }) => uuid), ...atWork])];
  }

  /** What keeps the agent from doing its work, for people. */
  get problems(): string[] {
    const { problem: database } = this.#records;
    const { problem: retry } = this.#networkRetry;
    const { state, unreachable } = this.#session;
    const engine = unreachable ?? (state.state === 'lost' ? state.error : undefined);
    return [
      engine !== undefined ? `container engine: ${engine}` : '',
      retry && `network: ${retry}`,
      this.#network?.problem ? `network: ${this.#network.problem}` : '',
      database && `database: ${database}`,
      this.#drain.hasBegun ? 'drained: nothing is started until the agent starts again' : '',
    ].filter(Boolean);
  }

  /** Why the engine cannot be read; undefined while it can, and before the first attempt. */
  get engineProblem(): string | undefined {
    return this.#session.unreachable;
  }

  /** What the node reports of its microservices; undefined until the first attempt to read the engine. */
  statuses(): MicroserviceStatus[] | undefined {
    if (!this.#hasLooked && this.#session.unreachable === undefined) return undefined;
    const { machine, registries } = this.#deps.sources();
    return nodeStatuses({
      unreachable: this.#session.unreachable,
      desired: this.#desired,
      records: this.#records.all,
      snapshot: this.#snapshot(),
      waits: this.#plan.waits,
      running: (key) => this.#scheduler.find(key),
      networkProblem: this.#networkRetry.problem || undefined,
      facts: this.#session.facts,
      limits: machine.limits,
      registries,
      now: this.#deps.clock.now(),
    });
  }

  /** Calls a listener after each look and whenever the progress of a pull moves. Returns how to stop listening. */
  onChange(listener: () => void): () => void {
    return this.#changes.onChange(listener);
  }

  /** Resolves when the condition holds, or false when it does not in time. */
  until(condition: () => boolean, milliseconds: number, signal?: AbortSignal): Promise<boolean> {
    return this.#changes.until(condition, milliseconds, signal);
  }

  /** These registries have changed: pulls from them begin again, and what waits for them tries again at once. */
  registriesChanged(ids: ReadonlySet<number>): void {
    this.#scheduler.abort((step) => step.kind === 'image' && ids.has(step.registryId));
    for (const entry of this.desired) {
      const failure = this.#records.get(entry.uuid)?.failure;
      if (entry.kind !== 'run' || !ids.has(entry.view.registryId) || failure?.step !== 'image') continue;
      this.#retry(entry.uuid);
    }
  }

  /** The machine's policy has changed: what it refused is tried again at once. */
  policyChanged(): void {
    for (const { uuid, failure } of this.#records.all.values())
      if (failure?.reason === POLICY_REFUSED) this.#retry(uuid);
  }

  /** The controller knows that these have stopped: they need not be reported again. */
  acknowledgeGone(uuids: readonly string[]): void {
    const gone = new Set(uuids.filter((uuid) => this.#records.get(uuid)?.gone));
    if (gone.size === 0) return;
    this.#records.remove(gone);
    this.#records.save();
    this.#changes.notify();
  }

  #connected(facts: EngineFacts, network: EngineNetwork | undefined, outage: Outage | undefined): void {
    if (outage && !this.#isFirst) this.#outage = outage;
    this.#network = network;
    const limits = loweredDefaults(facts, this.#deps.sources().machine.limits);
    if (Object.keys(limits).length > 0)
      this.#deps.log.info(
        { limits },
        "Containers get this machine's limits instead of the engine's own, which it does not grant",
      );
    this.wake();
  }

  async #turn(signal: AbortSignal): Promise<void> {
    this.#isAwake = false;
    this.#signal = signal;
    await this.#look(signal);
    await this.#rest(signal);
  }

  /** Reads the engine, updates the records, plans, and begins the steps of the plan. */
  async #look(signal: AbortSignal): Promise<void> {
    const { clock, metrics } = this.#deps;
    const began = clock.now();
    await this.#read(signal);
    this.#health?.follow(this.#containers);
    this.#updateRecords();
    this.#hasLooked = true;
    this.#session.reached();
    this.#records.save();
    if (this.#isFirst) this.#noteBoot();
    this.#isFirst = false;
    this.#plan = plan(this.#planInput());
    metrics.observe('looks', (clock.now() - began) / SECOND);
    const isNetworkDue = clock.now() >= this.#networkRetry.notBefore;
    const due = this.#plan.steps.filter(({ kind }) => kind !== 'network' || isNetworkDue);
    this.#scheduler.begin(this.#drain.hasBegun ? [] : due, signal);
    this.#changes.notify();
  }

  async #read(signal: AbortSignal): Promise<void> {
    const { engine } = this.#deps;
    let ended: number;
    do {
      ({ ended } = this.#scheduler);
      this.#network = await engine.network(signal);
      this.#containers = await engine.containers(signal);
    } while (ended !== this.#scheduler.ended && !signal.aborted);
  }

  #snapshot() {
    return { containers: this.#containers, networkId: this.#network?.id };
  }

  #updateRecords(): void {
    const { clock, random } = this.#deps;
    const records = updateRecords(this.#records.all, {
      desired: this.#desired,
      snapshot: this.#snapshot(),
      now: clock.now(),
      wall: clock.wall(),
      random,
      first: this.#isFirst,
      rebooted: this.#isRebooted,
      outage: this.#outage,
      endedByHand: this.#session.endedByHand(),
    });
    this.#records.replace(records);
  }

  #noteBoot(): void {
    const { database, bootId } = this.#deps;
    if (database.value('bootId') !== bootId) this.#records.attempt(() => database.saveValue('bootId', bootId));
  }

  #planInput(): PlanInput {
    const { clock, machine } = this.#deps;
    const { facts } = this.#session;
    if (!facts) throw new Error('a plan is made while the engine is connected');
    const sources = this.#deps.sources();
    const input = {
      ...sources,
      machine: { ...sources.machine, facts },
      views: viewsAsMade(sources.views, this.desired),
      artifactWait: this.#waitOf,
      snapshot: this.#snapshot(),
      records: this.#records.all,
      now: clock.now(),
      underWay: this.#scheduler.underWay,
    };
    return { ...input, desired: stopRefused(this.#desired, input, machine) };
  }

  /** Waits until something happens, something is due, or it is time to look anyway. */
  async #rest(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#deps;
    if (this.#isAwake || signal.aborted) return;
    const { waits } = this.#plan;
    const input = { waits, records: this.#records.all, networkRetryAt: this.#networkRetry.notBefore };
    const milliseconds = untilNextLook(input, clock.now(), random);
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    await sleep(milliseconds, AbortSignal.any([woken.signal, signal]), clock);
    this.#wake = () => {};
  }

  #execute(
    step: Step,
    onProgress: (percentage: number) => void,
    signal: AbortSignal,
    slots = this.#slots,
  ): Promise<Ended> {
    const { engine, machine, database } = this.#deps;
    const deps = {
      engine,
      machine,
      slots,
      cdiDirectories: this.#session.facts?.cdiDirectories,
      pullBegins: (image: StepOf<'image'>) => this.#pulls.begin(image, this.#signal),
      pulled: (step: StepOf<'image'>, id: string, isNew: boolean) =>
        this.#records.attempt(() => noteImagePull(database, id, step, isNew)),
      mayUse: (step: StepOf<'image'>, id: string) => mayUseImage(database, id, step),
    };
    return execute(step, deps, onProgress, signal);
  }

  #note(step: Step, result: StepResult): void {
    const { clock, random } = this.#deps;
    if (step.kind === 'network') this.#networkRetry.note(result);
    else {
      this.#records.update(step.uuid, (record) => noteResult(record, step, result, clock.now(), random));
      this.#records.save();
    }
  }

  #retry(uuid: string): void {
    this.#change(uuid, (record) =>
      record.failure ? { ...record, failure: { ...record.failure, count: 0, notBefore: 0 } } : record,
    );
  }

  #change(uuid: string, change: (record: MicroserviceRecord) => MicroserviceRecord): void {
    this.#records.update(uuid, change);
    this.#records.save();
    this.wake();
  }
}
