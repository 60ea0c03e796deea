import { BOUNDS } from '../../api/bounds.ts';
import { applicationResource } from '../../api/v3/application.ts';
import type {
  Application,
  ApplicationStatus,
  EdgeNode,
  MicroserviceEntry,
  ObservedMicroservice,
} from '../../api/v3/index.ts';
import type { MicroserviceHold, MicroserviceView } from '../../wire/index.ts';
import { conditionsOf, cut, type Finding, joined, kstatus, orderIgnored, type Progress } from '../conditions.ts';
import { hasContainer, ownerOf } from '../deletion.ts';
import { STEADY_MS } from '../edge-node/report.ts';
import type { DesiredState, Liveness, Verdict } from '../inputs.ts';
import { entryUuid, v3Name } from '../names.ts';
import { rebuildCount } from '../orders.ts';
import { entriesOn, shouldRun } from './entries.ts';
import { notActing } from './not-acting.ts';

/** What the status of an application is computed from. */
export interface ApplicationStatusInputs {
  application: Application;
  /** NameTaken or UuidTaken, as `applicationVerdict` gives it; IdTaken, as `idVerdict` does */
  identity?: Verdict;
  /** negative verdicts by entry name, as `verdicts` gives them */
  verdicts: ReadonlyMap<string, Verdict>;
  /** every node that an entry names or that still reports one of the application's microservices */
  nodes: readonly NodeFacts[];
  /** RFC 3339 */
  now: string;
}

export interface NodeFacts {
  node: EdgeNode;
  liveness: Liveness;
  desired: Pick<DesiredState, 'microservices'> & Partial<Pick<DesiredState, 'entries'>>;
}

/** Status of an application. Stable until `readyAt`: the same facts give the same status, transition times included. */
export function applicationStatus(inputs: ApplicationStatusInputs): ApplicationStatus {
  const { application, now } = inputs;
  const parts = [
    ...(application.spec.microservices ?? []).map((entry) => entryPart(entry, inputs)),
    ...removed(inputs),
  ];
  parts.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const total = parts.filter(({ wanted }) => wanted).length;
  const ready = parts.filter(({ wanted, progress }) => wanted && progress.is === 'done').length;
  return {
    observedGeneration: application.metadata.generation ?? 0,
    conditions: conditionsOf(
      applicationResource,
      application,
      {
        ...overall(inputs, parts, `${ready}/${total} ready`),
        Admitted: admitted(inputs),
        OrderIgnored: orderIgnored(application),
        NotSupportedYet: notSupportedYet(inputs, parts),
      },
      now,
    ),
    ready: `${ready}/${total}`,
    readyCount: Math.min(ready, BOUNDS.report),
    totalCount: Math.min(total, BOUNDS.report),
    microservices: parts.slice(0, BOUNDS.report).map(({ name, uuid, node, state, rebuilds = 0, progress }) => ({
      name,
      uuid,
      ...(node !== undefined && { node }),
      state,
      ready: progress.is === 'done',
      ...(rebuilds > 0 && { rebuilds }),
      ...(progress.message && { message: cut(progress.message, BOUNDS.message) }),
    })),
  };
}

/** One line of the status: an entry, or what is left of a removed one. */
interface Part {
  name: string;
  uuid: string;
  node?: string;
  state: string;
  /** an entry that should run */
  wanted: boolean;
  /** rebuilds ever ordered of an entry */
  rebuilds?: number;
  progress: Progress;
  item?: ObservedMicroservice;
}

/** What is known of one entry. */
interface EntryFacts {
  entry: MicroserviceEntry;
  wanted: boolean;
  /** RFC 3339 */
  now: string;
  verdict?: Verdict;
  nodeName: string;
  liveness?: Liveness;
  /** what the node is told to run */
  view?: MicroserviceView;
  /** what the node reports */
  item?: ObservedMicroservice;
  /** what the node warns of: it may be why nothing comes of what is asked */
  warning: string;
}

function entryPart(entry: MicroserviceEntry, { application, nodes, verdicts, now }: ApplicationStatusInputs): Part {
  const uuid = entryUuid(application, entry);
  const at = nodes.find(({ node }) => entriesOn(application, node).some(({ name }) => name === entry.name));
  const item = at && observedOf(application, uuid, at);
  const wanted = shouldRun(application, entry);
  const facts: EntryFacts = {
    entry,
    wanted,
    now,
    verdict: verdicts.get(entry.name),
    nodeName: at ? v3Name(at.node) : '',
    liveness: at?.liveness,
    view: at?.desired.microservices.find((one): one is MicroserviceView => one.uuid === uuid && !isHold(one)),
    item,
    warning: at ? warningOf(at) : '',
  };
  const progress = progressOf(facts);
  return {
    name: entry.name,
    uuid,
    ...(at && { node: v3Name(at.node) }),
    state: stateOf(facts),
    wanted,
    rebuilds: rebuildCount(application, entry.name, item?.rebuildOrder),
    progress,
    ...(item && { item }),
  };
}

