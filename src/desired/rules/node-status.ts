import { BOUNDS } from '../../api/bounds.ts';
import { ANNOTATIONS, ARCHITECTURES, type ControlPlane } from '../../api/names.ts';
import { structuralOf } from '../../api/normal-form.ts';
import {
  type ArtifactKind,
  type EdgeNode,
  type EdgeNodeStatus,
  edgeNodeResource,
  edgeNodeStatusSchema,
} from '../../api/v3/index.ts';
import { conditionsOf, cut, type Finding, joined, kstatus, type Progress } from '../../rules/conditions.ts';
import type { DesiredEntry, DesiredState, Liveness, Observation } from '../../rules/inputs.ts';
import { v3Name } from '../../rules/names.ts';
import type { Verdict } from '../../rules/verdict.ts';
import { sentMounts } from '../../subjects/content/rules/volume-mount/on-node.ts';
import { actionIgnored, platformGeneration, requestedAction } from '../../subjects/nodes/rules/actions.ts';
import { observedArtifacts } from '../../subjects/nodes/rules/artifacts.ts';
import { bounded } from '../../subjects/nodes/rules/bounded.ts';
import { liveness, signOfLife, silenceLimit } from '../../subjects/nodes/rules/liveness.ts';
import { settingsNotActing, storedWithoutEffect } from '../../subjects/nodes/rules/not-acting.ts';
import { countedActions, observedFacts, type ProvisionedAgent } from '../../subjects/nodes/rules/observed.ts';
import { observedMicroservices } from '../../subjects/nodes/rules/report.ts';
import { canonicalEngine, MACHINE_OWNED } from '../../subjects/nodes/rules/settings.ts';
import { systemApplicationName } from '../../subjects/nodes/rules/system-application.ts';
import { type TunnelGrant, tunnelFailed, tunnelStatus } from '../../subjects/nodes/rules/tunnel.ts';
import { updateFailed, updating } from '../../subjects/nodes/rules/update.ts';
import { findingsOf, phaseOf } from '../../subjects/platform/rules/condition.ts';
import { progressOf } from '../../subjects/workloads/rules/application/entry-progress.ts';
import type { MicroserviceView, StatusReport } from '../../wire/agent.ts';

export * from '../../subjects/nodes/rules/liveness.ts';

/** The inputs of the status of a node. */
export interface NodeStatusInputs {
  node: EdgeNode;
  /** absent until the first request of the agent since the leader began to lead */
  observation?: Observation;
  desired?: Pick<DesiredState, 'microservices' | 'entries'> &
    Partial<Pick<DesiredState, ArtifactKind | 'volumeMounts' | 'leftOut' | 'parts' | 'digests'>>;
  /** entries that left the node before its status named them, by uuid */
  removed?: ReadonlyMap<string, Pick<DesiredEntry, 'application' | 'name'>>;
  /** NameTaken or UuidTaken */
  identity?: Verdict;
  /** why the node cannot connect to routers and bus servers that it names */
  upstreams?: readonly Verdict[];
  /** the port of its tunnel, or why it gets none */
  tunnel?: TunnelGrant;
  controlPlane?: ControlPlane;
  /** record of the last provisioning; absent while there is none */
  provisioned?: ProvisionedAgent & { provisionedAt: number };
  /** Unix ms */
  now: number;
  /** Unix ms, when the leader began to lead */
  listeningSince: number;
}

/** Least time between two writes of lastSeenTime alone while a node is live. */
const LAST_SEEN_MS = 5 * 60_000;

