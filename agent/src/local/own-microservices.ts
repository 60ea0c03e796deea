import { LOCAL_APPLICATION } from '../../../src/api/names.ts';
import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { MicroserviceStatus, MicroserviceView, RegistryView } from '../../../src/wire/agent.ts';
import { digestOf } from '../../../src/wire/digest.ts';
import { AgentError, notSaved, saving } from '../domain/agent-error.ts';
import type { Sent } from '../domain/desired.ts';
import type { Entry } from '../domain/entry.ts';
import { isControlPlaneUuid, isLocalUuid, newControlPlaneUuid, newLocalUuid } from '../domain/local-uuid.ts';
import type { Observed, Part } from '../domain/part.ts';
import type { MicroserviceRecord, Records } from '../domain/record.ts';
import type { ViewRules } from '../domain/sent-microservices.ts';
import { type Desired, isMachinesOwn } from '../domain/wanted.ts';
import { errorText } from '../machine/log.ts';
import type { Rows } from '../state/rows.ts';
import { combineSources, type RefusedEntry } from './combine.ts';
import { keptRow } from './kept.ts';
import type { LocalRow } from './row.ts';

/** Rows that could not be saved are tried again so often, ms. */
const RETRY_EVERY = 30_000;

/** What this part knows of the containers of the machine. */
interface ObservedMicroservices extends Observed {
  readonly records: Records;
  /** microservices that have a container, or may have one as far as is known */
  readonly present: readonly string[];
}

export interface OwnMicroservicesDependencies {
  rows: Rows<LocalRow>;
  clock: Clock;
  log: Log;
  observed: ObservedMicroservices;
  /** registries that were defined on this machine, by the numbers that views have */
  registries(): ReadonlyMap<number, RegistryView>;
  /** the runtime of the engine that a microservice of this machine means by this name; undefined: what it means cannot be read */
  runtimeOf(name: string): string | undefined;
  /** whether the disk has private volumes of a microservice; true where that cannot be known */
  hasVolumes(uuid: string): boolean;
  /** the uuids of control planes that the disk has volumes of */
  controlPlanesWithVolumes(): readonly string[];
  /** Applies the desired state again. */
  changed(): void;
  /** Completes the end of a membership before something is ordered: it would be done over the order later. Throws when it cannot. */
  settle(): void;
  /** whether the end of a membership is not complete yet */
  isEnding(): boolean;
}

/** A microservice as it is to be deployed on this machine. */
export interface Deployment {
  name: string;
  /** of a microservice with this uuid */
  view(uuid: string): MicroserviceView;
  manifest: string;
  sourceName?: string | undefined;
  /** of the control plane of the machine */
  controlPlane?: LocalRow['controlPlane'];
}

/**
 * The microservices of the machine itself: those that were deployed on it, and those that a controller left to it. Their rows
 * are durable; a row that is lost or damaged leaves its microservice as it is.
 */
export class OwnMicroservices implements Part {
  readonly #deps: OwnMicroservicesDependencies;
  /** rows that could not be saved as they are wanted */
  readonly #unsaved = new Map<string, LocalRow>();
  #saveProblem = '';
  #refused: ReadonlyMap<string, RefusedEntry> = new Map();
  #isListKnown = false;
  /** what the controller sent about the control plane of this machine, by uuid */
  #described: ReadonlyMap<string, MicroserviceView> = new Map();

  constructor(deps: OwnMicroservicesDependencies) {
    this.#deps = deps;
  }

  get rows(): ReadonlyMap<string, LocalRow> {
    const { all } = this.#deps.rows;
    return this.#unsaved.size > 0 ? new Map([...all, ...this.#unsaved]) : all;
  }

  /** What the machine is to run, with the entries of the controller; undefined: its list is not known. */
  desired(managed: readonly Entry[] | undefined, rules: ViewRules): Desired {
    const { rows, observed, log, isEnding, runtimeOf } = this.#deps;
    const combination = combineSources({
      ...{ managed, rows: this.rows, unreadable: new Set(rows.unreadable.keys()) },
      ...{ records: observed.records, rules, runtimeOf, isEnding: isEnding() },
    });
    for (const uuid of combination.adopted) {
      log.info({ uuid }, 'The controller has taken over a microservice that the machine had kept');
      this.#unsaved.delete(uuid);
      this.#attempt(() => rows.remove(uuid));
    }
    this.#refused = combination.refused;
    this.#described = combination.described;
    this.#isListKnown = combination.isListKnown;
    return combination;
  }

