import type { Entry, RunEntry } from '../../domain/entry.ts';
import { jitter, type Random } from '../../domain/jitter.ts';
import {
  type ExitCause,
  type Failure,
  type MicroserviceRecord,
  newRecord,
  type Records,
  withoutFailure,
} from '../../domain/record.ts';
import { seenRun } from '../../domain/runs.ts';
import { type Desired, isMachinesOwn, isUnwanted } from '../../domain/wanted.ts';
import { type Container, type EngineSnapshot, isRunning, latestOf, runKey } from '../../engine-port/container.ts';
import { backoff, TIMES } from './backoff.ts';
import { reportedCheck } from './health.ts';
import { comesFromElsewhere, isImageKnown, servesEntry, targetKey } from './serves.ts';

/** The engine snapshot, its time, and what is known of outages of the engine. */
export interface UpdateInput {
  desired: Desired;
  snapshot: EngineSnapshot;
  /** steady time */
  now: number;
  /** the machine's clock, which the engine's times are of */
  wall: number;
  random: Random;
  /** the first look since the agent started */
  first: boolean;
  /** the machine was restarted since the records were saved */
  rebooted: boolean;
  /** containers that were recently asked to end */
  endedByHand?: ReadonlySet<string>;
  /** the last time, on the machine's clock, that the engine was lost and found again */
  outage?: { from: number; to: number };
}

/** An engine that is stopped ends its containers first: for so long before an outage, ms, an exit is the engine's doing. */
const BEFORE_OUTAGE = 15_000;
const AFTER_OUTAGE = 2_000;

/**
 * Updates the records from what the engine shows: new entries get a record, ends of containers are classified and counted,
 * times start and stop, what is over is removed. Pure: records that change are replaced, the others stay the same object.
 */
export function updateRecords(records: Records, input: UpdateInput): Records {
  const next = new Map<string, MicroserviceRecord>();
  const entries = new Map(input.desired.entries.map((entry) => [entry.uuid, entry]));
  const containers = new Map<string, Container[]>();
  for (const container of input.snapshot.containers)
    containers.set(container.uuid, [...(containers.get(container.uuid) ?? []), container]);
  for (const uuid of new Set([...records.keys(), ...entries.keys(), ...containers.keys()])) {
    const own = (containers.get(uuid) ?? []).sort((a, b) => b.generation - a.generation);
    const entry = entries.get(uuid);
    const known = records.get(uuid);
    const record = updateRecord(known ?? newRecord(uuid, own[0]), entry, own, input);
    if (record) next.set(uuid, record);
  }
  return next;
}

function updateRecord(
  record: MicroserviceRecord,
  entry: Entry | undefined,
  containers: readonly Container[],
  input: UpdateInput,
): MicroserviceRecord | undefined {
  const unwanted = !entry && isUnwanted(input.desired, record);
  if (unwanted && containers.length === 0) return asGone(record);
  let next = entry ? withEntry(record, entry) : record;
  const set = (change: Partial<MicroserviceRecord>) => {
    next = { ...next, ...change };
  };
  const setLive = (change: Partial<MicroserviceRecord['live']>) => set({ live: { ...next.live, ...change } });
  if (entry?.kind === 'run') {
    const adopted = adoptImage(next, entry, containers);
    if (adopted) set({ image: adopted });
    // Saved by an agent that did not note it.
    const { image } = next;
    if (
      image?.reference === entry.view.imageId &&
      image.pullReference === undefined &&
      entry.pullReference !== undefined
    )
      set({ image: { ...image, pullReference: entry.pullReference } });
  }
  if (input.first) next = withinReach(next, input.now);
  // A failure while the engine stops is not one of the microservice.
  const { outage } = input;
  const failedAt = (next.failure?.at ?? 0) + input.wall - input.now;
  if (outage && next.failure && failedAt >= outage.from - BEFORE_OUTAGE && failedAt <= outage.to)
    set({ failure: undefined, error: undefined });
  const highest = Math.max(0, ...containers.map(({ generation }) => generation));
  if (highest > next.generation) set({ generation: highest });

  const target = entry ? targetKey(entry) : 'absent';
  const running = containers.find(({ state }) => state === 'running');
  const containerId = (running ?? containers[0])?.id;
  if (containerId !== next.containerId) set({ containerId });
  const shown = latestOf(containers, next.uuid) ?? containers[0];
  const runs = shown && seenRun(next.runs, shown);
  if (runs !== next.runs) set({ runs });
  if (running) next = withRunning(next, running, containers, entry, input);
  else if (next.live.running) setLive({ running: undefined });
  const ended = running ? undefined : containers.find(({ startedAt }) => startedAt > 0);
  if (ended) next = withExit(next, ended, target, input);

  const check = running && reportedCheck(next.live.check, running, input.now);
  if (check !== next.live.check) setLive({ check });
  const up = running !== undefined && !running.paused && (running.health === undefined || running.health === 'healthy');
  const downSince = entry && !up ? (next.live.downSince ?? input.now) : undefined;
  if (downSince !== next.live.downSince) setLive({ downSince });
  const unwantedSince = unwanted ? (next.live.unwantedSince ?? input.now) : undefined;
  if (unwantedSince !== next.live.unwantedSince) setLive({ unwantedSince });
  return next;
}

