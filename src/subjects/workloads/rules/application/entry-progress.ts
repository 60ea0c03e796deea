import type { Reason } from '../../../../api/conditions.ts';
import type { MicroserviceEntry, ObservedMicroservice } from '../../../../api/v3/index.ts';
import type { Progress } from '../../../../rules/conditions.ts';
import { hasContainer } from '../../../../rules/deletion.ts';
import type { Liveness } from '../../../../rules/inputs.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import type { MicroserviceView } from '../../../../wire/agent.ts';
import { STEADY_MS } from '../../../nodes/rules/report.ts';

/** What is known of one entry. */
export interface EntryFacts {
  entry: MicroserviceEntry;
  wanted: boolean;
  /** RFC 3339 */
  now: string;
  verdict?: Verdict;
  nodeName: string;
  /** it stays on that node, since the node that it names may not take it */
  isToMove?: boolean;
  liveness?: Liveness;
  /** the agent of the node gave up its identity */
  isDeprovisioned?: boolean;
  /** what was sent to the node to run */
  view?: MicroserviceView;
  /** what the node reports */
  item?: ObservedMicroservice;
  /** warning of the node, which may be the reason why the entry does not run */
  warning: string;
  /** what the nodes that must stop it first report, as the end of a message */
  stopping: string;
}

/** As agents report it and as conditions have it. */
const POLICY_REFUSED = 'PolicyRefused';

/** Rules about one entry, in the order in which they apply; the first result counts. */
export const PROGRESS_RULES: readonly ((facts: EntryFacts) => Progress | undefined)[] = [
  shouldNotRun,
  isRefused,
  nodeIsNotProvisioned,
  nodeIsSilent,
  policyRefuses,
  runsAnOlderRevision,
  isUnhealthy,
  isTooYoung,
];

/** The progress of an entry: by the rules, else by the state that the node reports. */
export function progressOf(facts: EntryFacts): Progress {
  for (const rule of PROGRESS_RULES) {
    const found = rule(facts);
    if (found) return found;
  }
  return ofState(facts.item, facts.warning);
}

function shouldNotRun({ wanted, item, liveness, nodeName }: EntryFacts): Progress | undefined {
  if (wanted) return undefined;
  const stopped: Progress = { is: 'done', reason: 'Stopped', message: 'stopped, as asked' };
  if (!item || liveness === undefined || liveness === 'never' || !hasContainer(item)) return stopped;
  if (liveness === 'silent') return unreachable(nodeName);
  if (item.state === 'UNKNOWN') return ofState(item);
  return { is: 'working', reason: 'Stopping', message: 'is being stopped' };
}

function isRefused({ verdict, item, liveness, nodeName, isToMove, stopping }: EntryFacts): Progress | undefined {
  if (!verdict) return undefined;
  const rest = !item || !hasContainer(item) ? '' : `; ${whatRan(verdict, liveness, nodeName, isToMove)}`;
  return {
    is: verdict.passes ? 'working' : 'stalled',
    reason: verdict.reason,
    message: `${verdict.message}${verdict.reason === 'MovingFromNode' ? stopping : ''}${rest}`,
  };
}

function nodeIsNotProvisioned({ liveness, nodeName, isDeprovisioned }: EntryFacts): Progress | undefined {
  if (liveness !== undefined && liveness !== 'never') return undefined;
  const message = isDeprovisioned
    ? `the agent of ${nodeName} gave up its identity, and no other one has taken it yet`
    : `no agent has taken the identity of ${nodeName} yet`;
  return { is: 'waiting', reason: 'NotProvisioned', message };
}

function nodeIsSilent({ liveness, nodeName }: EntryFacts): Progress | undefined {
  return liveness === 'silent' ? unreachable(nodeName) : undefined;
}

/** The machine's own policy refuses what is asked for, perhaps since it was tightened, while a container runs. */
function policyRefuses({ item, view }: EntryFacts): Progress | undefined {
  if (item?.state !== 'RUNNING' || item.reason !== POLICY_REFUSED) return undefined;
  const fate = isOutdated(item, view)
    ? 'what ran before keeps running'
    : 'it runs until it ends, and is not started again';
  const why = item.errorMessage ? `: ${item.errorMessage}` : '';
  return { is: 'stalled', reason: POLICY_REFUSED, message: `the machine's policy refuses it${why}; ${fate}` };
}