  /** What the controller sent, with the registries that microservices of the machine need. */
  within(sent: Sent): Sent {
    const own = [...this.rows.values()].flatMap(({ registry }) => (registry ? [[registry.id, registry] as const] : []));
    const defined = this.#deps.registries();
    if (own.length + defined.size === 0) return sent;
    return { ...sent, registries: new Map([...sent.registries, ...defined, ...own]) };
  }

  /** The views of the controller that count, and the machine's own. */
  viewsWith(sent: ReadonlyMap<string, MicroserviceView> = new Map()): ReadonlyMap<string, MicroserviceView> {
    if (this.rows.size + this.#refused.size === 0) return sent;
    const own = [...this.rows.values()].flatMap(({ uuid, view }) => (view ? [[uuid, view] as const] : []));
    return new Map([...[...sent].filter(([uuid]) => !this.#refused.has(uuid)), ...own]);
  }

  /** One of these views. */
  viewOf(uuid: string, sent: ReadonlyMap<string, MicroserviceView> | undefined): MicroserviceView | undefined {
    const own = this.#unsaved.get(uuid) ?? this.#deps.rows.all.get(uuid);
    return own?.view ?? (this.#refused.has(uuid) ? undefined : sent?.get(uuid));
  }

  /** Whether a microservice is the machine's own, of which no controller learns. */
  owns(uuid: string): boolean {
    const { rows, observed } = this.#deps;
    return this.rows.has(uuid) || rows.unreadable.has(uuid) || isMachinesOwn(observed.records.get(uuid) ?? { uuid });
  }

  /** Microservices that were deployed here, running or not, whose views are such. */
  usersOf(isUser: (view: MicroserviceView) => boolean): { uuid: string; name: string }[] {
    const rows = [...this.rows.values()].filter(({ desiredState }) => desiredState !== 'deleted');
    const users = rows.filter(({ origin, view }) => origin !== 'kept' && view && isUser(view));
    return users.map(({ uuid, application, name }) => ({ uuid, name: `${application}.${name}` }));
  }

  /** The names of the same, for people. */
  namesOfUsers(isUser: (view: MicroserviceView) => boolean): string[] {
    return this.usersOf(isUser).map(({ name }) => name);
  }

  /** What the controller learns of microservices: its own, and why entries of it may not run here. */
  reported(statuses: readonly MicroserviceStatus[] | undefined): MicroserviceStatus[] | undefined {
    const refused = [...this.#refused].map(
      ([id, { reason, message, application, name }]): MicroserviceStatus => ({
        ...{ id, application, name, reason },
        status: 'QUEUED',
        errorMessage: message.slice(0, 1024),
      }),
    );
    const reported = statuses?.flatMap((status) => {
      const described = this.#described.get(status.id);
      if (described) return [this.#asDescribed(status, described)];
      return this.owns(status.id) ? [] : [status];
    });
    return reported && [...reported, ...refused];
  }

  /** The status of the control plane, of which its controller has an entry: what runs as the manifest says, runs as the entry says. */
  #asDescribed(status: MicroserviceStatus, { revision, rebuildCount }: MicroserviceView): MicroserviceStatus {
    const isPresent = status.revision === this.rows.get(status.id)?.view?.revision;
    return isPresent ? { ...status, revision, ...(rebuildCount && { rebuildCount }) } : status;
  }

  get ownProblems(): string[] {
    const lost = this.#lost.map((uuid) => [uuid, 'its file on this machine is lost'] as const);
    const damaged = [...this.#deps.rows.unreadable].map(([uuid, why]) => [uuid, `of its file ${why}`] as const);
    return [
      ...[...lost, ...damaged].map(
        ([uuid, why]) => `local microservice ${this.#called(uuid)}: ${why}. It runs on as it is: ${whatMends(uuid)}`,
      ),
      ...(this.#saveProblem ? [`local microservices: ${this.#saveProblem}`] : []),
    ];
  }

  /** Why a stop, or its end, would not survive the end of this process; undefined where it does, or is not about a row. */
  noteStop(uuid: string, isStopped: boolean): string | undefined {
    const row = this.rows.get(uuid);
    const desiredState = isStopped ? 'stopped' : 'running';
    if (!row || row.desiredState === 'deleted' || row.desiredState === desiredState) return undefined;
    const problem = this.#save({ ...row, desiredState, updatedAt: this.#time });
    this.#deps.changed();
    return problem;
  }

  /** Ends a microservice of the machine for good; the supervision removes its container. Throws AgentError. */
  remove(uuid: string): void {
    this.#settled('nothing was removed');
    saving('nothing was removed', () => this.#deps.rows.save(uuid, this.#deletedRow(uuid)));
    this.#unsaved.delete(uuid);
    this.#deps.changed();
  }

  /** Ends all microservices of the machine but its control plane. What cannot be saved ends in this process, and then it throws. */
  removeAll(): void {
    const { observed, rows } = this.#deps;
    const known = [...this.rows.keys(), ...rows.unreadable.keys(), ...observed.present];
    const problems = [...new Set(known)]
      .filter((uuid) => this.owns(uuid) && !isControlPlaneUuid(uuid))
      .filter((uuid) => this.rows.get(uuid)?.desiredState !== 'deleted')
      .map((uuid) => this.#save(this.#deletedRow(uuid)));
    const problem = problems.find((each) => each !== undefined);
    this.#deps.changed();
    if (problem !== undefined) throw notSaved('the next start of the agent removes them once more', problem);
  }

  /** Makes the microservices that a controller placed the machine's own. Throws when one of them cannot be saved. */
  keep(sent: Sent): void {
    const { observed, rows, log } = this.#deps;
    const entries = new Map(observed.desired.map((entry) => [entry.uuid, entry]));
    // While the list is not known, what is here may be wanted.
    const here = this.#isListKnown ? [] : observed.present;
    const placed = [...new Set([...entries.keys(), ...here])].filter((uuid) => !this.owns(uuid));
    const { registries } = sent;
    for (const uuid of placed) {
      const taken = [...this.rows.values()].flatMap(({ view }) => (view ? [view.registryId] : []));
      const record = observed.records.get(uuid);
      rows.save(uuid, keptRow({ uuid, entry: entries.get(uuid), record }, registries, taken, this.#time));
    }
    if (placed.length > 0) log.info({ microservices: placed.length }, 'The machine keeps what the controller placed');
  }

  /**
   * Deploys a microservice, or changes the one of this name. It is durable when this returns; answers its row, and whether
   * its spec is another. Throws AgentError.
   */
  deploy({ name, view: viewOf, manifest, sourceName, controlPlane }: Deployment): {
    row: LocalRow;
    isOther: boolean;
  } {
    this.#settled('nothing was deployed');
    const before = this.#named(name);
    if (before?.desiredState === 'deleted')
      throw new AgentError(
        'CONFLICT',
        `the former ${LOCAL_APPLICATION}.${name} is still being removed; try again soon`,
      );
    const lost = controlPlane ? this.rowlessControlPlane : this.#rowlessNamed(name);
    const uuid = before?.uuid ?? lost ?? (controlPlane ? newControlPlaneUuid() : newLocalUuid());
    const bare = viewOf(uuid);
    // A container that was made again by an order stays with its count.
    const { rebuildCount = 0 } = before?.view ?? {};
    const view = { ...bare, rebuildCount, revision: digestOf(bare) };
    const isOther = before?.view?.revision !== view.revision;
    const time = this.#time;
    const row: LocalRow = {
      ...{
        uuid,
        origin: controlPlane ? 'controlplane' : 'deployed',
        application: LOCAL_APPLICATION,
        name,
        view,
        manifest,
      },
      ...(controlPlane && { controlPlane }),
      ...(sourceName !== undefined && { sourceName }),
      desiredState: 'running',
      generation: (before?.generation ?? 0) + (isOther ? 1 : 0),
      ...{ createdAt: before?.createdAt ?? time, updatedAt: time },
    };
    saving('nothing was deployed', () => this.#deps.rows.save(uuid, row));
    this.#unsaved.delete(uuid);
    this.#deps.log.info({ uuid, name, generation: row.generation }, 'Deployed a microservice on this machine');
    this.#deps.changed();
    return { row, isOther };
  }

  /** Changes the row of a microservice; it is durable when this returns. Throws AgentError, and changes nothing, when it cannot be saved. */
  change(uuid: string, consequence: string, change: (row: LocalRow) => LocalRow): void {
    const row = this.rows.get(uuid);
    if (!row) return;
    saving(consequence, () => this.#deps.rows.save(uuid, { ...change(row), updatedAt: this.#time }));
    this.#unsaved.delete(uuid);
    this.#deps.changed();
  }

  /** Forgets a row whose microservice and volumes are gone. */
  forget(uuid: string): void {
    this.#deps.rows.remove(uuid);
    this.#unsaved.delete(uuid);
    this.#deps.changed();
  }

  /**
   * Forgets rows of removed microservices once no container of them is left. What a controller had placed is known until its private
   * volumes are destroyed as well: under its uuid another one would get them.
   */
  observed(): void {
    const { observed, rows } = this.#deps;
    if (!observed.hasLooked) return;
    const removed = [...this.rows.values()].filter(
      // The control plane goes with its volumes (control-plane.ts).
      ({ uuid, desiredState }) => desiredState === 'deleted' && !isControlPlaneUuid(uuid),
    );
    if (removed.length === 0) return;
    const present = new Set(observed.present);
    const over = removed.filter(
      ({ uuid, origin }) => !present.has(uuid) && !(origin === 'kept' && this.#deps.hasVolumes(uuid)),
    );
    const forgotten = over.filter(({ uuid }) => this.#attempt(() => rows.remove(uuid)) === undefined);
    for (const { uuid } of forgotten) this.#unsaved.delete(uuid);
    // A row that cannot be removed is tried again with the others that wait.
    if (forgotten.length > 0) this.#deps.changed();
  }

  /** Saves what could not be saved, until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await sleep(RETRY_EVERY, signal, this.#deps.clock);
      for (const row of [...this.#unsaved.values()]) this.#save(row);
      this.#attempt(this.#deps.settle);
      this.observed();
    }
  }

  #settled(consequence: string): void {
    saving(consequence, () => this.#deps.settle());
  }

  get #time(): string {
    return new Date(this.#deps.clock.wall()).toISOString();
  }

  /** Microservices of the machine that are here without a row. */
  get #lost(): string[] {
    const { observed, rows } = this.#deps;
    const here = [...observed.records.values(), ...observed.containers.map(({ uuid }) => ({ uuid }))];
    const lost = here.filter(
      (each) => isMachinesOwn(each) && !this.rows.has(each.uuid) && !rows.unreadable.has(each.uuid),
    );
    return [...new Set(lost.map(({ uuid }) => uuid))];
  }

  #named(name: string): LocalRow | undefined {
    return [...this.rows.values()].find((row) => row.origin !== 'kept' && isSameName(row.name, name));
  }

  get #rowless(): string[] {
    return [...this.#lost, ...this.#deps.rows.unreadable.keys()];
  }

  /** The control plane whose row is lost or damaged: a machine has one, whatever else is known of it. */
  get rowlessControlPlane(): string | undefined {
    return (
      this.#rowless.find(isControlPlaneUuid) ??
      this.#deps.controlPlanesWithVolumes().find((uuid) => !this.rows.has(uuid))
    );
  }

  /** Deploying what lost its row gives it a row again, and leaves its container. */
  #rowlessNamed(name: string): string | undefined {
    return this.#rowless.find((uuid) => isLocalUuid(uuid) && isSameName(this.#namesOf(uuid).name, name));
  }

  #namesOf(uuid: string): Pick<MicroserviceRecord, 'application' | 'name'> {
    const { observed } = this.#deps;
    const record = observed.records.get(uuid);
    if (record?.name) return record;
    const container = observed.containers.find((each) => each.uuid === uuid);
    return { application: container?.application ?? '', name: container?.microservice ?? '' };
  }

  #called(uuid: string): string {
    const { application, name } = this.#namesOf(uuid);
    return name ? `${application}.${name} (${uuid})` : uuid;
  }

  #deletedRow(uuid: string): LocalRow {
    const time = this.#time;
    const before = this.rows.get(uuid) ?? {
      ...{ uuid, origin: originOf(uuid), ...this.#namesOf(uuid) },
      ...{ generation: 0, createdAt: time },
    };
    return { ...before, desiredState: 'deleted', updatedAt: time, deletedAt: time };
  }

  /** Saves a row, or remembers it for this process and answers why it cannot be saved. */
  #save(row: LocalRow): string | undefined {
    const problem = this.#attempt(() => this.#deps.rows.save(row.uuid, row));
    if (problem === undefined) this.#unsaved.delete(row.uuid);
    else this.#unsaved.set(row.uuid, row);
    return problem;
  }

  #attempt(act: () => void): string | undefined {
    try {
      act();
      this.#saveProblem = '';
      return undefined;
    } catch (error) {
      const text = errorText(error);
      if (text !== this.#saveProblem)
        this.#deps.log.error({ error: text }, 'Cannot save a microservice of the machine');
      this.#saveProblem = text;
      return text;
    }
  }
}

function originOf(uuid: string): LocalRow['origin'] {
  if (isControlPlaneUuid(uuid)) return 'controlplane';
  return isLocalUuid(uuid) ? 'deployed' : 'kept';
}

const whatMends = (uuid: string): string =>
  isControlPlaneUuid(uuid) ? 'deploy its manifest again' : 'deploy it again, or remove it with skerry-agent ms rm';

const isSameName = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();
