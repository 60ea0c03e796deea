import { sleep } from '../../../../src/lib/clock.ts';
import type { RegistryView, StatusReport } from '../../../../src/wire/agent.ts';
import { type ArtifactStatus, type ArtifactView, artifactFingerprint } from '../../../../src/wire/artifacts.ts';
import { notSaved } from '../../domain/agent-error.ts';
import {
  ARTIFACT_KINDS,
  type ArtifactItem,
  type ArtifactKind,
  type ArtifactRequest,
  type ArtifactWait,
  allCatalogs,
  type DesiredArtifacts,
  isFrozen,
  NOTHING_SWEPT,
  type OwnArtifacts,
  type ProjectionPlace,
  type PrunedArtifacts,
  type SweptContents,
} from '../../domain/artifact.ts';
import { NOTHING_SENT, type Sent } from '../../domain/desired.ts';
import { roomRefusal } from '../../domain/disk-room.ts';
import type { Entry } from '../../domain/entry.ts';
import { jitter } from '../../domain/jitter.ts';
import { isLocalUuid } from '../../domain/local-uuid.ts';
import type { Observed, Part } from '../../domain/part.ts';
import type { Container } from '../../engine-port/container.ts';
import { errorText } from '../../machine/log.ts';
import { Failures } from './failures.ts';
import { LookUps, type LookUpsDependencies } from './look-ups.ts';
import {
  type ArtifactStep,
  artifactOf,
  attemptOf,
  currentRecord,
  planArtifacts,
  runsBeside,
  samePlace,
  stepKey,
} from './plan.ts';
import type { ProjectionState, Projections } from './projection.ts';
import { Pulls, type PullsDependencies } from './pulls.ts';
import { type ArtifactKey, type ArtifactRecord, artifactKey } from './record.ts';
import { PullRequests } from './requests.ts';
import { type ArtifactFacts, artifactItems, artifactStatuses, artifactWait } from './status.ts';
import { type WantedArtifacts, wantedViews } from './wanted.ts';

const SECOND = 1000;
/** The store is looked at so often although nothing has changed. */
const LOOK_EVERY = 600 * SECOND;
/** Between two turns of which the first changed something: a container that undoes what is done may not keep this busy. */
const SETTLING = SECOND;

/** What artifacts are planned from, besides what this class itself knows. */
export interface ArtifactSources {
  desired: DesiredArtifacts;
  own: OwnArtifacts;
  entries: readonly Entry[];
  /** further microservices may be wanted, or the controller lacks what it had sent: nothing is removed for being absent */
  retains: boolean;
  /** undefined while the engine has not been read */
  containers: readonly Container[] | undefined;
  registries: ReadonlyMap<number, RegistryView>;
}

type Reads = 'models' | 'knowledge' | 'registries' | 'microservices';

export interface ArtifactsDependencies
  extends Omit<PullsDependencies, 'failures' | 'pulled' | 'failed' | 'ended' | 'metrics'>,
    Pick<LookUpsDependencies, 'lookUpDelay'> {
  metrics: PullsDependencies['metrics'] & LookUpsDependencies['metrics'];
  projections: Projections;
  observed: Observed;
  /** the artifacts of the machine itself */
  own(): OwnArtifacts;
  /** The state of an artifact, or what a microservice waits for, is another one now. */
  changed(): void;
}

/** The part that keeps the artifacts of this machine. */
export interface ArtifactsPart extends Part<Reads> {
  waitOf(uuid: string): ArtifactWait | undefined;
  /** the artifacts of one kind that the machine has or is to have */
  items(kind: ArtifactKind): ArtifactItem[];
  /**
   * Pulls an artifact of the machine itself at once, also when it is here. Rejects with an AgentError when that pull fails: later
   * attempts go on by themselves.
   */
  pull(kind: ArtifactKind, uuid: string, request: ArtifactRequest): Promise<void>;
  /** Removes the content of an artifact of the machine itself that has no row any more, once nothing shows it. */
  removeContent(kind: ArtifactKind, uuid: string): void;
  /** Removes what nothing uses, of one kind or of both. Rejects when that fails. */
  prune(kind?: ArtifactKind): Promise<PrunedArtifacts>;
}

