import type { MicroserviceState, MicroserviceStatus, MicroserviceView } from '../../../../src/wire/agent.ts';
import { containerDigest } from '../../domain/digest.ts';
import { type Entry, POLICY_REFUSED } from '../../domain/entry.ts';
import type { MicroserviceRecord } from '../../domain/record.ts';
import type { BareStep, Wait } from '../../domain/step.ts';
import { type Container, type EngineSnapshot, runKey } from '../../engine-port/container.ts';
import { STUCK_AFTER, TIMES } from './backoff.ts';
import { servesEntry } from './serves.ts';
import { withEntry } from './update-records.ts';

/** The input of the status of one microservice. */
export interface StatusInput {
  entry: Entry | undefined;
  /** it has no entry, and that is known to be meant */
  isUnwanted: boolean;
  record: MicroserviceRecord;
  containers: readonly Container[];
  snapshot: EngineSnapshot;
  /** the step that is being carried out */
  step?: BareStep;
  /** pull progress 0..100 */
  percentage?: number;
  wait?: Wait;
  /** why the network that containers share could not be made */
  networkProblem?: string;
  notHonoured?: MicroserviceStatus['notHonoured'];
  now: number;
}

interface Facts extends StatusInput {
  running: Container | undefined;
  crashes: number;
  settled: boolean;
}

interface StateAndReason {
  state: MicroserviceState;
  reason?: string;
}

/** Asked in this order; the first that answers gives the state. */
const RULES: readonly ((facts: Facts) => StateAndReason | undefined | false)[] = [
  ({ record, containers }) => record.gone && containers.length === 0 && { state: 'STOPPED' },
  // no longer wanted
  ({ isUnwanted, running }) => isUnwanted && { state: running ? 'STOPPING' : 'DELETING' },
  // stopped by a person on the machine
  ({ record, running }) =>
    record.stoppedLocally && { state: running ? 'STOPPING' : 'STOPPED', reason: 'StoppedLocally' },
  // paused by a person on the machine: it exists and does nothing
  ({ running }) => running?.paused && { state: 'FAILED', reason: 'Paused' },
  // running, perhaps about to be replaced
  ({ running, step }) => running && step?.kind === 'stop' && step.reason === 'Replacing' && { state: 'UPDATING' },
  ({ running, record }) => running && record.live.restart?.key === runKey(running) && { state: 'RESTARTING' },
  ({ running, crashes, settled }) =>
    running && crashes >= STUCK_AFTER && !settled && { state: 'STUCK_IN_RESTART', reason: 'Crashed' },
  ({ running, record, entry, wait }) =>
    running && {
      state: 'RUNNING',
      reason: record.failure?.reason ?? holdReason(entry) ?? portReason(wait) ?? artifactReason(wait),
    },
  // on its way
  ({ record, step }) => step?.kind === 'image' && !record.failure && { state: 'PULLING' },
  ({ record, step }) => step?.kind === 'create' && !record.failure && { state: 'CREATING' },
  ({ record, step, crashes }) => step?.kind === 'start' && !record.failure && crashes === 0 && { state: 'STARTING' },
  // not running, and why
  ({ record }) => record.failure && { state: 'FAILED', reason: record.failure.reason },
  ({ crashes }) =>
    crashes > 0 && { state: crashes >= STUCK_AFTER ? 'STUCK_IN_RESTART' : 'RESTARTING', reason: 'Crashed' },
  ({ entry }) =>
    entry?.kind === 'hold' && entry.reason === POLICY_REFUSED && { state: 'FAILED', reason: POLICY_REFUSED },
  ({ wait }) => wait?.why === 'ArtifactFailed' && { state: 'FAILED', reason: artifactReason(wait) },
  ({ wait }) => wait?.why === 'Artifacts' && { state: 'QUEUED', reason: artifactReason(wait) },
  ({ wait }) => wait?.why === 'Order' && { state: 'QUEUED', reason: 'WaitingForOrder' },
  ({ wait }) => wait?.why === 'Port' && { state: 'QUEUED', reason: portReason(wait) },
  ({ entry, networkProblem }) =>
    networkProblem !== undefined &&
    entry?.kind === 'run' &&
    !entry.view.hostNetworkMode && { state: 'QUEUED', reason: NETWORK_FAILED },
];

const NETWORK_FAILED = 'NetworkFailed';
const ENGINE_UNAVAILABLE = 'EngineUnavailable';
const PAUSED = 'the container is paused on its machine';