function runsAnOlderRevision({ item, view, warning }: EntryFacts): Progress | undefined {
  const outdated = item?.state === 'RUNNING' ? isOutdated(item, view) : undefined;
  if (!item || !outdated) return undefined;
  const failed = item.errorMessage || item.reason;
  return failed
    ? { is: 'working', reason: failureReason(item), message: `${outdated}, which fails so far: ${failed}` }
    : { is: 'working', reason: 'Updating', message: `${outdated}${warning}` };
}

function isUnhealthy({ item, entry }: EntryFacts): Progress | undefined {
  if (item?.state !== 'RUNNING' || !isChecked(item, entry) || item.healthStatus === 'healthy') return undefined;
  const why = item.healthMessage ? `: ${item.healthMessage}` : '';
  if (item.healthStatus === 'unhealthy')
    return { is: 'waiting', reason: 'Unhealthy', message: `running, but its health check fails${why}` };
  return { is: 'working', reason: 'Starting', message: `running; its health check has not succeeded yet${why}` };
}

/** The progress of an entry that runs and has not run for long enough to count as ready. */
function isTooYoung({ item, entry, now }: EntryFacts): Progress | undefined {
  if (item?.state !== 'RUNNING') return undefined;
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

/** The progress of an entry that should run on a live node, by the reported state alone. */
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
      return reason === POLICY_REFUSED
        ? { is: 'stalled', reason: POLICY_REFUSED, message: `the machine's policy refuses it${said}` }
        : { is: 'working', reason: failureReason(item), message: `cannot be started${said}` };
    case 'RESTARTING':
      return { is: 'working', reason: 'Restarting', message: `restarting${said}` };
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

/**
 * The reason of a condition for each reason with which agents report that a microservice cannot be started
 * (docs/spec/agent-channel.md#status-report). Any other one, and none, is MicroserviceFailed.
 */
const FAILURE_REASONS: ReadonlyMap<string | undefined, Reason> = new Map<string, Reason>([
  ['ImagePullFailed', 'ImagePullFailed'],
  ['ImageNotFound', 'ImagePullFailed'],
  ['ImageUnauthorized', 'ImagePullFailed'],
  ['ImageMissing', 'ImagePullFailed'],
  ['LimitRefused', 'LimitRefused'],
  ['CreateFailed', 'CreateFailed'],
  ['NameTaken', 'CreateFailed'],
  ['StartFailed', 'StartFailed'],
  ['PortTaken', 'StartFailed'],
  ['DiskFull', 'DiskFull'],
  ['ArtifactFailed', 'ArtifactFailed'],
]);

const failureReason = ({ reason }: ObservedMicroservice): Reason => FAILURE_REASONS.get(reason) ?? 'MicroserviceFailed';

/** How the running container differs from what is asked for; undefined when it does not. */
function isOutdated(item: ObservedMicroservice, view: MicroserviceView | undefined): string | undefined {
  if (!view) return 'running; what is asked for is not known yet';
  if (item.revision !== view.revision) return 'an older revision runs; the asked one is on its way';
  if ((item.rebuildCount ?? 0) < view.rebuildCount) return 'running; a rebuild is on its way';
  return undefined;
}

/** Whether the entry has a health check that its node performs. */
function isChecked(item: ObservedMicroservice, entry: MicroserviceEntry): boolean {
  const test = entry.container?.healthCheck?.test ?? [];
  return test.length > 0 && test[0] !== 'NONE' && !item.notHonoured?.some(({ field }) => field === 'healthCheck');
}

/** Milliseconds that an entry must have run before it counts as ready. A successful health check replaces the wait. */
export function minReadyMs(item: ObservedMicroservice, entry: MicroserviceEntry): number {
  const asked = isChecked(item, entry) ? 0 : (entry.minReadySeconds ?? 0) * 1000;
  return Math.max(asked, item.isUnsteady ? STEADY_MS : 0);
}

const unreachable = (nodeName: string): Progress => ({
  is: 'unknown',
  reason: 'NodeUnreachable',
  message: `nothing is heard of the node ${nodeName}`,
});

/** What happens to the container that exists. */
function whatRan(
  { reason }: Verdict,
  liveness: Liveness | undefined,
  nodeName: string,
  isToMove: boolean | undefined,
): string {
  if (liveness !== 'live') return `nothing is heard of the node ${nodeName}`;
  if (isToMove) return `what ran before keeps running on the node "${nodeName}"`;
  return reason === 'NodeDeleting' ? 'what runs there is being removed' : 'what ran before keeps running';
}
