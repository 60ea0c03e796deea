import { BOUNDS } from '../../../api/bounds.ts';
import { printable } from '../../../api/printable.ts';
import type { EdgeNode, ObservedMicroservice } from '../../../api/v3/index.ts';
import { cut } from '../../../rules/conditions.ts';
import type { DesiredEntry, DesiredState, Liveness, Observation } from '../../../rules/inputs.ts';
import type { MicroserviceStatus, StatusReport } from '../../../wire/agent.ts';
import { stateInSilence } from './microservice-state.ts';
import { joinSent } from './sent-list.ts';

/**
 * The report after a delta: absent members keep their value; microserviceStatus, when present, is the whole list, in
 * which an absent errorMessage keeps its value (docs/spec/agent-channel.md#status-report).
 */
export function mergeReport(report: StatusReport, delta: StatusReport): StatusReport {
  const said = Object.fromEntries(Object.entries(delta).filter(([, value]) => value !== undefined)) as StatusReport;
  // A clock reading belongs to its own report and not to later ones.
  const { systemTime: _, ...known } = report;
  const kept = withoutFormerList(known, said);
  const before = new Map((report.microserviceStatus ?? []).map((item) => [item.id, item]));
  return {
    ...kept,
    ...said,
    ...(said.microserviceStatus && {
      microserviceStatus: said.microserviceStatus.map((item) => {
        const errorMessage = item.errorMessage ?? before.get(item.id)?.errorMessage;
        return errorMessage === undefined ? item : { ...item, errorMessage };
      }),
    }),
    ...(said.actions && { actions: { ...report.actions, ...said.actions } }),
  };
}

/**
 * A report belongs to the process that sent it. After a restart or an upgrade of the agent, drops the last list and its
 * statuses until the new process reports: it may send no lists.
 */
function withoutFormerList(known: StatusReport, said: StatusReport): StatusReport {
  const isSame = (['version', 'daemonLastStart'] as const).every(
    (member) => said[member] === undefined || said[member] === known[member],
  );
  if (isSame || known.microserviceList === undefined || said.microserviceList !== undefined) return known;
  const { microserviceList: _list, microserviceStatus: _status, ...kept } = known;
  return kept;
}

/** Smaller differences are due to latency and coarse clocks. */
const SKEW_MS = 5_000;

/** Milliseconds to add to times of the agent's clock to get times of the controller's. */
function clockOffset(observation: Pick<Observation, 'report' | 'reportedAt'>): number {
  const offset = exactOffset(observation);
  return Math.abs(offset) < SKEW_MS ? 0 : offset;
}

function exactOffset({ report: { systemTime }, reportedAt }: Pick<Observation, 'report' | 'reportedAt'>): number {
  return !systemTime || reportedAt === undefined ? 0 : Math.round(reportedAt - systemTime);
}

interface ObserveInputs {
  node: EdgeNode;
  observation: Observation | undefined;
  desired: Pick<DesiredState, 'entries'> | undefined;
  removed?: ReadonlyMap<string, Pick<DesiredEntry, 'application' | 'name'>> | undefined;
  liveness: Liveness;
}

/**
 * The microservices in the status of a node, sorted by uuid. Measurements are left out, so that the status changes only
 * when something happens.
 */
export function observedMicroservices(inputs: ObserveInputs): ObservedMicroservice[] | undefined {
  const { node, observation, desired, liveness } = inputs;
  const previous = node.status?.microservices;
  const known = reportedItems(inputs) ?? previous;
  if (!known) return undefined;
  const items = liveness === 'silent' ? known.map((item) => silenced(item, desired)) : known;
  const kept = observation?.report.microserviceStatus ? items.filter((item) => !isGone(item, desired)) : items;
  return withinBounds(kept, desired).sort((a, b) => (a.uuid < b.uuid ? -1 : a.uuid > b.uuid ? 1 : 0));
}

type Items = readonly ObservedMicroservice[];
type IsAsked = (item: ObservedMicroservice) => boolean;

/**
 * Limits the number of items, and their bytes depending on how many entries the node has. Items of entries come before
 * those of removed entries, and states before texts.
 */
