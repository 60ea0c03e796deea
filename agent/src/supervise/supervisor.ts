import type { PortMapping } from '../../../src/api/container/index.ts';
import type { MicroserviceStatus, MicroserviceView, RegistryView } from '../../../src/wire/agent.ts';
import type { Bind, Binder } from '../domain/binds.ts';
import { type Clock, jitter, pause, type Random } from '../domain/clock.ts';
import { type Container, runKey } from '../domain/container.ts';
import { containerSpec, notHonoured, type SpecContext } from '../domain/container-spec.ts';
import { containerDigest } from '../domain/digest.ts';
import {
  type ContainerSpec,
  type Engine,
  EngineError,
  type EngineFacts,
  type EngineNetwork,
} from '../domain/engine.ts';
import { type Entry, POLICY_REFUSED } from '../domain/entry.ts';
import { type MicroserviceRecord, newRecord, type Records } from '../domain/record.ts';
import { type Plan, type Step, serialKey } from '../domain/step.ts';
import type { PullTarget } from '../domain/target.ts';
import { plan } from '../plan/plan.ts';
import { statusOf, unknownStatus } from '../plan/status.ts';
import { noteBegin, noteResult, type StepResult } from '../plan/step-result.ts';
import { updateRecords } from '../plan/update-records.ts';
import { isRelayName } from '../registries/pull.ts';
import { rowText, type Store } from '../state/database.ts';
import { errorText, type Log } from '../system/log.ts';
import { execute } from './executors.ts';
import { type Lookup, lookupName, resolveHosts } from './extra-hosts.ts';
import { HealthChecks } from './health-checks.ts';
import { createPullSlots } from './pull-slots.ts';

const SECOND = 1000;

/** Where it is counted what the supervisor does; measurements in seconds. */
export interface SupervisorMetrics {
  add(name: 'engineLosses' | 'pulls' | 'starts' | 'steps' | 'storeErrors', labels?: Record<string, string>): void;
  observe(name: 'looks' | 'pullSeconds', seconds: number): void;
}

export interface SupervisorPorts {
  engine: Engine;
  store: Store;
  clock: Clock;
  random: Random;
  log: Log;
  metrics: SupervisorMetrics;
  /** names the machine's present boot */
  bootId: string;
  /** this machine and this agent, as containers need them */
  specContext(): Omit<SpecContext, 'facts'>;
  pullTarget(reference: string, registryId: number): PullTarget;
  registry(id: number): RegistryView | undefined;
  /** why the machine does not allow a view, or undefined */
  refusal?(view: MicroserviceView): string | undefined;
  /** Looks, right after the engine answers, whether containers of an earlier installation are ours to look after. */
  adopt?(signal: AbortSignal): Promise<unknown>;
  /** why binds may not be made beside those of others, where the machine's policy says where binds may lie */
  bindConflict?(own: Binder, others: readonly Binder[], isNew: boolean): string | undefined;
  /** the source that a process does not have mounted as it was checked, where the policy says where binds may lie */
  exchanged?(sources: readonly string[], pid: number): string | undefined;
  /** the view of a microservice that was sent last, held or not */
  view?(uuid: string): MicroserviceView | undefined;
  /** whether what runs against the machine's policy is stopped */
  stopsRefused?(): boolean;
  /** whether some program of this machine has a port; absent where that cannot be known */
  portTaken?: (port: PortMapping) => Promise<boolean>;
  /** how names of other machines are found; the machine's own resolver unless it is given */
  lookup?: Lookup;
  /** makes the directories that a container binds; throws EngineError for what may not be bound */
  prepareMounts(spec: ContainerSpec, step: Extract<Step, { kind: 'create' }>): void;
}

/** How the engine is reached. */
export type EngineState =
  | { state: 'connecting' | 'lost'; error?: string; since: number }
  | { state: 'connected'; facts: EngineFacts; since: number };

/** Events that tell of somebody who ends a container. */
const ENDINGS: ReadonlySet<string> = new Set(['kill', 'stop']);

/** So many steps besides pulls at the same time; pulls wait for their turn by registry. */
const STEPS_AT_ONCE = 4;
const LOOK_EVERY = 30 * SECOND;