/**
 * Keeps the artifacts of this machine as the controller wants them: pulls them into the store, projects them for
 * microservices, and removes what nothing uses. It plans, carries the plan out, and plans again when something changes;
 * pulls run beside that.
 */
export class Artifacts implements ArtifactsPart {
  readonly #deps: ArtifactsDependencies;
  #sent: Pick<Sent, Reads> = NOTHING_SENT;
  readonly #failures: Failures;
  readonly #pulls: Pulls;
  readonly #lookUps: LookUps;
  readonly #requests = new PullRequests();
  /** of the machine itself, whose contents are to go */
  readonly #removed = new Set<ArtifactKey>();
  #records = new Map<ArtifactKey, ArtifactRecord>();
  #projections: ProjectionState[] = [];
  #isOpen = false;
  /** kinds that are to be pruned on request */
  readonly #pruneRequests = new Set<ArtifactKind>();
  #pruned: ((pruned: PrunedArtifacts, problem?: string) => void)[] = [];
  #isAwake = false;
  /** the last turn has changed what the next plan is made from */
  #isSettling = false;
  /** when the last plan was made, by the clock's `now` */
  #plannedAt = 0;
  #wake = () => {};
  #inputs = '';
  /** when a status last changed, Unix ms */
  #changedAt = 0;
  #shown = '';

