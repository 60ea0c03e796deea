import { jitter, type Random } from '../domain/clock.ts';
import { type Container, type EngineSnapshot, runKey } from '../domain/container.ts';
import type { Entry, RunEntry } from '../domain/entry.ts';
import { type ExitCause, type MicroserviceRecord, newRecord, type Records } from '../domain/record.ts';
import { backoff, TIMES } from './backoff.ts';
import { servesEntry, targetKey } from './serves.ts';

/** What was seen, when, and how far the engine was watched. */
export interface UpdateInput {
  desired: readonly Entry[] | undefined;
  snapshot: EngineSnapshot;
  /** steady time */
  now: number;
  /** the machine's clock, in which the engine's times are told */
  wall: number;
  random: Random;
  /** the first look since the agent started */
  first: boolean;
  /** the machine was restarted since the memory was written */
  rebooted: boolean;
  /** containers that the engine was told to end, lately */
  endedByHand?: ReadonlySet<string>;
  /** the last time, on the machine's clock, that the engine was lost and found again */
  outage?: { from: number; to: number };
}

/** An engine that is stopped in order ends its containers before it goes; so long before, an exit is the engine's doing. */
const BEFORE_OUTAGE = 15_000;
const AFTER_OUTAGE = 2_000;

/**
 * Brings the memory up to date with what is seen: new entries get a row, ends of containers are classified and counted,
 * times start and stop, what is over is forgotten. Pure: rows that change are replaced, the others stay the same object.
 */
export function updateRecords(memory: Records, sight: UpdateInput): Records {
  const next = new Map<string, MicroserviceRecord>();
  const entries = new Map((sight.desired ?? []).map((entry) => [entry.uuid, entry]));
  const containers = new Map<string, Container[]>();
  for (const container of sight.snapshot.containers)
    containers.set(container.uuid, [...(containers.get(container.uuid) ?? []), container]);
  for (const uuid of new Set([...memory.keys(), ...entries.keys(), ...containers.keys()])) {
    const own = (containers.get(uuid) ?? []).sort((a, b) => b.generation - a.generation);
    const entry = entries.get(uuid);
    const known = memory.get(uuid);
    const row = updateRow(known ?? newRecord(uuid, own[0]), entry, own, sight);
    if (row) next.set(uuid, row);
  }
  return next;
}

function updateRow(
  row: MicroserviceRecord,
  entry: Entry | undefined,
  containers: readonly Container[],
  sight: UpdateInput,
): MicroserviceRecord | undefined {
  if (!entry && sight.desired && containers.length === 0) return rememberGone(row);
  let next = entry ? withEntry(row, entry) : row;
  const set = (change: Partial<MicroserviceRecord>) => {
    next = { ...next, ...change };
  };
  const setLive = (change: Partial<MicroserviceRecord['live']>) => set({ live: { ...next.live, ...change } });
  if (entry?.kind === 'run') {
    const adopted = adoptImage(next, entry, containers);
    if (adopted) set({ image: adopted });
  }
  if (sight.first) next = withinReach(next, sight.now);
  // What an engine refuses while it is going away is no fault of the microservice.
  const { outage } = sight;
  const failedAt = (next.failure?.at ?? 0) + sight.wall - sight.now;
  if (outage && next.failure && failedAt >= outage.from - BEFORE_OUTAGE && failedAt <= outage.to)
    set({ failure: undefined, error: undefined });
  const highest = Math.max(0, ...containers.map(({ generation }) => generation));
  if (highest > next.generation) set({ generation: highest });

  const target = entry ? targetKey(entry) : 'absent';
  const running = containers.find(({ state }) => state === 'running');
  const containerId = (running ?? containers[0])?.id;
  if (containerId !== next.containerId) set({ containerId });
  if (running) next = rememberRunning(next, running, entry, sight);
  else if (next.live.running) setLive({ running: undefined });
  const ended = running ? undefined : containers.find(({ startedAt }) => startedAt > 0);
  if (ended) next = rememberExit(next, ended, target, sight);

  const up = running !== undefined && !running.paused && (running.health === undefined || running.health === 'healthy');
  const downSince = entry && !up ? (next.live.downSince ?? sight.now) : undefined;
  if (downSince !== next.live.downSince) setLive({ downSince });
  const unwantedSince = !entry && sight.desired ? (next.live.unwantedSince ?? sight.now) : undefined;
  if (unwantedSince !== next.live.unwantedSince) setLive({ unwantedSince });
  return next;
}

/** What a row still says once this entry is what is wanted: failures, crashes and holds of an older one are over. Pure. */
export function withEntry(row: MicroserviceRecord, entry: Entry): MicroserviceRecord {
  const next = row.gone ? { ...row, gone: undefined } : row;
  if (entry.kind !== 'run') return next;
  const { application, name, isSystem, schedule } = entry.view;
  const target = targetKey(entry);
  const failed = next.failure && next.failure.target !== target;
  const over: Partial<MicroserviceRecord> = {
    ...(isOver(next.stoppedLocally, entry) && { stoppedLocally: undefined }),
    ...(failed && { failure: undefined, error: undefined }),
    ...(next.crash && next.crash.target !== target && { crash: undefined }),
  };
  const renamed =
    next.application !== application || next.name !== name || next.isSystem !== isSystem || next.schedule !== schedule;
  return renamed || Object.keys(over).length > 0 ? { ...next, application, name, isSystem, schedule, ...over } : next;
}

