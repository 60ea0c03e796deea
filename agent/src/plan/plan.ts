import type { PortMapping } from '../../../src/api/container/index.ts';
import { BUILT_IN_REGISTRIES, CONTAINER_NAME_PREFIX } from '../../../src/api/names.ts';
import { type Container, type EngineSnapshot, runKey } from '../domain/container.ts';
import { containerDigest } from '../domain/digest.ts';
import type { Entry, HoldEntry, RunEntry } from '../domain/entry.ts';
import type { MicroserviceRecord, Records } from '../domain/record.ts';
import {
  type CREATE_REASONS,
  type ImagePolicy,
  type Plan,
  type START_REASONS,
  type Step,
  serialKey,
  type Wait,
} from '../domain/step.ts';
import { TIMES } from './backoff.ts';
import { arrangePorts } from './ports.ts';

/**
 * Decides what to do next: for each microservice the one step that its containers, its entry and its memory call for,
 * and beside it the pull of an image that it will need. Pure: the same input gives the same plan. The caller carries
 * steps out, looks again, and plans again until nothing is left; it may die between any two steps.
 *
 * Guarantees:
 * - a step never makes a second container of a microservice run: the old one is stopped before the new one starts;
 * - an old container is not stopped before the new one's image is there and the new one is made;
 * - when the new one cannot be pulled, made or started, the old one runs (again);
 * - an old container is not stopped for a port that somebody else keeps;
 * - nothing is removed for being absent from `desired` unless `desired` is known.
 */
export function plan(
  desired: readonly Entry[] | undefined,
  current: EngineSnapshot,
  now: number,
  memory: Records,
): Plan {
  const context: Context = { desired, current, now, memory, byUuid: groupByUuid(current.containers) };
  const decisions: Decision[] = [];
  const wanted = new Map((desired ?? []).map((entry) => [entry.uuid, entry]));
  for (const entry of wanted.values()) {
    const row = memory.get(entry.uuid);
    if (row) decisions.push(...planEntry(entry, row, context));
  }
  for (const [uuid, containers] of context.byUuid) {
    if (wanted.has(uuid)) continue;
    const row = memory.get(uuid);
    if (!row) continue;
    decisions.push(desired ? planAbsent(row, containers, context) : planUnknown(row, containers, context));
  }
  return collect(decisions, context);
}

type Decision = Step | Wait | undefined;

interface Context {
  desired: readonly Entry[] | undefined;
  current: EngineSnapshot;
  now: number;
  memory: Records;
  byUuid: ReadonlyMap<string, Container[]>;
}

/** Keeps what may be done now: a step that failed waits for its time, and a port is handed over by whoever has it. */
function collect(decisions: readonly Decision[], { memory, now, current }: Context): Plan {
  const steps = new Map<string, Step>();
  const waits: Wait[] = [];
  for (const decision of decisions) {
    if (!decision) continue;
    if ('why' in decision) {
      waits.push(decision);
      continue;
    }
    const failure = decision.kind === 'network' ? undefined : memory.get(decision.uuid)?.failure;
    if (failure && failure.step === decision.kind && now < failure.notBefore && REPEATED.has(decision.kind))
      waits.push({ uuid: (decision as { uuid: string }).uuid, why: 'RetryBackoff', until: failure.notBefore });
    else steps.set(serialKey(decision), decision);
  }
  const arranged = arrangePorts([...steps.values()], current.containers, now);
  return { steps: arranged.steps, waits: [...waits, ...arranged.waits] };
}

/** Steps whose failure has no other consequence than trying them again later. */
const REPEATED: ReadonlySet<Step['kind']> = new Set(['stop', 'resume', 'rename', 'remove']);

function planEntry(entry: Entry, row: MicroserviceRecord, context: Context): Decision[] {
  const containers = context.byUuid.get(entry.uuid) ?? [];
  const common = planAnyway(entry.uuid, row, containers, targetKey(entry));
  if (common !== 'go on') return [common];
  return entry.kind === 'run' ? planRun(entry, row, containers, context) : [planHold(entry, row, containers, context)];
}