function withinBounds(items: Items, desired: Pick<DesiredState, 'entries'> | undefined): ObservedMicroservice[] {
  const isAsked: IsAsked = ({ uuid }) => desired?.entries.has(uuid) ?? false;
  const most = Math.min(BYTES.most, BYTES.base + BYTES.perEntry * (desired?.entries.size ?? 0));
  let kept = [...items].sort((a, b) => Number(isAsked(b)) - Number(isAsked(a))).slice(0, BOUNDS.report);
  for (const shrink of SHRINKS) {
    if (bytesOf(kept) <= most) return kept;
    kept = shrink(kept, isAsked);
  }
  while (kept.length > 0 && bytesOf(kept) > most) kept = kept.slice(0, Math.floor(kept.length * 0.9));
  return kept;
}

/** Bytes of JSON that the microservices of one node may have: an ordinary one takes 500, one without names 100. */
const BYTES = { base: 64 * 1024, perEntry: 4 * 1024, most: 512 * 1024 };

const bytesOf = (items: Items) => Buffer.byteLength(JSON.stringify(items));

/** Applied in this order until the result is small enough. */
const SHRINKS: readonly ((items: Items, isAsked: IsAsked) => ObservedMicroservice[])[] = [
  (items, isAsked) => items.map((item) => (isAsked(item) ? item : withTexts(item, 0))),
  (items) => items.map((item) => withTexts(item, 256)),
  (items) => items.map((item) => withTexts({ ...item, notHonoured: undefined }, 64)),
  (items, isAsked) => items.map((item) => (isAsked(item) ? item : { uuid: item.uuid, state: item.state })),
];

const withTexts = (item: ObservedMicroservice, max: number) =>
  withoutEmpty({
    ...item,
    errorMessage: item.errorMessage && cut(item.errorMessage, max),
    lastError: item.lastError && cut(item.lastError, max),
    healthMessage: item.healthMessage && cut(item.healthMessage, max),
    notHonoured: max > 0 ? item.notHonoured : undefined,
  });

function reportedItems(inputs: ObserveInputs): ObservedMicroservice[] | undefined {
  const { node, observation, desired } = inputs;
  const reported = observation?.report.microserviceStatus;
  if (!reported) return undefined;
  const previous = new Map((node.status?.microservices ?? []).map((item) => [item.uuid, item]));
  const items = new Map(
    reported
      // halves of surrogate pairs are all stored as one character, and with two equal ids the status could not be written
      .filter(({ id }) => id !== '' && id.isWellFormed())
      .map((item) => [item.id, observed(item, previous.get(item.id), observation, inputs)] as const),
  );
  for (const item of previous.values()) {
    if (items.has(item.uuid)) continue;
    const omitted = whenOmitted(item, desired);
    if (omitted) items.set(item.uuid, omitted);
  }
  return [...items.values()];
}

function observed(
  item: MicroserviceStatus,
  previous: ObservedMicroservice | undefined,
  observation: Observation,
  { node, desired, removed }: ObserveInputs,
): ObservedMicroservice {
  // Names refer to other objects, so they come from placed entries and never from the machine.
  const names: Partial<Pick<DesiredEntry, 'application' | 'name'>> =
    desired?.entries.get(item.id) ?? removed?.get(item.id) ?? previous ?? {};
  const lastError = shortText(item.lastError);
  const sameError = lastError === previous?.lastError;
  const startTime = steadyTime(item, previous, observation);
  const { revision, imageId, image, rebuildCount, sent } = carriedOut(item, previous, observation, node);
  return withoutEmpty({
    uuid: item.id,
    application: names.application,
    name: names.name,
    revision,
    imageId,
    image,
    containerId: item.containerId,
    state: item.status,
    reason: item.reason,
    healthStatus: item.healthStatus,
    // What a container wrote becomes part of events and conditions.
    healthMessage: item.healthMessage && cut(printable(item.healthMessage), BOUNDS.healthMessage),
    // An agent that echoes revisions reports all its ports: an absent list means that there are none.
    ports: item.ports || item.revision !== undefined ? sortedPorts(item.ports ?? []) : undefined,
    ipAddress: item.ipAddress,
    startTime,
    // Absent means unchanged, even when a former leader received the report before.
    errorMessage: shortText(item.errorMessage ?? previous?.errorMessage),
    lastError,
    lastErrorAt: steady(item.lastErrorAt, sameError ? previous?.lastErrorAt : undefined, observation),
    restartCount: count(item.restartCount),
    ...steadiness(item, previous, { revision, startTime }, observation),
    rebuildCount,
    sent,
    notHonoured: item.notHonoured?.length ? item.notHonoured : undefined,
  });
}