/** The clock may have been set back since these times were saved, and nothing ever waits longer than the longest delay. */
function withinReach(row: MicroserviceRecord, now: number): MicroserviceRecord {
  const latest = now + jitter(TIMES.longestDelay, () => 1);
  const near = <T extends { notBefore: number }>(what: T | undefined): T | undefined =>
    what && what.notBefore > latest ? { ...what, notBefore: latest } : what;
  const [failure, crash] = [near(row.failure), near(row.crash)];
  return failure === row.failure && crash === row.crash ? row : { ...row, failure, crash };
}

/** What had a container is reported as stopped; what never had one was never there. */
function rememberGone(row: MicroserviceRecord): MicroserviceRecord | undefined {
  if (row.gone) return row;
  if (row.generation === 0) return undefined;
  return {
    ...row,
    gone: true,
    containerId: undefined,
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

function isOver(hold: MicroserviceRecord['stoppedLocally'], { view }: RunEntry): boolean {
  return hold !== undefined && (hold.revision !== view.revision || hold.rebuildOrder < view.rebuildOrder);
}

/** A container that already serves the entry tells which image is meant, so that nothing is pulled for it. */
function adoptImage(
  row: MicroserviceRecord,
  { view, digest }: RunEntry,
  containers: readonly Container[],
): MicroserviceRecord['image'] {
  const { image } = row;
  if (image && image.reference === view.imageId && image.rebuildOrder >= view.rebuildOrder) return undefined;
  const match = containers.find((c) => c.digest === digest && c.rebuildOrder >= view.rebuildOrder);
  return match && { reference: view.imageId, id: match.imageId, rebuildOrder: match.rebuildOrder };
}

function rememberRunning(
  row: MicroserviceRecord,
  running: Container,
  entry: Entry | undefined,
  sight: UpdateInput,
): MicroserviceRecord {
  const key = runKey(running);
  let next = row;
  if (next.live.running?.key !== key) {
    const since = sight.now - Math.max(0, sight.wall - running.startedAt);
    const { stopping, startedLocally, ...live } = next.live;
    next = { ...next, live: { ...live, running: { key, since } } };
    if (next.live.restart && next.live.restart.key !== key)
      next = { ...next, live: { ...next.live, restart: undefined } };
  }
  const duration = sight.now - (next.live.running?.since ?? sight.now);
  if (next.crash && duration >= TIMES.steady) next = { ...next, crash: undefined };
  if (entry?.kind === 'run' && servesEntry(running, entry, row, sight.snapshot)) {
    if (next.failure && next.failure.step !== 'remove' && next.failure.step !== 'rename')
      next = { ...next, failure: undefined };
    if (!sameView(next.lastGood, entry.view)) next = { ...next, lastGood: entry.view };
  }
  if (next.error && !next.failure && duration >= TIMES.errorClears) next = { ...next, error: undefined };
  return next;
}

function sameView(a: MicroserviceRecord['lastGood'], b: RunEntry['view']): boolean {
  return a === b || (a !== undefined && a.revision === b.revision && JSON.stringify(a) === JSON.stringify(b));
}

function rememberExit(
  row: MicroserviceRecord,
  ended: Container,
  target: string,
  sight: UpdateInput,
): MicroserviceRecord {
  const key = runKey(ended);
  if (row.exit?.key === key) {
    if (!TENTATIVE.has(row.exit.cause) || !duringOutage(ended, sight)) return row;
    if (row.exit.cause === 'Stopped')
      return { ...row, exit: { key, cause: 'Engine' }, live: { ...row.live, leftAloneUntil: undefined } };
    // The engine went away right after: it was ending its containers, and what looked like a crash was that.
    const count = (row.crash?.count ?? 1) - 1;
    const crash = row.crash && count > 0 ? { ...row.crash, count, notBefore: sight.now } : undefined;
    const told = { error: undefined, lastError: undefined, lastErrorAt: undefined };
    return { ...row, exit: { key, cause: 'Engine' }, crash, ...told };
  }
  const cause = causeOf(row, ended, sight);
  const next: MicroserviceRecord = { ...row, exit: { key, cause } };
  if (cause === 'Stopped' && row.live.stopping !== ended.id)
    return { ...next, live: { ...next.live, leftAloneUntil: sight.now + TIMES.handsOff } };
  if (cause !== 'Crash') return next;
  const steady = ended.finishedAt - ended.startedAt >= TIMES.steady;
  const count = steady ? 1 : (row.crash?.count ?? 0) + 1;
  const message = exitText(ended);
  return {
    ...next,
    crash: { target, count, at: sight.now, notBefore: sight.now + backoff(count, sight.random) },
    error: { message, at: sight.now },
    lastError: message,
    lastErrorAt: sight.wall,
  };
}

function causeOf(row: MicroserviceRecord, ended: Container, sight: UpdateInput): ExitCause {
  if (row.live.stopping === ended.id) return 'Stopped';
  if (sight.first) return sight.rebooted ? 'Reboot' : 'Unwatched';
  if (duringOutage(ended, sight)) return 'Engine';
  return sight.endedByHand?.has(ended.id) ? 'Stopped' : 'Crash';
}

/** Causes that look different once it is known that the engine went away. */
const TENTATIVE: ReadonlySet<ExitCause> = new Set(['Crash', 'Stopped']);

function duringOutage({ finishedAt }: Container, { outage }: UpdateInput): boolean {
  return outage !== undefined && finishedAt >= outage.from - BEFORE_OUTAGE && finishedAt <= outage.to + AFTER_OUTAGE;
}

/** How a container ended, in the form that the local API promises. */
export function exitText({ exitCode, oomKilled, error }: Container): string {
  return `exitCode=${exitCode} oomKilled=${oomKilled}${error ? ` error=${error}` : ''}`;
}