/** What the node reports of an entry. Under a uuid that two claim it is about the entry of the one that it belongs to. */
function observedOf({ metadata }: Application, uuid: string, at: NodeFacts): ObservedMicroservice | undefined {
  const item = at.node.status?.microservices?.find((one) => one.uuid === uuid);
  const owner = item && ownerOf(item, at);
  return owner === undefined || owner === (metadata.uid ?? '') ? item : undefined;
}

const isHold = (item: MicroserviceView | MicroserviceHold): item is MicroserviceHold => 'hold' in item;

function stateOf({ wanted, item, liveness }: EntryFacts): string {
  if (!item || liveness === 'never') return wanted ? 'QUEUED' : 'STOPPED';
  if (liveness === 'silent') return !wanted && item.state === 'STOPPED' ? 'STOPPED' : 'UNKNOWN';
  return item.state;
}

/** Rules about one entry in the order in which they are asked; the first that has something to say counts. */
const RULES: readonly ((facts: EntryFacts) => Progress | undefined)[] = [
  (facts) => (facts.wanted ? undefined : stopping(facts)),
  ({ verdict, item, liveness, nodeName }) => {
    if (!verdict) return undefined;
    const rest = !item || !hasContainer(item) ? '' : `; ${whatRan(verdict, liveness, nodeName)}`;
    return {
      is: verdict.passes ? 'working' : 'stalled',
      reason: verdict.reason,
      message: `${verdict.message}${rest}`,
    };
  },
  ({ liveness, nodeName }) =>
    liveness === undefined || liveness === 'never'
      ? { is: 'waiting', reason: 'NotProvisioned', message: `no agent has taken the identity of ${nodeName} yet` }
      : undefined,
  ({ liveness, nodeName }) => (liveness === 'silent' ? unreachable(nodeName) : undefined),
  ({ item, view, warning }) => {
    if (item?.state !== 'RUNNING') return undefined;
    const failed = item.errorMessage || item.reason;
    const outdated = isOutdated(item, view);
    if (!outdated) return undefined;
    return failed
      ? { is: 'working', reason: 'MicroserviceFailed', message: `${outdated}, which fails so far: ${failed}` }
      : { is: 'working', reason: 'Updating', message: `${outdated}${warning}` };
  },
  ({ item, entry }) => (item?.state === 'RUNNING' ? unhealthy(item, entry) : undefined),
  ({ item, entry, now }) => (item?.state === 'RUNNING' ? tooYoung(item, entry, now) : undefined),
];

function progressOf(facts: EntryFacts): Progress {
  for (const rule of RULES) {
    const found = rule(facts);
    if (found) return found;
  }
  return ofState(facts.item, facts.warning);
}

/** What a live node warns of, as a part of a message. */
function warningOf({ node: { status }, liveness }: NodeFacts): string {
  if (liveness !== 'live' || status?.daemonStatus !== 'WARNING' || !status.warningMessage) return '';
  return `; its node warns: ${status.warningMessage}`;
}

/** What the state alone says of an entry that should run, on a live node. */
function ofState(item: ObservedMicroservice | undefined, warning = ''): Progress {
  if (!item) return { is: 'working', reason: 'Starting', message: `the node has not reported it yet${warning}` };
  const { state, reason, errorMessage, lastError } = item;
  const why = errorMessage || lastError || reason;
  const said = why ? `: ${why}` : '';
  switch (state) {
    case 'RUNNING':
      return { is: 'done', reason: 'AllRunning', message: 'running' };
    case 'STUCK_IN_RESTART':
      return { is: 'stalled', reason: 'CrashLooping', message: `ends again and again${said}` };
    case 'FAILED':
      return reason === 'PolicyRefused'
        ? { is: 'stalled', reason: 'PolicyRefused', message: `the machine's policy refuses it${said}` }
        : { is: 'working', reason: 'MicroserviceFailed', message: `cannot be started${said}` };
    case 'RESTARTING':
      return {
        is: 'working',
        reason: reason === 'Crashed' ? 'MicroserviceFailed' : 'Starting',
        message: `restarting${said}`,
      };
    case 'STOPPED':
      return reason === 'StoppedLocally'
        ? {
            is: 'stalled',
            reason: 'StoppedLocally',
            message: 'was stopped on its machine; start it there, or rebuild it',
          }
        : { is: 'working', reason: 'Starting', message: `stopped, and is to run${said}` };
    case 'UNKNOWN':
      return { is: 'unknown', reason: 'StateUnknown', message: `the node cannot tell its state${said}` };
    default:
      return { is: 'working', reason: 'Starting', message: `${state.toLowerCase().replaceAll('_', ' ')}${said}` };
  }
}