/** What comes before any question of what is wanted: dead containers, duplicates, orders given on the machine. */
function planAnyway(
  uuid: string,
  row: MicroserviceRecord,
  containers: readonly Container[],
  target: string,
): Step | undefined | 'go on' {
  const dead = containers.find(({ state }) => state === 'dead');
  if (dead) return { kind: 'remove', uuid, target, containerId: dead.id, reason: 'Dead' };
  const paused = containers.find((container) => container.paused);
  if (paused) return resume(paused, target);
  const running = containers.filter(isRunning);
  if (row.stoppedLocally) return running[0] && stop(running[0], target, 'StoppedLocally');
  const restarted = running.find((container) => runKey(container) === row.live.restart?.key);
  if (restarted) return stop(restarted, target, 'RestartingLocally');
  // The newest stays: it was started last, so the older one is the one that should have been stopped.
  if (running.length > 1) return stop(running[running.length - 1] as Container, target, 'Duplicate');
  return 'go on';
}

function planRun(
  entry: RunEntry,
  row: MicroserviceRecord,
  containers: readonly Container[],
  context: Context,
): Decision[] {
  const { now, current } = context;
  const { uuid } = entry;
  const target = targetKey(entry);
  const matching = containers.filter((container) => servesEntry(container, entry, row, current));
  const fresh = matching.find(isRunning) ?? matching[0];
  const others = containers.filter((container) => container !== fresh);
  const old = others.find(isRunning) ?? others.find(hasRun);
  const leftover = others.find((container) => container !== old);
  const failed = row.failure && row.failure.target === target && now < row.failure.notBefore ? row.failure : undefined;
  const retry: Wait | undefined = failed && { uuid, why: 'RetryBackoff', until: failed.notBefore };

  if (fresh && isRunning(fresh)) {
    if (others[0]) return [remove(others[0], target, 'Replaced')];
    return [renameToCanonical(fresh, target)];
  }
  // An engine may lose the network while nothing runs on it; containers that know the lost one are made again.
  if (!entry.view.hostNetworkMode && current.networkId === undefined) return [{ kind: 'network' }];
  if (leftover && !isRunning(leftover)) return [remove(leftover, target, 'Leftover')];

  if (fresh && hasRun(fresh)) {
    if (old) return [isRunning(old) ? giveWay(old, target, entry) : remove(old, target, 'Replaced')];
    return [startAgain(fresh, row, target, context)];
  }
  if (fresh) {
    if (failed?.step === 'start' || failed?.step === 'remove') {
      if (!old || failed.containerId === old.id) return [retry];
      return [isRunning(old) ? remove(fresh, target, 'FailedToStart') : start(old, target, 'Returned')];
    }
    const order = waitForOrder(row, context);
    if (order) return [order, old && keepAlive(old, row, target, context)];
    if (old && isRunning(old)) return [giveWay(old, target, entry)];
    const reason = old ? 'Replacement' : startedLocally(row) ? 'StartedLocally' : 'New';
    return [{ ...start(fresh, target, reason, old !== undefined), ports: portsOf(entry) }];
  }

  const alive = old && keepAlive(old, row, target, context);
  if (failed) return [retry, alive];
  if (!imageIsKnown(entry, row)) return [lookUpImage(entry, row, old !== undefined), alive];
  return [create(entry, row, containers, whyNew(entry, row, old, current))];
}