interface Running {
  step: Step;
  abort: AbortController;
  percentage?: number;
}

/**
 * Keeps the machine's containers as they are wanted: looks at the engine, remembers, plans, and carries the plan out, a
 * step at a time for each microservice, several microservices at once.
 *
 * Guarantees: memory is saved before the steps that it led to begin; a look that was taken while a step ended is not
 * used; when the engine is lost nothing is concluded from that.
 */
export class Supervisor {
  readonly #ports: SupervisorPorts;
  #desired: readonly Entry[] | undefined;
  #memory: Records;
  #containers: readonly Container[] = [];
  #network: EngineNetwork | undefined;
  #plan: Plan = { steps: [], waits: [] };
  #running = new Map<string, Running>();
  /** under way */
  #pulls = 0;
  readonly #slots = createPullSlots();
  readonly #health: HealthChecks;
  #engine: EngineState;
  #saved = new Map<string, MicroserviceRecord>();
  #first = true;
  #rebooted: boolean;
  #outage: { from: number; to: number } | undefined;
  #concluded = 0;
  #looked = false;
  /** why the engine cannot be looked at: what was seen last may be so no more */
  #blind: string | undefined;
  /** when the engine was last told to end a container, by us or by somebody else */
  readonly #endings = new Map<string, number>();
  #networkRetry = { notBefore: 0, count: 0, message: '' };
  #storeError = '';
  #wake = () => {};
  /** the present connection to the engine */
  #connection = new AbortController();
  #awake = false;
  #listeners = new Set<() => void>();

  constructor(ports: SupervisorPorts) {
    this.#ports = ports;
    this.#health = new HealthChecks({ ...ports, changed: () => this.wake() });
    this.#memory = ports.store.rows();
    this.#saved = new Map(this.#memory);
    this.#rebooted = ports.store.value('bootId') !== undefined && ports.store.value('bootId') !== ports.bootId;
    this.#engine = { state: 'connecting', since: ports.clock.now() };
  }

  /** Begins again with the engine, as one who has not looked yet: its containers are others now. */
  reconnect(): void {
    this.#first = true;
    this.#connection.abort();
  }

  /** What the node is to run; undefined while that is not known. */
  setDesired(entries: readonly Entry[] | undefined): void {
    this.#desired = entries;
    this.wake();
  }

  get desired(): readonly Entry[] | undefined {
    return this.#desired;
  }

  get engine(): EngineState {
    return this.#engine;
  }

  get network(): EngineNetwork | undefined {
    return this.#network;
  }

  get containers(): readonly Container[] {
    return this.#containers;
  }