/** An entry that should not run. */
function stopping({ item, liveness, nodeName }: EntryFacts): Progress {
  const stopped: Progress = { is: 'done', reason: 'Stopped', message: 'stopped, as asked' };
  if (!item || liveness === undefined || liveness === 'never' || !hasContainer(item)) return stopped;
  if (liveness === 'silent') return unreachable(nodeName);
  if (item.state === 'UNKNOWN') return ofState(item);
  return { is: 'working', reason: 'Stopping', message: 'is being stopped' };
}

/** What of the running container is not as asked; undefined when all is. */
function isOutdated(item: ObservedMicroservice, view: MicroserviceView | undefined): string | undefined {
  if (!view) return 'running; what is asked for is not known yet';
  if (item.revision !== view.revision) return 'an older revision runs; the asked one is on its way';
  if ((item.rebuildOrder ?? 0) < view.rebuildOrder) return 'running; a rebuild is on its way';
  return undefined;
}

/** Whether the entry has a health check that its node performs. */
function isChecked(item: ObservedMicroservice, entry: MicroserviceEntry): boolean {
  const test = entry.container?.healthCheck?.test ?? [];
  return test.length > 0 && test[0] !== 'NONE' && !item.notHonoured?.some(({ field }) => field === 'healthCheck');
}

function unhealthy(item: ObservedMicroservice, entry: MicroserviceEntry): Progress | undefined {
  if (!isChecked(item, entry)) return undefined;
  if (item.healthStatus === 'healthy') return undefined;
  if (item.healthStatus === 'unhealthy')
    return { is: 'waiting', reason: 'Unhealthy', message: 'running, but its health check fails' };
  return { is: 'working', reason: 'Unhealthy', message: 'running; its health check has not succeeded yet' };
}

/** Milliseconds that it must have run before it counts as ready. A success of its health check takes the place of the wait. */
function minReadyMs(item: ObservedMicroservice, entry: MicroserviceEntry): number {
  const asked = isChecked(item, entry) ? 0 : (entry.minReadySeconds ?? 0) * 1000;
  return Math.max(asked, item.isUnsteady ? STEADY_MS : 0);
}

/** It runs, and not yet long enough. */
function tooYoung(item: ObservedMicroservice, entry: MicroserviceEntry, now: string): Progress | undefined {
  const least = minReadyMs(item, entry);
  if (least === 0 || item.startTime === undefined || Date.parse(now) - item.startTime >= least) return undefined;
  return item.isUnsteady
    ? {
        is: 'working',
        reason: 'CrashLooping',
        message: `running, but it ended twice within a minute${item.lastError ? ` (${item.lastError})` : ''}; ready after ${least / 1000} s without another end`,
      }
    : { is: 'working', reason: 'Starting', message: `running; ready after ${least / 1000} s` };
}

/** When (Unix ms) the status changes although nothing is heard: the next microservice has run for long enough then. */
export function readyAt({ application, nodes, now }: ApplicationStatusInputs): number | undefined {
  const times = (application.spec.microservices ?? []).flatMap((entry) => {
    const at = nodes.find(({ node }) => entriesOn(application, node).some(({ name }) => name === entry.name));
    const item = at && observedOf(application, entryUuid(application, entry), at);
    const least = item?.state === 'RUNNING' ? minReadyMs(item, entry) : 0;
    return item?.startTime && least > 0 ? [item.startTime + least] : [];
  });
  const open = times.filter((time) => time > Date.parse(now));
  return open.length > 0 ? Math.min(...open) : undefined;
}

const unreachable = (nodeName: string): Progress => ({
  is: 'unknown',
  reason: 'NodeUnreachable',
  message: `nothing is heard of the node ${nodeName}`,
});

/** What becomes of the container that is there. */
function whatRan({ reason }: Verdict, liveness: Liveness | undefined, nodeName: string): string {
  if (liveness !== 'live') return `nothing is heard of the node ${nodeName}`;
  return reason === 'NodeDeleting' ? 'what runs there is being removed' : 'what ran before keeps running';
}