/** Keeps what runs or ran last; makes a container only where someone removed the one that ran. */
function planHold(
  entry: HoldEntry,
  row: MicroserviceRecord,
  containers: readonly Container[],
  context: Context,
): Decision {
  const target = targetKey(entry);
  const running = containers.find(isRunning);
  if (entry.stop) return running && stop(running, target, 'PolicyRefused');
  if (running) return undefined;
  const kept =
    containers.find((container) => isLastGood(container, row) && hasRun(container)) ?? containers.find(hasRun);
  if (kept) return startAgain(kept, row, target, context);
  if (!row.lastGood || !row.image || containers.length > 0) return undefined;
  const failed = row.failure && context.now < row.failure.notBefore;
  if (failed && row.failure) return { uuid: entry.uuid, why: 'RetryBackoff', until: row.failure.notBefore };
  const view = row.lastGood;
  if (row.image.reference !== view.imageId) return undefined;
  if (!view.hostNetworkMode && context.current.networkId === undefined) return { kind: 'network' };
  return create(
    { kind: 'run', uuid: entry.uuid, view, digest: containerDigest(view) },
    row,
    containers,
    'Vanished',
    target,
  );
}

/** No longer wanted: stopped and removed, the last started first. Volumes stay. */
function planAbsent(row: MicroserviceRecord, containers: readonly Container[], context: Context): Decision {
  const { uuid } = row;
  const wait = waitForRemovalOrder(row, context);
  if (wait) return wait;
  const paused = containers.find((container) => container.paused);
  if (paused) return resume(paused, 'absent');
  const running = containers.find(isRunning);
  if (running) return stop(running, 'absent', 'NoLongerWanted');
  return (
    containers[0] && { kind: 'remove', uuid, target: 'absent', containerId: containers[0].id, reason: 'NoLongerWanted' }
  );
}

/** What is wanted is not known: keep running what ran. */
function planUnknown(row: MicroserviceRecord, containers: readonly Container[], context: Context): Decision {
  const common = planAnyway(row.uuid, row, containers, 'unknown');
  if (common !== 'go on') return common;
  return planHold({ kind: 'hold', uuid: row.uuid, reason: '', message: '' }, row, containers, context);
}

/** One text for what an entry asks of a container; failures and crashes are counted for a target. */
export function targetKey(entry: Entry): string {
  return entry.kind === 'hold' ? 'hold' : `${entry.digest}/${entry.view.rebuildOrder}`;
}

/** Whether the container is what the entry asks for. Never a comparison of engine settings. */
export function servesEntry(
  container: Container,
  entry: RunEntry,
  row: MicroserviceRecord,
  current: EngineSnapshot,
): boolean {
  return mismatch(container, entry, row, current) === undefined;
}

function mismatch(
  container: Container,
  entry: RunEntry,
  row: MicroserviceRecord,
  current: EngineSnapshot,
): keyof typeof CREATE_REASONS | undefined {
  if (container.digest !== entry.digest) return 'SpecChanged';
  if (container.rebuildOrder < entry.view.rebuildOrder) return 'RebuildOrdered';
  if (imageIsKnown(entry, row) && container.imageId !== row.image?.id) return 'ImageChanged';
  if (!isAttached(container, current)) return 'NetworkChanged';
  return undefined;
}

/** A container that has not run yet may not know its network's id; the engine attaches it when it starts. */
function isAttached(container: Container, { networkId }: EngineSnapshot): boolean {
  if (container.hostNetwork || !hasRun(container) || networkId === undefined) return true;
  if (container.networkId === networkId) return true;
  return container.networkId === '' && !isRunning(container);
}

function imageIsKnown({ view }: RunEntry, { image }: MicroserviceRecord): boolean {
  return image !== undefined && image.reference === view.imageId && image.rebuildOrder >= view.rebuildOrder;
}

function lookUpImage({ uuid, view, digest }: RunEntry, row: MicroserviceRecord, replaces: boolean): Step {
  const rebuild = row.image?.reference === view.imageId && row.image.rebuildOrder < view.rebuildOrder;
  const policy: ImagePolicy =
    view.registryId === BUILT_IN_REGISTRIES.local.id
      ? 'never'
      : rebuild
        ? 'fresh'
        : replaces || (row.image !== undefined && row.image.reference !== view.imageId)
          ? 'preferFresh'
          : 'ifMissing';
  return {
    kind: 'image',
    uuid,
    target: `${digest}/${view.rebuildOrder}`,
    reference: view.imageId,
    registryId: view.registryId,
    platform: view.platform,
    rebuildOrder: view.rebuildOrder,
    policy,
  };
}