/** Status of a node. When nothing changed, it equals the stored one, except for lastSeenTime once in five minutes. */
export function nodeStatus(inputs: NodeStatusInputs): EdgeNodeStatus {
  const { node, observation, desired, removed, provisioned, now, listeningSince } = inputs;
  const report = observation?.report ?? {};
  const alive = liveness(node, observation, now, listeningSince);
  const microservices = observedMicroservices({ node, observation, desired, removed, liveness: alive });
  const facts = observedFacts(inputs, alive);
  const status: EdgeNodeStatus = {
    ...facts,
    ...tunnelStatus(node, { ...inputs.tunnel, observation, daemonStatus: facts.daemonStatus }),
    ...followedList(inputs),
    ...(provisioned && { provisionedTime: new Date(provisioned.provisionedAt).toISOString() }),
    ...reportingInstance(observation),
    lastSeenTime: lastSeen(inputs, alive),
    silentSince: silentSince(inputs, alive),
    observedGeneration: node.metadata.generation ?? 0,
    ...observedArtifacts({ node, observation, desired }),
    ...recordedMounts(inputs),
    ...reportedFiles(inputs),
    ...carriedOut(inputs, report.actions),
    ...(microservices && {
      microservices,
      microserviceCount: `${microservices.filter(({ state }) => state === 'RUNNING').length}/${microservices.length}`,
    }),
  };
  const parts = partFindings({ inputs, alive, status });
  status.platformStatus = platformStatus(inputs, Object.values(parts));
  status.conditions = conditionsOf(
    edgeNodeResource,
    node,
    {
      ...kstatus(progress({ inputs, alive, status })),
      DuplicateAgent: duplicateAgent(inputs),
      DatastoreRestored: datastoreRestored(inputs),
      Updating: updating(node, status, alive),
      UpdateFailed: updateFailed(node, status),
      ActionIgnored: actionIgnored(node),
      TunnelFailed: tunnelFailed(node, status, inputs.tunnel),
      SettingsRefused: settingsRefused(inputs, report, status),
      NotSupportedYet: notSupportedYet(inputs),
      ContentLeftOut: contentLeftOut(inputs),
      ...parts,
    },
    new Date(now).toISOString(),
  );
  return bounded(status, structuralOf(edgeNodeStatusSchema)) as EdgeNodeStatus;
}

/** The list that the last report follows. It is of the agent that reported it, and of no other one on the node. */
function followedList(inputs: NodeStatusInputs): Pick<EdgeNodeStatus, 'microserviceList'> {
  const { node, observation } = inputs;
  const { microserviceStatus, microserviceList, version } = observation?.report ?? {};
  const before = node.status?.microserviceList;
  if (before !== undefined && isOfFormerAgent(inputs)) return { microserviceList: '' };
  // A list without what it led to says nothing.
  if (!microserviceStatus) return {};
  // The version comes with whole reports alone: one without a list is from an agent that names none.
  if (microserviceList === undefined && version !== undefined) return { microserviceList: undefined };
  return microserviceList === undefined ? {} : { microserviceList };
}

/** The agent instance of the last request. */
function reportingInstance(observation: Observation | undefined): { instance?: string } {
  const [latest] = Object.entries(observation?.instances ?? {}).sort(
    ([a, { seenAt: x }], [b, { seenAt: y }]) => y - x || (a < b ? -1 : 1),
  );
  return latest ? { instance: latest[0].slice(0, 128) } : {};
}

/** Unix ms of the last contact; 0 without one since the leader began to lead. */
const contactOf = (observation: Observation | undefined) =>
  Math.max(observation?.contactAt ?? 0, observation?.reportedAt ?? 0);

/** A status that differs from the stored one, with the last contact: each write says how fresh it is. */
export const withLastSeen = (status: EdgeNodeStatus, observation: Observation | undefined): EdgeNodeStatus =>
  contactOf(observation) === 0 ? status : { ...status, lastSeenTime: new Date(contactOf(observation)).toISOString() };

/**
 * Since when nothing is heard of a silent node; undefined for a live one, so that nothing has to be written while it stays
 * live. Of an agent that polls and does not report it is the time of its last report.
 */
function silentSince({ node, observation, listeningSince }: NodeStatusInputs, alive: Liveness): string | undefined {
  if (alive !== 'silent') return undefined;
  const { silentSince: before, lastSeenTime } = node.status ?? {};
  const isOfReport = signOfLife(node, observation, listeningSince)?.of === 'report';
  const at = isOfReport ? observation?.reportedAt : contactOf(observation);
  return at ? new Date(at).toISOString() : (before ?? lastSeenTime);
}