/** What the node reports of one microservice; usage is added by the caller. Pure. */
export function statusOf(input: StatusInput): MicroserviceStatus {
  const { entry, containers, now, wait } = input;
  // What is wanted may have changed since the last look.
  const record = entry ? withEntry(input.record, entry) : input.record;
  const running = containers.find(({ state }) => state === 'running');
  const shown = running ?? containers.find(({ startedAt }) => startedAt > 0) ?? containers[0];
  const since = record.live.running?.since;
  const settled = running !== undefined && since !== undefined && now - since >= TIMES.errorClears;
  const waitsForCrash = wait?.why === 'CrashBackoff' || record.exit?.cause === 'Crash';
  const crashes = record.crash && (running || waitsForCrash) ? record.crash.count : 0;
  const facts: Facts = { ...input, record, running, crashes, settled };
  const { state, reason } = firstOf(facts) ?? { state: 'QUEUED', reason: holdReason(entry) };
  const holdMessage = entry?.kind === 'hold' ? entry.message : '';
  return {
    ...recordPart(record),
    status: state,
    reason,
    percentage: input.step?.kind === 'image' ? input.percentage : undefined,
    errorMessage: (
      record.failure?.message ??
      record.error?.message ??
      (running?.paused ? PAUSED : wait?.message) ??
      (reason === NETWORK_FAILED ? input.networkProblem : undefined) ??
      holdMessage
    ).slice(0, 1024),
    notHonoured: input.notHonoured?.length ? input.notHonoured.slice(0, 16) : undefined,
    ...(shown && containerPart(shown, input, running !== undefined)),
  };
}

/**
 * What is reported of a microservice while the engine cannot be read. One that is gone stays gone: its containers were
 * seen to be removed, and only this agent makes containers of it. Pure.
 */
export function unknownStatus(
  record: MicroserviceRecord,
  entry: Entry | undefined,
  problem: string,
): MicroserviceStatus {
  const { containerId, gone } = record;
  const { application, name } = entry ? withEntry(record, entry) : record;
  const known = recordPart({ ...record, application, name });
  if (gone && !entry) return { ...known, status: 'STOPPED', errorMessage: '' };
  return {
    ...known,
    status: 'UNKNOWN',
    reason: ENGINE_UNAVAILABLE,
    errorMessage: problem.slice(0, 1024),
    ...{ containerId, podId: containerId },
  };
}

/** What the record alone says of a microservice. */
function recordPart({ uuid, name, application, lastError, lastErrorAt, restartCount }: MicroserviceRecord) {
  return {
    id: uuid,
    name: name || undefined,
    application: application || undefined,
    lastError: lastError?.slice(0, 1024),
    lastErrorAt,
    restartCount: restartCount || undefined,
  };
}

function firstOf(facts: Facts): StateAndReason | undefined {
  for (const rule of RULES) {
    const found = rule(facts);
    if (found) return found;
  }
  return undefined;
}

function holdReason(entry: Entry | undefined): string | undefined {
  return entry?.kind === 'hold' ? entry.reason || undefined : undefined;
}

/** Another microservice of this node has the port that it needs. */
function portReason(wait: Wait | undefined): string | undefined {
  return wait?.why === 'Port' ? 'PortTaken' : undefined;
}

/** A model or knowledge that it mounts is not on this machine. */
function artifactReason(wait: Wait | undefined): string | undefined {
  if (wait?.why === 'ArtifactFailed') return 'ArtifactFailed';
  return wait?.why === 'Artifacts' ? 'WaitingForArtifacts' : undefined;
}

function containerPart(container: Container, input: StatusInput, running: boolean): Partial<MicroserviceStatus> {
  return {
    containerId: container.id,
    podId: container.podId ?? container.id,
    imageId: container.imageId,
    image: viewOf(container, input)?.imageId,
    revision: revisionOf(container, input),
    rebuildCount: container.startedAt > 0 ? container.rebuildCount : undefined,
    ...(running && {
      startTime: container.startedAt,
      ipAddress: container.ip,
      healthStatus: container.health,
      healthMessage: input.record.live.check?.message,
      ports: container.ports.length > 0 ? [...container.ports] : undefined,
    }),
  };
}

/**
 * The revision that a container stands for. Its label names the revision that it was made for; it also serves a later
 * revision that asks for the same container.
 */
function revisionOf(container: Container, { entry, record, snapshot }: StatusInput): string | undefined {
  if (entry?.kind === 'run' && servesEntry(container, entry, record, snapshot)) return entry.view.revision || undefined;
  const { lastGood } = record;
  if (lastGood && containerDigest(lastGood) === container.digest) return lastGood.revision || undefined;
  return container.revision || undefined;
}

/** The view that a container was made from, where it is still known. */
function viewOf({ digest }: Container, { entry, record: { lastGood } }: StatusInput): MicroserviceView | undefined {
  if (entry?.kind === 'run' && entry.digest === digest) return entry.view;
  return lastGood && containerDigest(lastGood) === digest ? lastGood : undefined;
}