function whyNew(
  entry: RunEntry,
  row: MicroserviceRecord,
  old: Container | undefined,
  current: EngineSnapshot,
): keyof typeof CREATE_REASONS {
  if (old) return mismatch(old, entry, row, current) ?? 'SpecChanged';
  return row.lastGood ? 'Vanished' : 'New';
}

function create(
  { uuid, view, digest }: RunEntry,
  row: MicroserviceRecord,
  containers: readonly Container[],
  reason: keyof typeof CREATE_REASONS,
  target = `${digest}/${view.rebuildOrder}`,
): Step {
  const generation = Math.max(row.generation, 0, ...containers.map((container) => container.generation)) + 1;
  const name = canonicalName(uuid);
  // By an older container of ours, or by somebody who has nothing to do with us.
  const taken = containers.some((container) => container.name === name) || row.failure?.reason === 'NameTaken';
  return {
    kind: 'create',
    uuid,
    target,
    view,
    digest,
    imageId: row.image?.id ?? '',
    rebuildOrder: view.rebuildOrder,
    generation,
    name: taken ? `${name}-g${generation}` : name,
    reason,
  };
}

/** Starts a stopped container again when its time has come. */
function startAgain(container: Container, row: MicroserviceRecord, target: string, context: Context): Decision {
  const { uuid, crash, failure } = row;
  const reason = startReason(row);
  const orderedHere = reason === 'StartedLocally';
  const { leftAloneUntil = 0 } = row.live;
  if (!orderedHere && context.now < leftAloneUntil) return { uuid, why: 'RetryBackoff', until: leftAloneUntil };
  if (reason === 'Crashed' && crash && context.now < crash.notBefore)
    return { uuid, why: 'CrashBackoff', until: crash.notBefore };
  if (!orderedHere && failure?.step === 'start' && failure.target === target && context.now < failure.notBefore)
    return { uuid, why: 'RetryBackoff', until: failure.notBefore };
  return waitForOrder(row, context) ?? start(container, target, reason);
}

/** The old container runs on while its successor is not ready; its own crashes are backed off as ever. */
function keepAlive(old: Container, row: MicroserviceRecord, target: string, { now }: Context): Decision {
  if (isRunning(old) || !hasRun(old)) return undefined;
  const { failure } = row;
  if (failure?.step === 'start' && failure.containerId === old.id && now < failure.notBefore)
    return { uuid: row.uuid, why: 'RetryBackoff', until: failure.notBefore };
  const reason = startReason(row);
  if (reason === 'Crashed' && row.crash && now < row.crash.notBefore)
    return { uuid: row.uuid, why: 'CrashBackoff', until: row.crash.notBefore };
  return start(old, target, reason === 'Crashed' || reason === 'StartedLocally' ? reason : 'Returned');
}

const CAUSE_REASONS = {
  Stopped: 'FoundStopped',
  Crash: 'Crashed',
  Engine: 'EngineRestarted',
  Reboot: 'MachineRebooted',
  Unwatched: 'FoundStopped',
} as const satisfies Record<string, keyof typeof START_REASONS>;

function startReason(row: MicroserviceRecord): keyof typeof START_REASONS {
  if (startedLocally(row)) return 'StartedLocally';
  return row.exit ? CAUSE_REASONS[row.exit.cause] : 'FoundStopped';
}

function startedLocally({ live }: MicroserviceRecord): boolean {
  return live.startedLocally === true || live.restart !== undefined;
}

/** System microservices first, then by `schedule`, ascending. */
function orderOf({ isSystem, schedule }: { isSystem: boolean; schedule: number }): number {
  return (isSystem ? 0 : 1000) + schedule;
}