/** Written at most every five minutes while the node is live, and exactly once it is silent. */
function lastSeen({ node, observation }: NodeStatusInputs, alive: Liveness): string | undefined {
  const stored = node.status?.lastSeenTime;
  const contactAt = contactOf(observation);
  if (contactAt === 0) return stored;
  const before = Date.parse(stored ?? '');
  // A node whose reports are missing still has contacts.
  const turnsSilent = alive === 'silent' && node.status?.daemonStatus !== 'UNKNOWN' && contactAt > before;
  const isDue = Number.isNaN(before) || contactAt - before >= LAST_SEEN_MS || turnsSilent;
  return isDue ? new Date(contactAt).toISOString() : stored;
}

interface Case {
  inputs: NodeStatusInputs;
  alive: Liveness;
  status: EdgeNodeStatus;
}

/** The progress of a node, by rules in the order in which they apply; the first result counts. */
const RULES: readonly ((facts: Case) => Progress | undefined)[] = [
  ({ inputs: { identity } }) => identity && { is: 'stalled', reason: identity.reason, message: identity.message },
  ({ inputs: { node } }) =>
    node.metadata.deletionTimestamp
      ? { is: 'working', reason: 'Deleting', message: 'the node is being deleted; its containers are removed first' }
      : undefined,
  ({ inputs }) => {
    const duplicate = duplicateAgent(inputs);
    return duplicate && { is: 'stalled', reason: duplicate.reason, message: duplicate.message };
  },
  ({ status }) =>
    status.daemonStatus === 'DEPROVISIONED'
      ? { is: 'waiting', reason: 'Deprovisioned', message: 'its agent gave up the identity of this node' }
      : undefined,
  ({ alive }) =>
    alive === 'never'
      ? {
          is: 'waiting',
          reason: 'NotProvisioned',
          message: 'no agent has taken the identity of this node yet; get a provisioning key for it',
        }
      : undefined,
  ({ alive, inputs }) =>
    alive === 'silent'
      ? {
          is: 'unknown',
          reason: 'NodeUnreachable',
          message: silence(inputs),
        }
      : undefined,
  ({ inputs }) => {
    const trouble = engineTrouble(inputs);
    return trouble ? { is: 'waiting', reason: 'EngineUnavailable', message: trouble } : undefined;
  },
];

function silence({ node, observation, listeningSince }: NodeStatusInputs): string {
  const sign = signOfLife(node, observation, listeningSince);
  return sign?.of === 'report'
    ? `the agent asks for changes, but no report of it arrived for more than ${sign.limit / 1000} s`
    : `nothing was heard of the node for more than ${silenceLimit(node) / 1000} s`;
}

function progress(facts: Case): Progress {
  for (const rule of RULES) {
    const found = rule(facts);
    if (found) return found;
  }
  return liveProgress(facts.status);
}

function liveProgress({ daemonStatus, warningMessage }: EdgeNodeStatus): Progress {
  const said = warningMessage && warningMessage !== 'HEALTHY' ? `: ${warningMessage}` : '';
  switch (daemonStatus) {
    case 'RUNNING':
      return { is: 'done', reason: 'AgentRunning', message: 'the agent runs' };
    case 'WARNING':
      return { is: 'done', reason: 'AgentWarning', message: `the agent runs, with a warning${said}` };
    case 'STARTING':
      return { is: 'working', reason: 'AgentStarting', message: 'the agent is starting' };
    default:
      return { is: 'waiting', reason: 'AgentNotRunning', message: `the agent says that it is ${daemonStatus}${said}` };
  }
}

