import { BOUNDS } from '../../../../api/bounds.ts';
import { applicationResource } from '../../../../api/v3/application.ts';
import type {
  Application,
  ApplicationStatus,
  MicroserviceEntry,
  ObservedMicroservice,
} from '../../../../api/v3/index.ts';
import { conditionsOf, cut, type Finding, joined, kstatus, type Progress } from '../../../../rules/conditions.ts';
import { ownerOf } from '../../../../rules/deletion.ts';
import { isIdentityTaken } from '../../../../rules/identity.ts';
import { missingRules } from '../../../../rules/missing-rules.ts';
import { entryUuid, v3Name } from '../../../../rules/names.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import type { MicroserviceHold, MicroserviceView } from '../../../../wire/agent.ts';
import { actionIgnored, rebuildCountOf } from '../../../nodes/rules/actions.ts';
import { stateOf } from '../../../nodes/rules/microservice-state.ts';
import { unreadFields } from '../../../nodes/rules/older-agents.ts';
import { currentNodeAmong, nodeAmong, shouldRun } from '../../../nodes/rules/placement/entries.ts';
import { type FormerNode, formerNodeText, isNode, placements } from '../../../nodes/rules/placement/moves.ts';
import { type EntryFacts, minReadyMs, progressOf } from './entry-progress.ts';
import { asksForBus, fieldsNotActing } from './not-acting.ts';
import { removedLines } from './removed-lines.ts';
import type { ApplicationStatusInputs, NodeFacts, StatusLine } from './status-inputs.ts';

/** Status of an application. Until `readyAt` the same inputs give the same status, transition times included. */
export function applicationStatus(inputs: ApplicationStatusInputs): ApplicationStatus {
  const { application, now } = inputs;
  const places = placementsIn(inputs);
  const entries = (application.spec.microservices ?? []).map((entry) => entryLine(entry, inputs, places));
  const removed = removedLines(inputs, entries);
  const lines = [...entries, ...removed].sort(byName);
  // Where an entry may have a container is in its line alone, so no removed one takes its room.
  const shown = [...entries, ...removed.sort(byName).slice(0, Math.max(0, BOUNDS.report - entries.length))].sort(
    byName,
  );
  const total = lines.filter(({ wanted }) => wanted).length;
  const ready = lines.filter(({ wanted, progress }) => wanted && progress.is === 'done').length;
  return {
    observedGeneration: application.metadata.generation ?? 0,
    conditions: conditionsOf(
      applicationResource,
      application,
      {
        ...overall(inputs, lines, `${ready}/${total} ready`),
        Admitted: admitted(inputs),
        MayRunElsewhere: mayRunElsewhere(lines),
        ActionIgnored: actionIgnored(application),
        NotSupportedYet: notSupportedYet(inputs, lines),
        ...missingRules(inputs.missingRules ?? []),
      },
      now,
    ),
    ready: `${ready}/${total}`,
    readyCount: Math.min(ready, BOUNDS.report),
    totalCount: Math.min(total, BOUNDS.report),
    microservices: shown.map(({ name, uuid, node, nodeUuid, state, rebuildCount = 0, ...line }) => ({
      name,
      ...(!line.isTaken && { uuid }),
      ...(node !== undefined && { node }),
      ...(nodeUuid !== undefined && { nodeUuid }),
      state,
      ready: line.progress.is === 'done',
      ...(rebuildCount > 0 && { rebuildCount }),
      ...(line.progress.message && { message: cut(line.progress.message, BOUNDS.message) }),
      ...(line.formerNodes?.length && { formerNodes: [...line.formerNodes] }),
    })),
  };
}

const byName = (a: StatusLine, b: StatusLine) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);

/** Where each entry may have a container, by entry name. */
export function placementsIn(inputs: ApplicationStatusInputs) {
  const { application, nodes, leftEarly, now } = inputs;
  return placements({
    application,
    nodeOf: (entry) => currentNodeAmong(entry, inputs)?.node,
    factsOf(former) {
      const found = nodes.find(({ node }) => isNode(former, node));
      return {
        node: found?.node,
        liveness: found?.liveness,
        due: found?.desired.digests?.microserviceList,
        observation: found?.observation,
      };
    },
    ...(leftEarly && { leftEarly }),
    now,
  });
}