/** Each waits for those before it to be up, but for none longer than a minute. */
function waitForOrder(row: MicroserviceRecord, { desired, memory, now }: Context): Wait | undefined {
  if (startedLocally(row)) return undefined;
  let until = 0;
  for (const entry of desired ?? []) {
    const other = memory.get(entry.uuid);
    if (!other || entry.kind !== 'run' || other.stoppedLocally || orderOf(other) >= orderOf(row)) continue;
    // What has failed is tried again later, and whoever comes after it must not wait for that.
    if (other.failure) continue;
    if (other.live.downSince !== undefined) until = Math.max(until, other.live.downSince + TIMES.orderWait);
  }
  return until > now ? { uuid: row.uuid, why: 'Order', until } : undefined;
}

function waitForRemovalOrder(row: MicroserviceRecord, { desired, memory, byUuid, now }: Context): Wait | undefined {
  const wanted = new Set((desired ?? []).map(({ uuid }) => uuid));
  let until = 0;
  for (const uuid of byUuid.keys()) {
    const other = memory.get(uuid);
    if (!other || wanted.has(uuid) || orderOf(other) <= orderOf(row)) continue;
    if (other.live.unwantedSince !== undefined) until = Math.max(until, other.live.unwantedSince + TIMES.orderWait);
  }
  return until > now ? { uuid: row.uuid, why: 'Order', until } : undefined;
}

/** Newest first. */
function groupByUuid(containers: readonly Container[]): Map<string, Container[]> {
  const groups = new Map<string, Container[]>();
  for (const container of containers) groups.set(container.uuid, [...(groups.get(container.uuid) ?? []), container]);
  // Of two with one generation the later is a copy that somebody else made.
  for (const group of groups.values())
    group.sort((a, b) => b.generation - a.generation || a.startedAt - b.startedAt || (a.id < b.id ? -1 : 1));
  return groups;
}

/** The name that a microservice's container bears once it is alone. */
export function canonicalName(uuid: string): string {
  return `${CONTAINER_NAME_PREFIX}${uuid}`;
}

function renameToCanonical(container: Container, target: string): Step | undefined {
  const name = canonicalName(container.uuid);
  if (container.name === name) return undefined;
  return { kind: 'rename', uuid: container.uuid, target, containerId: container.id, name };
}

function isRunning({ state }: Container): boolean {
  return state === 'running';
}

function hasRun({ startedAt }: Container): boolean {
  return startedAt > 0;
}

function isLastGood(container: Container, { lastGood }: MicroserviceRecord): boolean {
  return lastGood !== undefined && container.revision === lastGood.revision;
}

function start(
  { uuid, id }: Container,
  target: string,
  reason: keyof typeof START_REASONS,
  protects = false,
): Extract<Step, { kind: 'start' }> {
  return { kind: 'start', uuid, target, containerId: id, protects, reason };
}

/** Somebody froze it: what is wanted has to run, and what is to end has to hear of it. */
function resume(container: Container, target: string): Step {
  return { kind: 'resume', uuid: container.uuid, target, containerId: container.id, reason: 'Paused' };
}

function stop(
  { uuid, id }: Container,
  target: string,
  reason: Extract<Step, { kind: 'stop' }>['reason'],
): Extract<Step, { kind: 'stop' }> {
  return { kind: 'stop', uuid, target, containerId: id, reason };
}

/** Stops a container for its successor. */
function giveWay(old: Container, target: string, entry: RunEntry): Step {
  return { ...stop(old, target, 'Replacing'), ports: portsOf(entry) };
}

/** What a container of the entry will publish on the machine. */
function portsOf({ view }: RunEntry): readonly PortMapping[] | undefined {
  return view.hostNetworkMode || view.portMappings.length === 0 ? undefined : view.portMappings;
}

function remove(
  { uuid, id }: Container,
  target: string,
  reason: Extract<Step, { kind: 'remove' }>['reason'],
): Extract<Step, { kind: 'remove' }> {
  return { kind: 'remove', uuid, target, containerId: id, reason };
}