/** A record once this entry is what is wanted: failures, crashes and local stops of an older entry are over. Pure. */
export function withEntry(record: MicroserviceRecord, entry: Entry): MicroserviceRecord {
  const next = withSource(record.gone ? { ...record, gone: undefined } : record, entry);
  if (entry.kind !== 'run') {
    const { application = next.application, name = next.name } = entry;
    return application === next.application && name === next.name ? next : { ...next, application, name };
  }
  const { application, name, isSystem, schedule } = entry.view;
  const target = targetKey(entry);
  const failed = next.failure && next.failure.target !== target;
  const crashed = next.crash && next.crash.target !== target;
  const over: Partial<MicroserviceRecord> = {
    // Of the machine's own the entry says whether it is stopped.
    ...(entry.isStopped === undefined && isOver(next.stoppedLocally, entry) && { stoppedLocally: undefined }),
    ...(failed && { failure: undefined, error: undefined }),
    ...(crashed && { crash: undefined, ...(next.error?.message !== next.failure?.message && { error: undefined }) }),
  };
  const renamed =
    next.application !== application || next.name !== name || next.isSystem !== isSystem || next.schedule !== schedule;
  return renamed || Object.keys(over).length > 0 ? { ...next, application, name, isSystem, schedule, ...over } : next;
}

/** A record whose source and local stop are those that the entry says; of a controller's entry the stop is the record's. */
function withSource(record: MicroserviceRecord, { isKept, isStopped, ...entry }: Entry): MicroserviceRecord {
  const next = record.isKept === isKept ? record : { ...record, isKept };
  if (isStopped === undefined || isStopped === (next.stoppedLocally !== undefined)) return next;
  const { revision = '', rebuildCount = 0 } = entry.kind === 'run' ? entry.view : {};
  return { ...next, stoppedLocally: isStopped ? { revision, rebuildCount } : undefined };
}

/** The clock may have been set back since these times were saved, and nothing ever waits longer than the longest delay. */
function withinReach(record: MicroserviceRecord, now: number): MicroserviceRecord {
  const latest = now + jitter(TIMES.longestDelay, () => 1);
  const near = <T extends { notBefore: number }>(what: T | undefined): T | undefined =>
    what && what.notBefore > latest ? { ...what, notBefore: latest } : what;
  const [failure, crash] = [near(record.failure), near(record.crash)];
  return failure === record.failure && crash === record.crash ? record : { ...record, failure, crash };
}

/** What had a container is reported as stopped; what never had one is not reported, nor a microservice of the machine itself. */
function asGone(record: MicroserviceRecord): MicroserviceRecord | undefined {
  if (isMachinesOwn(record)) return undefined;
  if (record.gone) return record;
  if (record.generation === 0) return undefined;
  return {
    ...record,
    gone: true,
    containerId: undefined,
    runs: undefined,
    stoppedLocally: undefined,
    failure: undefined,
    crash: undefined,
    exit: undefined,
    error: undefined,
    lastGood: undefined,
    image: undefined,
    live: {},
  };
}

function isOver(stopped: MicroserviceRecord['stoppedLocally'], { view }: RunEntry): boolean {
  return stopped !== undefined && (stopped.revision !== view.revision || stopped.rebuildCount < view.rebuildCount);
}

/** The image of a container that already serves the entry, so that nothing is pulled for it. */
function adoptImage(
  record: MicroserviceRecord,
  entry: RunEntry,
  containers: readonly Container[],
): MicroserviceRecord['image'] {
  if (isImageKnown(entry, record)) return undefined;
  const { view, digest, pullReference } = entry;
  const match = containers.find(
    (c) => c.digest === digest && c.rebuildCount >= view.rebuildCount && !comesFromElsewhere(c, entry, record),
  );
  if (!match) return undefined;
  const outdatedGeneration = record.image?.reference === view.imageId ? record.image.outdatedGeneration : undefined;
  const { imageId: id, rebuildCount } = match;
  return { reference: view.imageId, id, rebuildCount, pullReference, outdatedGeneration };
}