/** Why the agent cannot use its engine. Until the first report to a new leader the message of the former one stays. */
function engineTrouble({ node, observation }: NodeStatusInputs): string | undefined {
  const said = observation?.report.engineError;
  if (said !== undefined) return said && `the agent runs, but cannot look at its container engine: ${said}`;
  const before = node.status?.conditions?.find(({ type }) => type === 'Ready');
  return observation?.reportedAt === undefined && before?.reason === 'EngineUnavailable' ? before.message : undefined;
}

/** The condition for two or more agent instances with requests within one silence limit and after the last provisioning. */
function duplicateAgent({ node, observation, provisioned, now }: NodeStatusInputs): Finding | undefined {
  const since = Math.max(now - silenceLimit(node, observation?.waitSeconds), provisioned?.provisionedAt ?? 0);
  const instances = Object.entries(observation?.instances ?? {})
    .filter(([, { seenAt }]) => seenAt > since)
    .map(([instance]) => instance)
    .sort();
  if (instances.length < 2) return undefined;
  return {
    status: 'True',
    reason: 'DuplicateAgent',
    message: `${instances.length} installations report as "${v3Name(node)}": ${instances.join(', ')}; provision all but one anew`,
  };
}

/** Greatest number of microservices that one message names. */
const RETAINED_NAMED = 10;

/** The node retains what the datastore lacks, until an operator accepts the datastore. */
function datastoreRestored({ node, observation, desired }: NodeStatusInputs): Finding | undefined {
  const before = node.status?.conditions?.find(({ type }) => type === 'DatastoreRestored');
  // Until the node has contacted a new leader, the condition stays as it was.
  if (observation?.contactAt === undefined) return before && { ...before, reason: 'DatastoreRestored' };
  if (!observation.restored) return undefined;
  const retained = (observation.report.microserviceStatus ?? [])
    .filter(({ id, status }) => status !== 'STOPPED' && !desired?.entries.has(id))
    .map(({ id, application, name }) => (application && name ? `${application}/${name}` : id))
    .sort();
  const more = retained.length > RETAINED_NAMED ? ` and ${retained.length - RETAINED_NAMED} more` : '';
  const what =
    retained.length === 0 ? 'nothing that is unknown here' : `${retained.slice(0, RETAINED_NAMED).join(', ')}${more}`;
  return {
    status: 'True',
    reason: 'DatastoreRestored',
    message:
      `the datastore was restored from a backup, or is another one, since this node was last sent its desired state; it still runs: ${what}. ` +
      `Apply what is missing again, or have it removed: kubectl annotate edgenode ${node.metadata.name} --overwrite ` +
      `${ANNOTATIONS.acceptEpoch}=${observation.restored}`,
  };
}

function settingsRefused(
  { node, desired, upstreams = [], controlPlane }: NodeStatusInputs,
  report: StatusReport,
  status: EdgeNodeStatus,
): Finding | undefined {
  const effective = status.config ?? {};
  const owned = MACHINE_OWNED.flatMap<{ field: string; reason: string }>((field) => {
    const asked = canonicalEngine(node.spec[field]);
    const is = canonicalEngine(effective[field]);
    return asked === undefined || is === undefined || asked === is
      ? []
      : [{ field, reason: `asked for ${asked}; the machine decides, and has ${is}` }];
  });
  const { archId: asked } = node.spec;
  const { archId: has } = status;
  if (asked && has && asked !== has)
    owned.push({ field: 'archId', reason: `asked for ${archName(asked)}; the machine is of ${archName(has)}` });
  const isMisplaced = node.spec.isSystem === true && controlPlane !== 'remote';
  if (isMisplaced) owned.push({ field: 'isSystem', reason: 'nodes of the system exist on control plane remote alone' });
  // A field without effect has a condition of its own.
  const elsewhere: readonly string[] = settingsNotActing(node.spec, actingOf(desired));
  const refused = [...owned, ...(report.refusedSettings ?? status.refusedSettings ?? [])].filter(
    ({ field }, index, all) => !elsewhere.includes(field) && all.findIndex((other) => other.field === field) === index,
  );
  if (refused.length === 0 && upstreams.length === 0) return undefined;
  return {
    status: 'True',
    reason: upstreams[0]?.reason ?? (isMisplaced ? 'NotOnControlPlane' : 'MachineDecides'),
    message: joined([
      ...upstreams.map(({ message }) => message),
      ...refused.map(({ field, reason }) => `${field}: ${reason}`),
    ]),
  };
}