/** Microservices that a node still has although no entry puts them there any more. */
function removed({ application, identity, nodes, verdicts }: ApplicationStatusInputs): Part[] {
  // those of the namesake that owns the name are not ours
  if ([identity, ...verdicts.values()].some((one) => one?.reason === 'NameTaken')) return [];
  const name = v3Name(application);
  const taken = new Set((application.spec.microservices ?? []).map((entry) => entry.name));
  return nodes.flatMap(({ node, liveness }) => {
    if (liveness === 'never') return [];
    const here = new Set(entriesOn(application, node).map((entry) => entryUuid(application, entry)));
    return (node.status?.microservices ?? [])
      .filter((item) => item.application === name && !here.has(item.uuid) && hasContainer(item))
      .map((item): Part => {
        const shown = item.name ?? item.uuid;
        // the list is a map by name, and two of a name would make all of the status unwritable
        const unique = [shown, `${shown} (on ${v3Name(node)})`].find((one) => !taken.has(cut(one, BOUNDS.name)));
        const name = unique === undefined ? item.uuid : cut(unique, BOUNDS.name);
        taken.add(name);
        return {
          name,
          uuid: item.uuid,
          node: v3Name(node),
          state: liveness === 'silent' ? 'UNKNOWN' : 'DELETING',
          wanted: false,
          progress:
            liveness === 'silent'
              ? {
                  is: 'unknown',
                  reason: 'NodeUnreachable',
                  message: `removed, but may still run: nothing is heard of the node ${v3Name(node)}`,
                }
              : { is: 'working', reason: 'Removing', message: `is being removed from ${v3Name(node)}` },
        };
      });
  });
}

/** The worst comes first: what needs somebody, then what does not run, then what nobody can tell. */
const SEVERITY: readonly Progress['is'][] = ['stalled', 'working', 'waiting', 'unknown', 'done'];

/** Lines of microservices that one message carries. */
const LINES = 8;

/** The three conditions of kstatus. */
function overall(
  { application, identity }: ApplicationStatusInputs,
  parts: readonly Part[],
  count: string,
): Record<'Ready' | 'Reconciling' | 'Stalled', Finding> {
  if (identity) return kstatus({ is: 'stalled', reason: identity.reason, message: identity.message });
  const open = parts.filter(({ progress }) => progress.is !== 'done');
  const lines = open.map(({ name, progress }) => `${name}: ${progress.message}`).slice(0, LINES);
  const more = open.length > LINES ? ` and ${open.length - LINES} more` : '';
  const message = open.length === 0 ? count : `${count}; ${lines.join('; ')}${more}`;
  if (application.metadata.deletionTimestamp !== undefined)
    return kstatus({
      is: 'working',
      reason: 'Deleting',
      message: open.length === 0 ? 'is being deleted' : `is being deleted; ${lines.join('; ')}${more}`,
    });
  if (application.spec.template !== undefined && parts.length === 0)
    return kstatus({ is: 'stalled', reason: 'NotSupportedYet', message: 'template: not supported yet' });
  const [worst] = SEVERITY.flatMap((is) => parts.filter(({ progress }) => progress.is === is));
  if (!worst) return kstatus({ is: 'done', reason: 'Empty', message: 'it has no microservices' });
  if (worst.progress.is === 'done') {
    const runs = parts.some(({ wanted }) => wanted);
    return kstatus({
      is: 'done',
      reason: runs ? 'AllRunning' : 'Stopped',
      message: runs ? count : 'stopped, as asked',
    });
  }
  const conditions = kstatus({ ...worst.progress, message });
  // what is going on elsewhere goes on although the worst part waits for somebody
  const working = parts.find(({ progress }) => progress.is === 'working');
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
    message: joined(refused.slice(0, LINES).map(([name, { message }]) => `${name}: ${message}`)),
  };
}

/** What is stored and does not act, here or on the node. */
function notSupportedYet({ application }: ApplicationStatusInputs, parts: readonly Part[]): Finding | undefined {
  const { busConfig, microservices = [] } = application.spec;
  const items = new Map(parts.map(({ uuid, item }) => [uuid, item]));
  const lines = microservices.flatMap((entry) => {
    const notHonoured = items.get(entryUuid(application, entry))?.notHonoured ?? [];
    const fields = [...notActing(entry), ...notHonoured.map(({ field, reason }) => `${field} (${reason})`)];
    return fields.length > 0 ? [`${entry.name}: ${[...new Set(fields)].sort().join(', ')}`] : [];
  });
  if (busConfig?.busAccess || busConfig?.busRule) lines.push('busConfig');
  if (lines.length === 0) return undefined;
  return { status: 'True', reason: 'Fields', message: `stored, but without effect: ${joined(lines)}` };
}