function withRunning(
  record: MicroserviceRecord,
  running: Container,
  containers: readonly Container[],
  entry: Entry | undefined,
  input: UpdateInput,
): MicroserviceRecord {
  const key = runKey(running);
  let next = record;
  const isNewRun = next.live.running?.key !== key;
  if (isNewRun) {
    const since = input.now - Math.max(0, input.wall - running.startedAt);
    const { stopping, startedLocally, ...live } = next.live;
    next = { ...next, live: { ...live, running: { key, since } } };
    if (next.live.restart && next.live.restart.key !== key)
      next = { ...next, live: { ...next.live, restart: undefined } };
  }
  const duration = input.now - (next.live.running?.since ?? input.now);
  if (next.crash && duration >= TIMES.steady) next = { ...next, crash: undefined };
  if (entry?.kind === 'run' && servesEntry(running, entry, record, input.snapshot)) {
    if (next.failure && isOverOnceServed(next.failure, containers, isNewRun)) next = withoutFailure(next);
    if (!sameView(next.lastGood, entry.view)) next = { ...next, lastGood: entry.view };
  }
  if (next.error && !next.failure && duration >= TIMES.errorClears) next = { ...next, error: undefined };
  return next;
}

/**
 * Whether a failure is over once a container serves the entry. A container that the engine does not stop or resume is as it was: without
 * its failure the next attempt would come at once, as often as the engine answers.
 */
function isOverOnceServed(
  { step, containerId }: Failure,
  containers: readonly Container[],
  isNewRun: boolean,
): boolean {
  const about = containers.find(({ id }) => id === containerId);
  const isOver: Partial<Record<Failure['step'], boolean>> = {
    stop: isNewRun || !about || !isRunning(about),
    resume: !about?.paused,
    remove: false,
    rename: false,
  };
  return isOver[step] ?? true;
}

function sameView(a: MicroserviceRecord['lastGood'], b: RunEntry['view']): boolean {
  return a === b || (a !== undefined && a.revision === b.revision && JSON.stringify(a) === JSON.stringify(b));
}

function withExit(
  record: MicroserviceRecord,
  ended: Container,
  target: string,
  input: UpdateInput,
): MicroserviceRecord {
  const key = runKey(ended);
  if (record.exit?.key === key) {
    if (!TENTATIVE.has(record.exit.cause) || !duringOutage(ended, input)) return record;
    if (record.exit.cause === 'Stopped')
      return { ...record, exit: { key, cause: 'Engine' }, live: { ...record.live, leftAloneUntil: undefined } };
    // The engine stopped right after: it had ended its containers, so this was no crash.
    const count = (record.crash?.count ?? 1) - 1;
    const crash = record.crash && count > 0 ? { ...record.crash, count, notBefore: input.now } : undefined;
    const cleared = { error: undefined, lastError: undefined, lastErrorAt: undefined };
    return { ...record, exit: { key, cause: 'Engine' }, crash, ...cleared };
  }
  const cause = causeOf(record, ended, input);
  const next: MicroserviceRecord = { ...record, exit: { key, cause } };
  if (cause === 'Stopped' && record.live.stopping !== ended.id)
    return { ...next, live: { ...next.live, leftAloneUntil: input.now + TIMES.handsOff } };
  if (cause !== 'Crash') return next;
  const steady = ended.finishedAt - ended.startedAt >= TIMES.steady;
  const count = steady ? 1 : (record.crash?.count ?? 0) + 1;
  const message = exitText(ended);
  return {
    ...next,
    crash: { target, count, at: input.now, notBefore: input.now + backoff(count, input.random) },
    error: { message, at: input.now },
    lastError: message,
    lastErrorAt: input.wall,
  };
}

function causeOf(record: MicroserviceRecord, ended: Container, input: UpdateInput): ExitCause {
  if (record.live.stopping === ended.id) return 'Stopped';
  if (input.first) return input.rebooted ? 'Reboot' : 'Unwatched';
  if (duringOutage(ended, input)) return 'Engine';
  return input.endedByHand?.has(ended.id) ? 'Stopped' : 'Crash';
}

/** Causes that change once it is known that the engine went away. */
const TENTATIVE: ReadonlySet<ExitCause> = new Set(['Crash', 'Stopped']);

function duringOutage({ finishedAt }: Container, { outage }: UpdateInput): boolean {
  return outage !== undefined && finishedAt >= outage.from - BEFORE_OUTAGE && finishedAt <= outage.to + AFTER_OUTAGE;
}

/** How a container ended, in the form that the local API promises. */
function exitText({ exitCode, oomKilled, error, reason }: Container): string {
  if (reason) return `reason=${reason} exitCode=${exitCode}${error ? ` message=${error}` : ''}`;
  return `exitCode=${exitCode} oomKilled=${oomKilled}${error ? ` error=${error}` : ''}`;
}