function entryLine(
  entry: MicroserviceEntry,
  inputs: ApplicationStatusInputs,
  places: ReturnType<typeof placementsIn>,
): StatusLine {
  const { application, nodes, verdicts, now } = inputs;
  const { formerNodes = [], ...place } = places.get(entry.name) ?? {};
  const uuid = entryUuid(application, entry);
  const at = currentNodeAmong(entry, inputs);
  const item = at && observedOf(application, uuid, at);
  const wanted = shouldRun(application, entry);
  const facts: EntryFacts = {
    entry,
    wanted,
    now,
    verdict: verdicts.get(entry.name),
    nodeName: at ? v3Name(at.node) : '',
    isToMove: at !== nodeAmong(entry, nodes),
    liveness: at?.liveness,
    isDeprovisioned: at?.node.status?.daemonStatus === 'DEPROVISIONED',
    view: at?.desired.microservices.find((one): one is MicroserviceView => one.uuid === uuid && !isHold(one)),
    item,
    warning: at ? warningOf(at) : '',
    stopping: stoppingTexts(uuid, formerNodes, nodes),
  };
  const progress = progressOf(facts);
  return {
    name: entry.name,
    uuid,
    isTaken: isIdentityTaken(verdicts.get(entry.name)),
    ...place,
    ...(formerNodes.length > 0 && { formerNodes }),
    state: stateOf({
      reported: item?.state,
      liveness: at?.liveness,
      wanted,
      deleting: application.metadata.deletionTimestamp !== undefined,
    }),
    wanted,
    rebuildCount: rebuildCountOf(application, entry.name, item?.rebuildCount),
    progress,
    ...(item && { item }),
  };
}

/** What former nodes that are waited for report of a microservice. */
const stoppingTexts = (uuid: string, former: readonly FormerNode[], nodes: readonly NodeFacts[]): string =>
  former
    .filter(({ state }) => state === 'Stopping')
    .flatMap((one) => {
      const { node } = nodes.find(({ node: other }) => isNode(one, other)) ?? {};
      const item = node?.status?.microservices?.find((other) => other.uuid === uuid);
      if (!item) return [];
      return `; ${one.node} reports ${item.state}${item.errorMessage ? ` (${item.errorMessage})` : ''}`;
    })
    .join('');

/** The reported item of an entry. When two applications claim its uuid, only the entry of the owner gets the item. */
function observedOf({ metadata }: Application, uuid: string, at: NodeFacts): ObservedMicroservice | undefined {
  const item = at.node.status?.microservices?.find((one) => one.uuid === uuid);
  const owner = item && ownerOf(item, at);
  return owner === undefined || owner === (metadata.uid ?? '') ? item : undefined;
}

const isHold = (item: MicroserviceView | MicroserviceHold): item is MicroserviceHold => 'hold' in item;

/** The warning of a live node, as a part of a message. */
function warningOf({ node: { status }, liveness }: NodeFacts): string {
  if (liveness !== 'live' || status?.daemonStatus !== 'WARNING' || !status.warningMessage) return '';
  return `; its node warns: ${status.warningMessage}`;
}

/** When (Unix ms) the next microservice has run for long enough, so that the status changes without a report. */
export function readyAt(inputs: ApplicationStatusInputs): number | undefined {
  const { application, now } = inputs;
  const times = (application.spec.microservices ?? []).flatMap((entry) => {
    const at = currentNodeAmong(entry, inputs);
    const item = at && observedOf(application, entryUuid(application, entry), at);
    const least = item?.state === 'RUNNING' ? minReadyMs(item, entry) : 0;
    return item?.startTime && least > 0 ? [item.startTime + least] : [];
  });
  const open = times.filter((time) => time > Date.parse(now));
  return open.length > 0 ? Math.min(...open) : undefined;
}

/** The worst reason first: what a person must change, then what does not run, then what is unknown. */
const SEVERITY: readonly Progress['is'][] = ['stalled', 'working', 'waiting', 'unknown', 'done'];

/** Greatest number of microservices that one message names. */
const NAMED = 8;