const archName = (id: number) => `${id} (${ARCHITECTURES[id]})`;

/** What the node was sent of its volume mounts. */
function recordedMounts({ node, desired }: NodeStatusInputs): Pick<EdgeNodeStatus, 'volumeMounts'> {
  const before = node.status?.volumeMounts;
  if (!desired?.volumeMounts) return {};
  const volumeMounts = sentMounts(before, desired.volumeMounts);
  return volumeMounts.length > 0 || before ? { volumeMounts } : {};
}

const LEFT_OUT = [
  { kind: 'models', noun: 'models', reason: 'NodeModelsFull' },
  { kind: 'knowledge', noun: 'knowledge', reason: 'NodeKnowledgeFull' },
  { kind: 'volumeMounts', noun: 'volume mounts', reason: 'VolumeMountsTooLarge' },
] as const;

/** Greatest number of objects of a kind that the message about what does not fit names. */
const LEFT_OUT_NAMED = 8;

function contentLeftOut({ desired }: NodeStatusInputs): Finding | undefined {
  const left = LEFT_OUT.flatMap(({ kind, noun, reason }) => {
    const names = desired?.leftOut?.[kind] ?? [];
    const more = names.length > LEFT_OUT_NAMED ? ` and ${names.length - LEFT_OUT_NAMED} more` : '';
    const text = `${noun} that do not fit: ${names.slice(0, LEFT_OUT_NAMED).join(', ')}${more}`;
    return names.length > 0 ? [{ reason, text }] : [];
  });
  const [first] = left;
  return first && { status: 'True', reason: first.reason, message: joined(left.map(({ text }) => text)) };
}

function notSupportedYet({ node: { spec }, desired }: NodeStatusInputs): Finding | undefined {
  const message = storedWithoutEffect(settingsNotActing(spec, actingOf(desired)));
  return message === undefined ? undefined : { status: 'True', reason: 'Fields', message };
}

/** Whether the node has a server of the message bus. */
const hasBus = (desired: NodeStatusInputs['desired']): boolean =>
  desired?.parts?.some(({ condition }) => condition === 'BusReady') ?? false;

const actingOf = (desired: NodeStatusInputs['desired']) => ({ hasBus: hasBus(desired), hasRouter: hasRouter(desired) });

const hasRouter = (desired: NodeStatusInputs['desired']): boolean =>
  desired?.parts?.some(({ condition }) => condition === 'RouterReady') ?? false;

/** The files of the system on the machine. An agent that had the identity before has its files on another machine. */
function reportedFiles(inputs: NodeStatusInputs): Pick<EdgeNodeStatus, 'systemFiles' | 'busServer' | 'router'> {
  const { node, observation, desired } = inputs;
  const former = isOfFormerAgent(inputs) ? undefined : node.status;
  const systemFiles = observation?.report.systemFiles ?? former?.systemFiles;
  const isWithoutBus = desired !== undefined && !hasBus(desired);
  const busServer = isWithoutBus ? undefined : (observation?.report.busServer ?? former?.busServer);
  const isWithoutRouter = desired !== undefined && !hasRouter(desired);
  const router = isWithoutRouter ? undefined : (observation?.report.router ?? former?.router);
  return { ...(systemFiles && { systemFiles }), busServer, router: router && routerOf(router) };
}

/** What the status keeps of a router; what it says of each service is the leader's alone. */
function routerOf({ isCurrent, problem, links = [] }: NonNullable<EdgeNodeStatus['router']>) {
  return {
    isCurrent,
    ...(problem !== undefined && { problem }),
    ...(links.length > 0 && { links: links.toSorted() }),
  };
}