/** A microservice that ended twice within this time must run for as long before it counts as ready. */
export const STEADY_MS = 60_000;

/** Whether a microservice ends repeatedly, by the controller's clock: an agent's clock may be wrong by hours. */
function steadiness(
  item: MicroserviceStatus,
  previous: ObservedMicroservice | undefined,
  { revision, startTime: started }: Pick<ObservedMicroservice, 'revision' | 'startTime'>,
  { reportedAt = 0 }: Observation,
): Pick<ObservedMicroservice, 'lastEndTime' | 'isUnsteady'> {
  const wasStuck = previous?.state === 'STUCK_IN_RESTART';
  // Agents of other makes count no ends; the time stays, so that the reports of one loop are no changes.
  if (item.status === 'STUCK_IN_RESTART')
    return { lastEndTime: (wasStuck ? previous.lastEndTime : undefined) ?? reportedAt, isUnsteady: true };
  const ends = endsOf({ state: item.status, reason: item.reason, restartCount: count(item.restartCount) });
  const more = ends - endsOf(previous ?? {});
  if (!previous || more < 0) return {};
  const { lastEndTime, startTime, isUnsteady } = previous;
  const isOther = previous.revision !== undefined && previous.revision !== revision;
  // Such an agent may report a container as running that ended before its last report of the loop.
  const isLate = wasStuck && started !== undefined && lastEndTime !== undefined && started < lastEndTime;
  // After a change or a rebuild, the former counts do not apply.
  if (isOther && !isLate) return {};
  if (more > 0) {
    const again = more > 1 || (lastEndTime !== undefined && reportedAt - lastEndTime < STEADY_MS);
    const ranLong = startTime !== undefined && reportedAt - startTime >= STEADY_MS;
    return { lastEndTime: reportedAt, isUnsteady: again || (isUnsteady && !ranLong) || undefined };
  }
  return { lastEndTime, isUnsteady };
}

/** How often a microservice ended by itself since the last rebuild; an end counts when it is restarted. */
const endsOf = ({ state, reason, restartCount = 0 }: Partial<ObservedMicroservice>) =>
  restartCount + Number(state === 'RESTARTING' && reason === 'Crashed');

/** Engines that give each container a unique id. */
const UNIQUE_IDS: ReadonlySet<string> = new Set(['docker', 'podman']);
/** An id as these engines make it; agents of other makes may not name their engine. */
const UNIQUE_ID = /^[0-9a-f]{64}$/;
const isUnique = (containerId: string, engine: string | undefined) =>
  engine === undefined ? UNIQUE_ID.test(containerId) : UNIQUE_IDS.has(engine);

type CarriedOut = Pick<ObservedMicroservice, 'revision' | 'imageId' | 'image' | 'rebuildCount' | 'sent'>;

/**
 * Revision, image and rebuilds of the running container. For agents that do not echo them, they follow from what was sent
 * and when (docs/spec/agent-channel.md#third-party-agents): a later report is about what was sent, and when that needs a new
 * container, the container must have started later too. What was sent is stored, since a container may start while
 * no controller listens.
 */
function carriedOut(
  item: MicroserviceStatus,
  previous: ObservedMicroservice | undefined,
  observation: Observation,
  node: EdgeNode,
): CarriedOut {
  const known = {
    revision: previous?.revision,
    imageId: item.imageId ?? previous?.imageId,
    image: previous?.image,
    rebuildCount: previous?.rebuildCount,
  };
  const echoes = observation.agent !== undefined || item.revision !== undefined;
  if (echoes)
    return {
      revision: item.revision,
      imageId: item.imageId,
      image: item.image,
      rebuildCount: count(item.rebuildCount ?? known.rebuildCount),
    };
  const sent = joinSent(previous?.sent, observation, item.id);
  if (!sent || !item.startTime || (observation.reportedAt ?? 0) <= sent.at) return { ...known, sent };
  // The same unique id means that the container was restarted.
  const isSame =
    item.containerId !== undefined &&
    item.containerId === previous?.containerId &&
    isUnique(item.containerId, node.status?.containerEngine);
  const startedLater = !isSame && item.startTime + exactOffset(observation) > sent.at;
  // The start of a container that ran before the first report cannot be compared.
  const wasRunning = known.revision === undefined && (previous === undefined || previous.startTime !== undefined);
  const isSent = startedLater || wasRunning || known.revision === sent.revision;
  return {
    revision: isSent ? sent.revision : known.revision,
    imageId: isSent ? (item.imageId ?? sent.imageId) : known.imageId,
    image: isSent ? sent.imageId : known.image,
    rebuildCount: startedLater ? count(sent.rebuildCount) : known.rebuildCount,
    sent,
  };
}