  /** Steps under way, and those that wait for their turn. */
  get pending(): number {
    return new Set([...this.#running.keys(), ...this.#plan.steps.map(serialKey)]).size;
  }

  /** What keeps the agent from doing its work, for people. */
  get problems(): string[] {
    const disk = this.#ports.store.trouble() ?? this.#storeError;
    const engine = this.#blind ?? (this.#engine.state === 'lost' ? this.#engine.error : undefined);
    return [
      engine !== undefined ? `container engine: ${engine}` : '',
      this.#networkRetry.message && `network: ${this.#networkRetry.message}`,
      this.#network?.trouble ? `network: ${this.#network.trouble}` : '',
      disk && `database: ${disk}`,
    ].filter(Boolean);
  }

  /** Called after each look and whenever the progress of a pull moves. Answers how to stop listening. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Looks again soon. */
  wake(): void {
    this.#awake = true;
    this.#wake();
  }

  /** Why the engine cannot be looked at; undefined while it can, and before that was tried. */
  get engineProblem(): string | undefined {
    return this.#blind;
  }

  /**
   * What the node reports of its microservices; undefined until it was tried to look at the engine. What cannot be
   * looked at is unknown, whatever was seen last.
   */
  statuses(): MicroserviceStatus[] | undefined {
    const entries = new Map((this.#desired ?? []).map((entry) => [entry.uuid, entry]));
    const blind = this.#blind;
    if (blind !== undefined)
      return [...new Set([...this.#memory.keys(), ...entries.keys()])].map((uuid) =>
        unknownStatus(this.#memory.get(uuid) ?? newRecord(uuid), entries.get(uuid), blind),
      );
    if (!this.#looked) return undefined;
    const now = this.#ports.clock.now();
    const waits = new Map(this.#plan.waits.map((wait) => [wait.uuid, wait]));
    const facts = this.#engine.state === 'connected' ? this.#engine.facts : undefined;
    const { limits } = this.#ports.specContext();
    const isMicroservice = this.#nameTest();
    return [...this.#memory.values()].map((record) => {
      const entry = entries.get(record.uuid);
      const pull = this.#running.get(`${record.uuid}/image`);
      const work = this.#running.get(record.uuid);
      return statusOf({
        uuid: record.uuid,
        entry,
        desiredKnown: this.#desired !== undefined,
        record,
        containers: this.#containers
          .filter(({ uuid }) => uuid === record.uuid)
          .sort((a, b) => b.generation - a.generation),
        snapshot: { containers: this.#containers, networkId: this.#network?.id },
        step: work?.step ?? pull?.step,
        percentage: pull?.percentage,
        wait: waits.get(record.uuid),
        networkProblem: this.#networkRetry.message || undefined,
        notHonoured:
          facts && entry?.kind === 'run'
            ? notHonoured(entry.view, {
                facts,
                limits,
                isMicroservice,
                registry: this.#ports.registry(entry.view.registryId),
              })
            : undefined,
        now,
      });
    });
  }

  /** What these registries say of themselves has changed: what waits for them or asks them now tries again at once. */
  registriesChanged(ids: ReadonlySet<number>): void {
    for (const { step, abort } of this.#running.values())
      if (step.kind === 'image' && ids.has(step.registryId)) abort.abort();
    for (const entry of this.#desired ?? []) {
      const failure = this.#memory.get(entry.uuid)?.failure;
      if (entry.kind !== 'run' || !ids.has(entry.view.registryId) || failure?.step !== 'image') continue;
      this.#change(entry.uuid, (row) => ({ ...row, failure: { ...failure, count: 0, notBefore: 0 } }));
    }
  }

  /** The machine's policy has changed: what it refused is tried again at once. */
  policyChanged(): void {
    for (const { uuid, failure } of this.#memory.values())
      if (failure?.reason === POLICY_REFUSED)
        this.#change(uuid, (row) => ({ ...row, failure: { ...failure, count: 0, notBefore: 0 } }));
  }

  /** The controller has heard that these are stopped: they need not be told again. */
  acknowledgeGone(uuids: readonly string[]): void {
    const gone = new Set(uuids.filter((uuid) => this.#memory.get(uuid)?.gone));
    if (gone.size === 0) return;
    this.#memory = new Map([...this.#memory].filter(([uuid]) => !gone.has(uuid)));
    this.#save();
    this.#tell();
  }

  /** Microservices that have a container, or may have one as far as is known. */
  get present(): string[] {
    const known = [...this.#memory.values()].filter(({ gone, generation }) => !gone && generation > 0);
    const atWork = [...this.#running.values()].flatMap(({ step }) =>
      step.kind === 'network' || step.kind === 'image' ? [] : [step.uuid],
    );
    return [...new Set([...[...known, ...this.#containers].map(({ uuid }) => uuid), ...atWork])];
  }

  record(uuid: string): MicroserviceRecord | undefined {
    return this.#memory.get(uuid);
  }

  /** A stop on the machine: holds until a local start, a rebuild or a new revision. */
  stopLocally(uuid: string): void {
    const entry = this.#desired?.find((each) => each.uuid === uuid);
    const { lastGood } = this.#memory.get(uuid) ?? {};
    const { revision = '', rebuildOrder = 0 } = (entry?.kind === 'run' ? entry.view : lastGood) ?? {};
    this.#change(uuid, (row) => ({
      ...row,
      stoppedLocally: { revision, rebuildOrder },
      live: { ...row.live, restart: undefined },
    }));
  }

  /** A start on the machine: ends a local stop, and tries at once what waits. */
  startLocally(uuid: string): void {
    this.#change(uuid, (row) => ({
      ...row,
      stoppedLocally: undefined,
      failure: undefined,
      crash: undefined,
      live: { ...row.live, startedLocally: true },
    }));
  }

  /** Ends the present run and starts the container again; what does not run is started. */
  restartLocally(uuid: string): void {
    const running = this.#containers.find((container) => container.uuid === uuid && container.state === 'running');
    if (!running) this.startLocally(uuid);
    else
      this.#change(uuid, (row) => ({
        ...row,
        stoppedLocally: undefined,
        live: { ...row.live, restart: { key: runKey(running) } },
      }));
  }

  /** Removes a microservice's containers. What is still wanted is made again. */
  async removeLocally(uuid: string): Promise<void> {
    await this.#inLane(uuid, async (signal) => {
      for (const { id } of this.#containers.filter((container) => container.uuid === uuid)) {
        this.#change(uuid, (row) => ({ ...row, live: { ...row.live, stopping: id } }));
        await this.#ports.engine.stop(id, this.#grace, signal);
        await this.#ports.engine.remove(id, signal);
      }
    });
  }

  async kill(uuid: string, posixSignal: string): Promise<void> {
    const running = this.#containers.find((container) => container.uuid === uuid && container.state === 'running');
    if (running) await this.#ports.engine.kill(running.id, posixSignal);
  }

  /** Resolves when the condition holds, or false when it does not in time. */
  async until(condition: () => boolean, milliseconds: number, signal?: AbortSignal): Promise<boolean> {
    if (condition()) return true;
    const { clock } = this.#ports;
    const over = new AbortController();
    const stop = this.onChange(() => condition() && over.abort());
    try {
      await pause(clock, milliseconds, signal ? AbortSignal.any([over.signal, signal]) : over.signal);
    } finally {
      stop();
    }
    return condition();
  }

  /** Supervises until the signal fires. Containers run on. */
  async run(signal: AbortSignal): Promise<void> {
    for (let attempt = 0; !signal.aborted; attempt++) {
      const session = new AbortController();
      let renewed = false;
      this.#connection = session;
      const stop = () => session.abort();
      signal.addEventListener('abort', stop, { once: true });
      try {
        const ended = await this.#session(session.signal, () => {
          attempt = 0;
        });
        // Engines end their streams now and then: whether this one is gone the next attempt tells, in a moment.
        if (!session.signal.aborted) this.#lost(ended);
      } catch (error) {
        if (!session.signal.aborted) {
          this.#blind = errorText(error);
          this.#lost(error);
        }
      } finally {
        renewed = session.signal.aborted;
        session.abort();
        this.#health.stop();
        signal.removeEventListener('abort', stop);
        for (const { abort } of this.#running.values()) abort.abort();
      }
      if (renewed) continue;
      const delay = Math.min(500 * 2 ** Math.min(attempt, 6), 15 * SECOND);
      await pause(this.#ports.clock, jitter(delay, this.#ports.random), signal);
    }
  }

  /** One connection to the engine, from its first answer to the end of its events, whose reason is answered. */
  async #session(signal: AbortSignal, onConnected: () => void): Promise<unknown> {
    const { engine, clock, log } = this.#ports;
    const facts = await engine.connect(signal);
    await this.#ports.adopt?.(signal);
    const network = await engine.network(signal);
    await this.#tidyNames(signal);
    const lost = new AbortController();
    let reason: unknown;
    const events = this.#listen(signal).catch((error: unknown) => {
      reason = error ?? new Error('the engine ended the event stream');
      lost.abort();
      this.wake();
    });
    if (this.#engine.state === 'lost' && !this.#first)
      this.#outage = { from: clock.wall() - (clock.now() - this.#engine.since), to: clock.wall() };
    log.info('Connected to the container engine', { url: engine.url, engine: facts.kind, version: facts.version });
    const { mayRaise, hard } = this.#ports.specContext().limits;
    const lowered = mayRaise ? [] : facts.defaultLimits.filter((name) => hard[name] !== undefined);
    if (lowered.length > 0)
      log.info("Containers get this machine's limits instead of the engine's own, which it does not grant", {
        limits: Object.fromEntries(lowered.map((name) => [name, hard[name]])),
      });
    this.#engine = { state: 'connected', facts, since: clock.now() };
    this.#network = network;
    onConnected();
    this.wake();
    while (!signal.aborted && !lost.signal.aborted) {
      this.#awake = false;
      await this.#look(signal);
      await this.#rest(signal);
    }
    if (lost.signal.aborted) await events;
    return reason;
  }

  /**
   * A pull through a relay that was cut short leaves a name that leads nowhere, and keeps its image from being pruned;
   * and podman brings such a name back when two pulls of one image end at once. While none is under way all of them are
   * left over.
   */
  async #tidyNames(signal: AbortSignal): Promise<void> {
    const { engine, log } = this.#ports;
    const { instance } = this.#ports.specContext();
    try {
      const names = await engine.imageNames(signal);
      if (this.#pulls > 0) return;
      for (const name of names) if (isRelayName(name, instance)) await engine.removeImage(name, signal);
    } catch (error) {
      log.warn('Cannot tidy up the names of images', { error: errorText(error) });
    }
  }

  async #listen(signal: AbortSignal): Promise<never> {
    for await (const { action, containerId } of this.#ports.engine.events(signal)) {
      if (ENDINGS.has(action)) this.#endings.set(containerId, this.#ports.clock.now());
      this.#ports.log.debug('Heard from the engine', { action });
      this.wake();
    }
    throw new EngineError('Unavailable', 'the engine ended the event stream');
  }

  #lost(error: unknown): void {
    const { clock, log, engine } = this.#ports;
    const text = errorText(error);
    const before = this.#engine;
    if (before.state === 'connected') this.#ports.metrics.add('engineLosses');
    if (before.state !== 'lost' || before.error !== text)
      log.warn('Lost the container engine', { url: engine.url, error: text });
    this.#engine = { state: 'lost', error: text, since: before.state === 'lost' ? before.since : clock.now() };
    this.#tell();
  }

  /** Looks at the engine, and does what is to be done. */
  async #look(signal: AbortSignal): Promise<void> {
    const { engine, clock, random, store, bootId, metrics } = this.#ports;
    const began = clock.now();
    let concluded: number;
    do {
      concluded = this.#concluded;
      this.#network = await engine.network(signal);
      this.#containers = await engine.containers(signal);
    } while (concluded !== this.#concluded && !signal.aborted);
    this.#health.follow(this.#containers);
    const snapshot = { containers: this.#containers, networkId: this.#network?.id };
    this.#memory = updateRecords(this.#memory, {
      desired: this.#desired,
      snapshot,
      now: clock.now(),
      wall: clock.wall(),
      random,
      first: this.#first,
      rebooted: this.#rebooted,
      outage: this.#outage,
      endedByHand: this.#endedByHand(),
    });
    this.#looked = true;
    this.#blind = undefined;
    this.#save();
    if (this.#first) {
      this.#first = false;
      if (store.value('bootId') !== bootId) this.#guarded(() => store.saveValue('bootId', bootId));
    }
    this.#plan = plan(this.#enforced(), snapshot, clock.now(), this.#memory);
    metrics.observe('looks', (clock.now() - began) / SECOND);
    this.#dispatch(this.#plan.steps, signal);
    this.#tell();
  }

  /** What is wanted, as the machine's policy has it where it says that what runs is to be stopped. */
  #enforced(): readonly Entry[] | undefined {
    if (!this.#ports.stopsRefused?.()) return this.#desired;
    return this.#desired?.map((entry) => {
      if (entry.kind !== 'hold' || entry.reason !== POLICY_REFUSED) return entry;
      const own = this.#containers.filter(({ uuid }) => uuid === entry.uuid);
      return { ...entry, stop: own.every((container) => this.#refusalOf(container) !== undefined) };
    });
  }

  /** Why the machine does not allow what a container is, as far as that is known. */
  #refusalOf({ uuid, digest }: Container): string | undefined {
    const sent = this.#ports.view?.(uuid);
    const known = [sent, this.#memory.get(uuid)?.lastGood];
    const view = known.find((each) => each !== undefined && containerDigest(each) === digest);
    return view && this.#ports.refusal?.(view);
  }

  #permit(step: Extract<Step, { kind: 'create' | 'start' }>): void {
    const container = step.kind === 'start' && this.#containers.find(({ id }) => id === step.containerId);
    const refused = step.kind === 'create' ? this.#ports.refusal?.(step.view) : container && this.#refusalOf(container);
    if (refused) throw new EngineError('PolicyRefused', refused);
    const own = {
      name: '',
      binds: step.kind === 'create' ? bindsOf(step.view) : container ? this.#bindsOf(container) : [],
    };
    const conflict = this.#ports.bindConflict?.(own, this.#otherBinders(step.uuid), step.kind === 'create');
    if (conflict) throw new EngineError('PolicyRefused', conflict);
  }

  /** What the containers of all others bind, those that are being made among them. */
  #otherBinders(uuid: string): Binder[] {
    const there = this.#containers.map((container) => ({
      uuid: container.uuid,
      name: `${container.application}.${container.microservice}`,
      binds: this.#bindsOf(container),
    }));
    const coming = [...this.#running.values()].flatMap(({ step }) =>
      step.kind === 'create'
        ? [{ uuid: step.uuid, name: `${step.view.application}.${step.view.name}`, binds: bindsOf(step.view) }]
        : [],
    );
    return [...there, ...coming].filter((binder) => binder.uuid !== uuid && binder.binds.length > 0);
  }

  /** What a container binds of the machine; volumes of ours are nobody else's. */
  #bindsOf({ binds = [] }: Container): Bind[] {
    const { volumesDirectory } = this.#ports.specContext();
    return binds.filter(({ source }) => !source.startsWith(`${volumesDirectory}/`));
  }

  /** What was checked is what is mounted, or the container ends at once. */
  async #confirm({ containerId }: Extract<Step, { kind: 'start' }>, signal: AbortSignal): Promise<void> {
    const { engine, exchanged } = this.#ports;
    const container = this.#containers.find(({ id }) => id === containerId);
    const binds = container ? this.#bindsOf(container) : [];
    if (!exchanged || binds.length === 0) return;
    const sources = binds.map((bind) => bind.source);
    const source = exchanged(sources, await engine.processOf(containerId, signal));
    if (source === undefined) return;
    await engine.stop(containerId, 0, signal);
    throw new EngineError('PolicyRefused', `${source} was exchanged for something else while it was mounted`);
  }

  /** A signal that ended nothing is soon forgotten: the end that comes later is the container's own. */
  #endedByHand(): ReadonlySet<string> {
    for (const [id, at] of this.#endings) if (this.#ports.clock.now() - at > 15 * SECOND) this.#endings.delete(id);
    return new Set(this.#endings.keys());
  }

  /** Waits until something happens, something is due, or it is time to look anyway. */
  async #rest(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#ports;
    if (this.#awake || signal.aborted) return;
    const now = clock.now();
    const due = [now + jitter(LOOK_EVERY, random), ...this.#plan.waits.map(({ until }) => until)];
    if (this.#networkRetry.notBefore > now) due.push(this.#networkRetry.notBefore);
    for (const row of this.#memory.values())
      if (row.error && !row.failure && row.live.running) due.push(row.live.running.since + 30_500);
    const next = Math.min(...due.filter((at) => at > now));
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    await pause(clock, Math.max(20, next - now), AbortSignal.any([woken.signal, signal]));
    this.#wake = () => {};
  }

  #dispatch(steps: readonly Step[], signal: AbortSignal): void {
    const planned = new Map(steps.map((step) => [serialKey(step), step]));
    for (const [lane, running] of this.#running) {
      // A pull for what is no longer wanted makes room for what is.
      if (running.step.kind === 'image' && !samePull(running.step, planned.get(lane))) running.abort.abort();
    }
    let busy = [...this.#running.values()].filter(({ step }) => step.kind !== 'image').length;
    for (const [lane, step] of planned) {
      const isPull = step.kind === 'image';
      if (this.#running.has(lane) || (!isPull && busy >= STEPS_AT_ONCE)) continue;
      if (step.kind === 'network' && this.#ports.clock.now() < this.#networkRetry.notBefore) continue;
      if (!isPull) busy++;
      void this.#carryOut(lane, step, signal);
    }
  }

  async #carryOut(lane: string, step: Step, signal: AbortSignal): Promise<void> {
    const { engine, store, clock, random, log, metrics } = this.#ports;
    const abort = new AbortController();
    const running: Running = { step, abort };
    this.#running.set(lane, running);
    const own = log.with({ microservice: 'uuid' in step ? step.uuid : undefined, step: step.kind });
    own.info(MESSAGES[step.kind], describe(step));
    if (step.kind !== 'network') this.#update(step.uuid, (row) => noteBegin(row, step));
    const started = clock.now();
    let relayed = false;
    const outcome = await execute(
      step,
      {
        engine,
        instance: this.#ports.specContext().instance,
        slots: this.#slots,
        permit: (act) => this.#permit(act),
        confirm: (start, during) => this.#confirm(start, during),
        pulling: () => {
          const began = clock.now();
          this.#pulls++;
          return (ended) => {
            if (--this.#pulls === 0 && relayed) void this.#tidyNames(signal);
            metrics.add('pulls', { outcome: ended });
            if (ended === 'ok') metrics.observe('pullSeconds', (clock.now() - began) / SECOND);
          };
        },
        portTaken: this.#ports.portTaken,
        stopGraceSeconds: this.#grace,
        specOf: (create) => this.#specOf(create),
        pullOf: ({ reference, registryId }) => {
          const target = this.#ports.pullTarget(reference, registryId);
          relayed = target.relay !== undefined;
          return target;
        },
        pulled: (reference, id) => this.#guarded(() => store.saveImage(id, reference)),
        onProgress: (_uuid, percentage) => {
          running.percentage = percentage;
          this.#tell();
        },
      },
      AbortSignal.any([abort.signal, signal]),
    );
    this.#running.delete(lane);
    this.#concluded++;
    this.#count(step, outcome);
    this.#note(step, outcome, own.with({ durationMs: clock.now() - started }));
    if (typeof outcome !== 'string' && step.kind !== 'network') {
      this.#update(step.uuid, (row) => noteResult(row, step, outcome, clock.now(), random));
      this.#save();
    }
    if (step.kind === 'network') this.#noteNetwork(outcome);
    this.wake();
  }

  #count(step: Step, outcome: StepResult | 'unavailable' | 'aborted'): void {
    const { metrics } = this.#ports;
    const ended = typeof outcome === 'string' ? 'given-up' : outcome.ok ? 'ok' : 'failed';
    metrics.add('steps', { step: step.kind, outcome: ended });
    if (step.kind === 'start' && ended === 'ok') metrics.add('starts', { reason: step.reason });
  }

  #note(step: Step, outcome: StepResult | 'unavailable' | 'aborted', log: Log): void {
    if (typeof outcome === 'string') log.debug('Gave the step up', { outcome });
    else if (outcome.ok) log.debug('Step done', describe(step));
    else log.warn('Step failed', { ...describe(step), reasonCode: outcome.reason, error: outcome.message });
  }

  #noteNetwork(outcome: StepResult | 'unavailable' | 'aborted'): void {
    if (typeof outcome === 'string') return;
    if (outcome.ok) this.#networkRetry = { notBefore: 0, count: 0, message: '' };
    else {
      const count = this.#networkRetry.count + 1;
      const delay = Math.min(5 * SECOND * 2 ** Math.min(count - 1, 6), 300 * SECOND);
      const notBefore = this.#ports.clock.now() + jitter(delay, this.#ports.random);
      this.#networkRetry = { notBefore, count, message: outcome.message };
    }
  }

  async #specOf(step: Extract<Step, { kind: 'create' }>): Promise<ContainerSpec> {
    if (this.#engine.state !== 'connected') throw new EngineError('Unavailable', 'the engine is not connected');
    const context: SpecContext = { ...this.#ports.specContext(), facts: this.#engine.facts };
    const { reference } = this.#ports.pullTarget(step.view.imageId, step.view.registryId);
    const plain = containerSpec(step, context);
    const extraHosts = await resolveHosts(plain.extraHosts, this.#nameTest(), this.#ports.lookup ?? lookupName);
    const spec = { ...plain, image: reference, extraHosts };
    this.#ports.prepareMounts(spec, step);
    return spec;
  }

  /** Tells names of microservices of this machine from others. */
  #nameTest(): (name: string) => boolean {
    const names = new Set([...this.#memory.values()].map(({ application, name }) => `${application}.${name}`));
    return (name) => names.has(name);
  }

  readonly #grace = 10;

  async #inLane(uuid: string, act: (signal: AbortSignal) => Promise<void>): Promise<void> {
    await this.until(() => !this.#running.has(uuid), 60 * SECOND);
    if (this.#running.has(uuid)) throw new EngineError('Conflict', 'the microservice is busy');
    const abort = new AbortController();
    this.#running.set(uuid, {
      step: { kind: 'remove', uuid, target: '', containerId: '', reason: 'Leftover' },
      abort,
    });
    try {
      await act(abort.signal);
    } finally {
      this.#running.delete(uuid);
      this.#concluded++;
      this.wake();
    }
  }

  #change(uuid: string, change: (row: MicroserviceRecord) => MicroserviceRecord): void {
    this.#update(uuid, change);
    this.#save();
    this.wake();
  }

  #update(uuid: string, change: (row: MicroserviceRecord) => MicroserviceRecord): void {
    const row = this.#memory.get(uuid);
    if (row) this.#memory = new Map(this.#memory).set(uuid, change(row));
  }

  /** Saves what changed; when the disk refuses, supervision goes on from memory. */
  #save(): void {
    const changed = [...this.#memory.values()].filter((row) => {
      const saved = this.#saved.get(row.uuid);
      return saved !== row && (saved === undefined || rowText(saved) !== rowText(row));
    });
    const removed = [...this.#saved.keys()].filter((uuid) => !this.#memory.has(uuid));
    if (changed.length + removed.length === 0) return;
    this.#guarded(() => {
      this.#ports.store.saveRows(changed, removed);
      this.#saved = new Map(this.#memory);
    });
  }

  #guarded(save: () => void): void {
    try {
      save();
      this.#storeError = '';
    } catch (error) {
      this.#ports.metrics.add('storeErrors');
      const text = errorText(error);
      if (text !== this.#storeError) this.#ports.log.error('Cannot save what is remembered', { error: text });
      this.#storeError = text;
    }
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** What is done, before it is done. */
const MESSAGES = {
  network: 'Making the network',
  image: 'Looking up the image',
  create: 'Making the container',
  start: 'Starting the container',
  stop: 'Stopping the container',
  resume: 'Letting the container go on',
  rename: 'Renaming the container',
  remove: 'Removing the container',
} as const satisfies Record<Step['kind'], string>;

function describe(step: Step): Record<string, unknown> {
  switch (step.kind) {
    case 'network':
      return {};
    case 'image':
      return { image: step.reference, policy: step.policy };
    case 'create':
      return { name: step.name, image: step.view.imageId, revision: step.view.revision, reasonCode: step.reason };
    case 'rename':
      return { containerId: step.containerId.slice(0, 12), name: step.name };
    default:
      return { containerId: step.containerId.slice(0, 12), reasonCode: step.reason };
  }
}

/** What of the machine a view binds. */
function bindsOf({ volumeMappings }: MicroserviceView): Bind[] {
  return volumeMappings.flatMap(({ type, hostDestination, accessMode }) =>
    type === 'bind' ? [{ source: hostDestination, writable: accessMode !== 'ro' }] : [],
  );
}

function samePull(running: Extract<Step, { kind: 'image' }>, planned: Step | undefined): boolean {
  return (
    planned?.kind === 'image' &&
    planned.reference === running.reference &&
    planned.registryId === running.registryId &&
    planned.platform === running.platform
  );
}