/** The three conditions of kstatus. */
function overall(
  { application, identity }: ApplicationStatusInputs,
  lines: readonly StatusLine[],
  count: string,
): Record<'Ready' | 'Reconciling' | 'Stalled', Finding> {
  if (identity)
    return kstatus({
      is: identity.passes ? 'working' : 'stalled',
      reason: identity.reason,
      message: identity.message,
    });
  const open = lines.filter(({ progress }) => progress.is !== 'done');
  const texts = open.map(({ name, progress }) => `${name}: ${progress.message}`).slice(0, NAMED);
  const more = open.length > NAMED ? ` and ${open.length - NAMED} more` : '';
  const message = open.length === 0 ? count : `${count}; ${texts.join('; ')}${more}`;
  if (application.metadata.deletionTimestamp !== undefined)
    return kstatus({
      is: 'working',
      reason: 'Deleting',
      message: open.length === 0 ? 'is being deleted' : `is being deleted; ${texts.join('; ')}${more}`,
    });
  const [worst] = SEVERITY.flatMap((is) => lines.filter(({ progress }) => progress.is === is));
  if (!worst) return kstatus({ is: 'done', reason: 'Empty', message: 'it has no microservices' });
  if (worst.progress.is === 'done') {
    const runs = lines.some(({ wanted }) => wanted);
    return kstatus({
      is: 'done',
      reason: runs ? 'AllRunning' : 'Stopped',
      message: runs ? count : 'stopped, as asked',
    });
  }
  const conditions = kstatus({ ...worst.progress, message });
  // Other microservices continue to change although the worst one waits for a person.
  const working = lines.find(({ progress }) => progress.is === 'working');
  return working
    ? { ...conditions, Reconciling: { status: 'True', reason: working.progress.reason, message } }
    : conditions;
}

function admitted({ application, verdicts }: ApplicationStatusInputs): Finding {
  const refused = (application.spec.microservices ?? [])
    .filter((entry) => shouldRun(application, entry) && verdicts.has(entry.name))
    .map((entry) => [entry.name, verdicts.get(entry.name) as Verdict] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const [first] = refused;
  if (!first) return { status: 'True', reason: 'Admitted', message: 'everything that should run may run' };
  return {
    status: 'False',
    reason: first[1].reason,
    message: joined(refused.slice(0, NAMED).map(([name, { message }]) => `${name}: ${message}`)),
  };
}

/** Microservices that may still run on nodes that are not waited for. */
function mayRunElsewhere(lines: readonly StatusLine[]): Finding | undefined {
  const said = lines.flatMap(({ name, formerNodes = [] }) =>
    formerNodes.flatMap((one) => (one.state === 'Stopping' ? [] : [{ name, ...one }])),
  );
  const worst = ELSEWHERE.find(({ state }) => said.some((one) => one.state === state));
  if (!worst) return undefined;
  const texts = said.slice(0, NAMED).map((one) => `${one.name}: ${formerNodeText(one)}`);
  const more = said.length > NAMED ? ` and ${said.length - NAMED} more` : '';
  return { status: 'True', reason: worst.reason, message: `${joined(texts)}${more}` };
}

/** The worst first. */
const ELSEWHERE: readonly { state: FormerNode['state']; reason: Finding['reason'] }[] = [
  { state: 'Unreachable', reason: 'NodeUnreachable' },
  { state: 'Gone', reason: 'FormerNodeGone' },
  { state: 'Removing', reason: 'Removing' },
];

/** Fields that are stored and have no effect, in the controller or on the node. */
function notSupportedYet(inputs: ApplicationStatusInputs, lines: readonly StatusLine[]): Finding | undefined {
  const { application, isBusOn = false } = inputs;
  const { busConfig, microservices = [] } = application.spec;
  const items = new Map(lines.map(({ uuid, item }) => [uuid, item]));
  const texts = microservices.flatMap((entry) => {
    const notHonoured = items.get(entryUuid(application, entry))?.notHonoured ?? [];
    const status = currentNodeAmong(entry, inputs)?.node.status;
    const fields = [
      ...fieldsNotActing(application, entry, isBusOn),
      ...notHonoured.map(({ field, reason }) => `${field} (${reason})`),
      ...(status ? unreadFields(status, entry) : []),
    ];
    return fields.length > 0 ? [`${entry.name}: ${[...new Set(fields)].sort().join(', ')}`] : [];
  });
  if (asksForBus(busConfig) && !isBusOn) texts.push('busConfig');
  if (texts.length === 0) return undefined;
  return { status: 'True', reason: 'Fields', message: `stored, but without effect: ${joined(texts)}` };
}