/** Whether nothing is known yet of the agent that was provisioned last. */
function isOfFormerAgent({ node, observation, provisioned }: NodeStatusInputs): boolean {
  const provisionedAt = provisioned?.provisionedAt ?? 0;
  return (
    provisionedAt > Date.parse(node.status?.provisionedTime ?? '') && (observation?.reportedAt ?? 0) <= provisionedAt
  );
}

/** Whether the machine has what each part of its platform needs. */
function partFindings({ inputs, alive, status }: Case): ReturnType<typeof findingsOf> {
  const { desired, now } = inputs;
  const { busServer, router } = status;
  return findingsOf(
    (desired?.parts ?? []).map((state) => ({
      state,
      liveness: alive,
      isDeprovisioned: status.daemonStatus === 'DEPROVISIONED',
      silentSince: status.silentSince,
      now,
      files: { due: desired?.digests?.systemFiles, here: status.systemFiles },
      ...(busServer && state.condition === 'BusReady' && { server: busServer }),
      ...(router && state.condition === 'RouterReady' && { server: router }),
      ...(state.entry && { entry: partProgress({ inputs, alive, status }, state.entry.name) }),
    })),
  );
}

/** The progress of a microservice of the platform on its node. */
function partProgress({ inputs: { node, desired, now }, alive, status }: Case, name: string): Progress {
  const [uuid, entry] =
    [...(desired?.entries ?? [])].find(
      ([, one]) => one.name === name && one.application === systemApplicationName(node),
    ) ?? [];
  if (uuid === undefined || !entry) return { is: 'working', reason: 'Starting', message: 'it does not exist yet' };
  const view = desired?.microservices.find((one) => one.uuid === uuid && !('hold' in one)) as
    | MicroserviceView
    | undefined;
  const item = status.microservices?.find((one) => one.uuid === uuid);
  return progressOf({
    entry: { name },
    wanted: entry.shouldRun,
    now: new Date(now).toISOString(),
    nodeName: v3Name(node),
    liveness: alive,
    warning: '',
    stopping: '',
    ...(entry.verdict && { verdict: entry.verdict }),
    ...(view && { view }),
    ...(item && { item }),
  });
}

/** Where nothing has to be set up, an observed generation is Ready, unless what it names cannot be connected to. */
function platformStatus(
  { node, identity, upstreams = [], now }: NodeStatusInputs,
  parts: readonly Finding[],
): EdgeNodeStatus['platformStatus'] {
  const before = node.status?.platformStatus;
  const generation = platformGeneration(node);
  const refused = identity?.message ?? joined(upstreams.map(({ message }) => message));
  const { phase: found, error: failed } = phaseOf(parts);
  const error = refused || failed;
  const phase = node.metadata.deletionTimestamp ? 'Deleting' : refused ? 'Failed' : found;
  return {
    phase,
    generation,
    observedGeneration: phase === 'Ready' ? generation : (before?.observedGeneration ?? 0),
    ...(error && { lastError: cut(error, BOUNDS.message) }),
    lastTransitionAt:
      before?.phase === phase && before.lastTransitionAt ? before.lastTransitionAt : new Date(now).toISOString(),
  };
}

/**
 * The actions that were carried out. A machine cannot take back what it reported, which would make an action due again, and
 * what it reports leaves counts for further requests.
 */
function carriedOut(
  { node, now }: NodeStatusInputs,
  reported: StatusReport['actions'] = {},
): Pick<EdgeNodeStatus, 'actions' | 'versionTime'> {
  const before = node.status?.actions ?? {};
  const actions = { ...countedActions(node, reported), reconcile: requestedAction(node, 'reconcile').count };
  const isVersionChanged = (actions.version ?? 0) > (before.version ?? 0);
  const versionTime = isVersionChanged ? new Date(now).toISOString() : node.status?.versionTime;
  return { actions, ...(versionTime !== undefined && { versionTime }) };
}