/** The start time of a run keeps its first value: latency would otherwise change it with every report. */
function steadyTime(
  item: MicroserviceStatus,
  previous: ObservedMicroservice | undefined,
  observation: Observation,
): number | undefined {
  const sameRun =
    previous?.containerId === item.containerId && (previous?.restartCount ?? 0) === (count(item.restartCount) ?? 0);
  return steady(item.startTime, sameRun ? previous?.startTime : undefined, observation);
}

/** A time of the agent by the controller's clock; `previous` while both are about the same event. */
function steady(
  reported: number | undefined,
  previous: number | undefined,
  observation: Observation,
): number | undefined {
  if (!reported || reported < 0) return undefined;
  // Our agent sends its clock with every full report; between those, the value that was corrected then is more exact.
  if (previous !== undefined && observation.agent !== undefined && !observation.report.systemTime) return previous;
  const corrected = Math.max(0, Math.round(reported + clockOffset(observation)));
  const moved = previous === undefined ? Number.POSITIVE_INFINITY : Math.abs(corrected - previous);
  return moved <= 2 * SKEW_MS ? previous : corrected;
}

/** A microservice of a silent node: UNKNOWN, except that a microservice that was stopped as asked stays STOPPED. */
function silenced(item: ObservedMicroservice, desired: Pick<DesiredState, 'entries'> | undefined) {
  const wanted = desired?.entries.get(item.uuid)?.shouldRun !== false;
  return { ...item, state: stateInSilence(item.state, wanted) };
}

/** An item that the report omits: STOPPED when it should not run, else UNKNOWN; without an entry it is removed. */
function whenOmitted(
  item: ObservedMicroservice,
  desired: Pick<DesiredState, 'entries'> | undefined,
): ObservedMicroservice | undefined {
  const { uuid, application, name, revision, lastError, lastErrorAt, restartCount, rebuildCount, sent } = item;
  const entry = desired?.entries.get(uuid);
  if (desired && !entry) return undefined;
  return withoutEmpty({
    uuid,
    application,
    name,
    revision,
    state: entry?.shouldRun === false ? 'STOPPED' : 'UNKNOWN',
    ports: [],
    lastError,
    lastErrorAt,
    restartCount,
    rebuildCount,
    sent,
  });
}

/** States in which a removed microservice has no container left. */
const GONE: ReadonlySet<string> = new Set(['STOPPED', 'DELETED']);

function isGone(item: ObservedMicroservice, desired: Pick<DesiredState, 'entries'> | undefined): boolean {
  return desired !== undefined && !desired.entries.has(item.uuid) && GONE.has(item.state);
}

const sortedPorts = (ports: NonNullable<MicroserviceStatus['ports']>) =>
  [...ports].sort((a, b) => a.external - b.external || (a.protocol < b.protocol ? -1 : 1));

const shortText = (text: string | undefined) => (text ? cut(withoutIds(text), BOUNDS.message) : undefined);

/**
 * Messages of engines have ids that differ at each attempt, and each new text would cause a write. Digests of
 * images stay, since they identify the image.
 */
const withoutIds = (text: string) =>
  text.replace(/(?<!sha256:)\b[0-9a-f]{64}\b|(?<=\bcontainer(?: with id)? ["']?)[0-9a-f]{12}\b/gi, '<id>');

const count = (value: number | undefined): number | undefined =>
  value === undefined ? undefined : Math.min(Math.max(0, Math.round(value)), Number.MAX_SAFE_INTEGER);

function withoutEmpty(item: ObservedMicroservice): ObservedMicroservice {
  return Object.fromEntries(
    Object.entries(item).filter(([, value]) => value !== undefined && value !== ''),
  ) as ObservedMicroservice;
}