  constructor(deps: ArtifactsDependencies) {
    this.#deps = deps;
    this.#failures = new Failures(deps);
    this.#lookUps = new LookUps({ ...deps, failures: this.#failures, lookedUp: () => this.#lookedUp() });
    this.#pulls = new Pulls({
      ...deps,
      failures: this.#failures,
      pulled: (record) => {
        deps.store.save(record);
        this.#records.set(artifactKey(record), record);
        this.#lookUps.pulled(record);
        this.#requests.succeeded(artifactKey(record));
      },
      failed: (key, error) => this.#requests.failed(key, error),
      progressed: () => {
        this.#requests.progressed(this.#pulls.progress);
        this.#show();
      },
      ended: () => this.#pullEnded(),
    });
  }

  /** Works until the signal fires; downloads that are under way end and stay for the next start. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, random } = this.#deps;
    while (!signal.aborted) {
      this.#isAwake = false;
      try {
        if (!this.#isOpen) await this.#open();
        await this.#turn(signal);
        if (!this.#isAwake) await this.#rest(signal);
      } catch (error) {
        log.error({ error: errorText(error) }, 'Artifacts cannot be looked after');
        this.#answerPrune({ names: [], ...NOTHING_SWEPT }, errorText(error));
        await sleep(jitter(30 * SECOND, random), signal, clock);
      }
    }
    this.#answerPrune({ names: [], ...NOTHING_SWEPT });
    this.#requests.giveUp(() => true, 'the agent ends; it goes on when it starts again');
    await Promise.all([this.#pulls.settled(), this.#lookUps.settled()]);
  }

  async #open(): Promise<void> {
    const { store, projections } = this.#deps;
    this.#records = await store.open();
    this.#lookUps.opened(this.#records.values());
    this.#projections = await projections.open((kind) => this.#namesOf(kind));
    await this.#sweep();
    this.#isOpen = true;
  }

  /** What may be projected of a kind: nothing is, without its record. */
  #namesOf(kind: ArtifactKind): string[] {
    return [...this.#records.values()].filter((record) => record.kind === kind).map(({ name }) => name);
  }

  observed(): void {
    this.look();
  }

  look(sent = this.#sent): void {
    this.#sent = sent;
    const inputs = this.#readInputs();
    if (inputs === this.#inputs) return;
    this.#inputs = inputs;
    this.#wakeUp();
  }

  #sources(): ArtifactSources {
    const { models, knowledge, microservices, registries } = this.#sent;
    const { desired, knowsAll, containers, hasLooked } = this.#deps.observed;
    return {
      desired: { models, knowledge },
      own: this.#deps.own(),
      entries: desired,
      retains: microservices?.retainUnlisted !== undefined || !knowsAll,
      containers: hasLooked ? containers : undefined,
      registries,
    };
  }

  #readInputs(): string {
    const { desired, own, entries, retains, containers, registries } = this.#sources();
    const mounted = containers?.map(({ uuid, state, binds }) => [uuid, state, binds?.map(({ source }) => source)]);
    const held = entries.filter(isFrozen).map(({ uuid }) => uuid);
    const known = allCatalogs(entries);
    return JSON.stringify([desired, own.views, known, held, retains, mounted, [...registries.values()]]);
  }

  #wakeUp(): void {
    this.#isAwake = true;
    this.#wake();
  }

  async #rest(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#deps;
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    const look = jitter(this.#isSettling ? SETTLING : LOOK_EVERY, random);
    // What became due while the plan was carried out is not in it.
    const due = Math.min(this.#failures.nextDue(this.#plannedAt), this.#lookUps.nextDue(this.#plannedAt));
    const milliseconds = Math.max(0, Math.min(look, due - clock.now() + 1));
    await sleep(milliseconds, AbortSignal.any([woken.signal, signal]), clock);
    this.#wake = () => {};
  }

  /** One plan, carried out. A step that fails holds up no other one. */
  async #turn(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps;
    const { desired, own, entries, retains, containers } = this.#sources();
    this.#endUnwanted({ desired, own });
    const now = clock.now();
    this.#plannedAt = now;
    const requested = [...this.#pruneRequests];
    this.#pruneRequests.clear();
    const prune = new Set(this.#failures.lacksRoom ? ARTIFACT_KINDS : requested);
    const steps = planArtifacts({
      ...{
        desired,
        own,
        retains,
        prune,
        removed: this.#removed,
        records: this.#records,
        projections: this.#projections,
      },
      ...{ now, failures: this.#failures.all },
      lookUpsDue: this.#lookUps.due(now),
      outdated: new Set([...this.#lookUps.outdated, ...this.#requests.keys]),
      patient: this.#requests.patientKeys,
      catalogs: allCatalogs(entries),
      held: new Set(entries.filter(isFrozen).map(({ uuid }) => uuid)),
      isMounted: (place) => this.#isMounted(place, containers),
      underWay: new Map([...this.#pulls.progress].map(([key, { asked }]) => [key, asked])),
    });
    this.#forgetOldFailures(steps);
    const forgotten: string[] = [];
    let problem: string | undefined;
    for (const step of steps) {
      if (signal.aborted) return;
      try {
        await this.#carryOut(step, signal);
        if (!runsBeside(step)) this.#failures.forget(stepKey(step));
        if (step.do === 'forget') forgotten.push(step.record.name);
      } catch (error) {
        const lacksRoom = (error as NodeJS.ErrnoException).code === 'ENOSPC';
        this.#failures.note(stepKey(step), { asked: attemptOf(step), message: errorText(error), lacksRoom });
        if (step.do === 'forget') problem ??= errorText(error);
        log.warn({ step: step.do, at: stepKey(step), error: errorText(error) }, 'A step of artifacts failed');
      }
    }
    const swept = prune.size + forgotten.length > 0 ? await this.#sweep() : NOTHING_SWEPT;
    if (requested.length > 0) this.#answerPrune({ names: forgotten, ...swept }, problem);
    // With more room, what lacked it is tried again at once.
    if (forgotten.length > 0) this.#failures.forgetAll((_key, { lacksRoom }) => lacksRoom === true);
    this.#isSettling = !(await this.#emptyTrash()) || steps.some((step) => !runsBeside(step));
    this.#show();
  }

  /** Whether a turn soon is of no use to it. */
  async #emptyTrash(): Promise<boolean> {
    try {
      return await this.#deps.projections.emptyTrash();
    } catch (error) {
      this.#deps.log.warn({ error: errorText(error) }, 'Cannot remove former contents of artifacts');
      return true;
    }
  }

  /** A container whose mounts are not known may have any of its microservice. */
  #isMounted(place: ProjectionPlace, containers: readonly Container[] | undefined): boolean {
    const path = this.#deps.projections.pathOf(place);
    return (
      !containers ||
      containers.some(({ uuid, binds }) => (binds ? binds.some(({ source }) => source === path) : uuid === place.uuid))
    );
  }

  /** Ends pulls of what is no longer wanted so. */
  #endUnwanted(sources: WantedArtifacts): void {
    const wanted = new Map(
      viewsOf(sources).map(({ kind, view }) => [artifactKey({ kind, uuid: view.uuid }), artifactFingerprint(view)]),
    );
    this.#pulls.abort((key, asked) => wanted.get(key) !== asked);
    this.#requests.giveUp((key) => !wanted.has(key), 'it is not wanted any more');
    this.#failures.forgetAll((key) => {
      const artifact = artifactOf(key);
      return artifact !== undefined && !wanted.has(artifact);
    });
  }

  /** Failures of what is not planned any more. */
  #forgetOldFailures(steps: readonly ArtifactStep[]): void {
    const now = this.#deps.clock.now();
    const planned = new Set(steps.map(stepKey));
    this.#failures.forgetAll((key, { notBefore }) => !artifactOf(key) && now >= notBefore && !planned.has(key));
  }

  async #carryOut(step: ArtifactStep, signal: AbortSignal): Promise<void> {
    const { projections, store, log } = this.#deps;
    switch (step.do) {
      case 'pull':
        void this.#pulls.begin(step.kind, step.view, this.#sent.registries.get(step.view.registryId), signal);
        return;
      case 'look-up':
        return this.#lookUps.begin(step, this.#sent.registries.get(step.view.registryId), signal);
      case 'put':
        return this.#put(step);
      case 'unlink':
        await projections.unlink(step.place, step.name);
        log.info({ kind: step.place.kind, artifact: step.name, microservice: step.place.uuid }, 'Unlinked an artifact');
        return this.#readAgain(step.place);
      case 'discard':
        await projections.discard(step.place, step.versions);
        return this.#readAgain(step.place);
      case 'remove':
        await projections.remove(step.place);
        log.info({ kind: step.place.kind, microservice: step.place.uuid }, 'Removed a projection');
        return this.#readAgain(step.place, true);
      case 'forget':
        store.forget(step.record);
        this.#records.delete(artifactKey(step.record));
        this.#removed.delete(artifactKey(step.record));
        this.#lookUps.forget(step.record);
        log.info({ kind: step.record.kind, artifact: step.record.name }, 'Pruned an artifact');
        return;
      default:
        step satisfies never;
    }
  }

  async #readAgain(place: ProjectionPlace, isRemoved = false): Promise<void> {
    const { projections } = this.#deps;
    const others = this.#projections.filter((each) => !samePlace(each, place));
    this.#projections = isRemoved ? others : [...others, await projections.read(place, this.#namesOf(place.kind))];
  }

  async #put({ catalog, name, record, discard }: Extract<ArtifactStep, { do: 'put' }>): Promise<void> {
    const { projections, store, room, log } = this.#deps;
    const refused = catalog.mode === 'rw' ? roomRefusal(record.totalBytes, await room()) : undefined;
    if (refused) throw Object.assign(new Error(refused), { code: 'ENOSPC' });
    const blob = (sha256: string) => store.blob(sha256);
    try {
      await projections.put(catalog, name, record, { blob, owner: catalog.owner, discard });
    } finally {
      await this.#readAgain(catalog);
    }
    const { resolvedRevision: revision } = record;
    log.info({ kind: catalog.kind, artifact: name, revision, microservice: catalog.uuid }, 'Linked an artifact');
  }

  async #pullEnded(): Promise<void> {
    // Contents of the former revision have no record any more.
    await this.#sweep();
    this.#show();
    this.#wakeUp();
  }

  #lookedUp(): void {
    this.#show();
    this.#wakeUp();
  }

  /**
   * Removes contents and downloads that neither a record nor a pull needs; what cannot be removed stays for the next time.
   */
  async #sweep(): Promise<SweptContents> {
    const { desired, own } = this.#sources();
    const pending = new Set<string>(
      viewsOf({ desired, own })
        .filter(({ kind, view }) => !currentRecord({ records: this.#records }, kind, view))
        .map(({ kind, view }) => artifactKey({ kind, uuid: view.uuid })),
    );
    const isUnknown = (owner: string) =>
      ARTIFACT_KINDS.some((kind) => {
        const [, uuid = ''] = owner.split(`${kind}/`);
        return uuid !== '' && (isLocalUuid(uuid) ? own.unreadable.has(uuid) : !desired[kind]);
      });
    const isPending = (owner: string) => pending.has(owner) || isUnknown(owner);
    const isClaimed = (sha256: string) => this.#pulls.isClaimed(sha256);
    const { store, log } = this.#deps;
    try {
      return await store.sweep(this.#records.values(), { isPending, isClaimed });
    } catch (error) {
      log.warn({ error: errorText(error) }, 'Cannot remove what artifacts left');
      return NOTHING_SWEPT;
    }
  }

  /**
   * Removes what nothing uses, of one kind or of both; returns the names of the artifacts that were removed, and what this
   * freed. Throws AgentError where the disk does not let some of it be removed.
   */
  prune(kind?: ArtifactKind): Promise<PrunedArtifacts> {
    return new Promise((resolve, reject) => {
      this.#pruned.push((pruned, problem) =>
        problem === undefined ? resolve(pruned) : reject(notSaved('something that nothing uses stays', problem)),
      );
      for (const each of kind ? [kind] : ARTIFACT_KINDS) this.#pruneRequests.add(each);
      this.#wakeUp();
    });
  }

  #answerPrune(pruned: PrunedArtifacts, problem?: string): void {
    for (const answer of this.#pruned.splice(0)) answer(pruned, problem);
  }

  /** These registries have changed: pulls from them begin again, and what failed is tried at once. */
  registriesChanged(ids: ReadonlySet<number>): void {
    if (ids.size === 0) return;
    const keys = new Set<string>(
      viewsOf(this.#sources()).flatMap(({ kind, view: { uuid, registryId } }) =>
        ids.has(registryId) ? artifactKey({ kind, uuid }) : [],
      ),
    );
    this.#failures.forgetAll((key) => keys.has(key));
    this.#pulls.abort((key) => keys.has(key));
    this.#wakeUp();
  }

  pull(kind: ArtifactKind, uuid: string, request: ArtifactRequest): Promise<void> {
    const key = artifactKey({ kind, uuid });
    // A microservice that asks all the time makes no registry answer more often.
    if (!request.isPatient) this.#failures.forget(key);
    const done = this.#requests.add(key, request);
    this.#wakeUp();
    return done;
  }

  removeContent(kind: ArtifactKind, uuid: string): void {
    const key = artifactKey({ kind, uuid });
    if (this.#records.has(key)) this.#removed.add(key);
    this.#wakeUp();
  }

  /** Why a microservice cannot be started yet. */
  waitOf(uuid: string): ArtifactWait | undefined {
    const { entries } = this.#sources();
    return artifactWait(uuid, allCatalogs(entries.filter((entry) => entry.uuid === uuid)), this.#facts());
  }

  statuses(kind: ArtifactKind): ArtifactStatus[] {
    return artifactStatuses(kind, this.#facts());
  }

  report(): StatusReport {
    const [models, knowledge] = [this.statuses('models'), this.statuses('knowledge')];
    return {
      modelStatus: models,
      activeModels: models.length,
      modelLastUpdate: models.length > 0 ? this.#changedAt : 0,
      knowledgeStatus: knowledge,
      activeKnowledge: knowledge.length,
      knowledgeLastUpdate: knowledge.length > 0 ? this.#changedAt : 0,
    };
  }

  /** The artifacts of a kind, for people. */
  items(kind: ArtifactKind): ArtifactItem[] {
    return artifactItems(kind, this.#facts(), allCatalogs(this.#sources().entries));
  }

  #facts(): ArtifactFacts {
    const { desired, own } = this.#sources();
    return {
      ...{ desired, own },
      ...{ records: this.#records, projections: this.#projections, failures: this.#failures.all },
      progress: this.#pulls.progress,
    };
  }

  /** Tells of what differs from what was told last. */
  #show(): void {
    const shown = JSON.stringify([
      ARTIFACT_KINDS.map((kind) => this.items(kind).map(({ percentage, ...item }) => item)),
      this.#projections.map(({ links, ...place }) => [place, [...links]]),
      [...this.#failures.all.values()].map(({ message }) => message),
    ]);
    if (shown === this.#shown) {
      this.#deps.progressed();
      return;
    }
    this.#shown = shown;
    this.#changedAt = this.#deps.clock.wall();
    this.#deps.changed();
  }
}

function viewsOf(wanted: WantedArtifacts): { kind: ArtifactKind; view: ArtifactView }[] {
  return ARTIFACT_KINDS.flatMap((kind) => wantedViews(wanted, kind).map((view) => ({ kind, view })));
}
