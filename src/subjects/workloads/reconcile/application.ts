import type { Reason } from '../../../api/conditions.ts';
import { FINALIZERS } from '../../../api/names.ts';
import type { NativeRole } from '../../../api/rbac.ts';
import type { ConfigMap, Secret } from '../../../api/resources.ts';
import type { BusHub } from '../../../api/v3/bus-hub.ts';
import type { Application, ApplicationStatus, BusAccountRule, BusUserRule, EdgeNode } from '../../../api/v3/index.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { identityOf, idTaken } from '../../../controllers/identity.ts';
import { stamp } from '../../../controllers/stamp.ts';
import { createStatusWriter, REFUSED_RETRY_MS, type StatusWriter } from '../../../controllers/status-writer.ts';
import { applicationsOn } from '../../../datastore/lookups.ts';
import { rivalsByRecord, rivalsOf } from '../../../datastore/rivals.ts';
import { storeOf } from '../../../datastore/stores.ts';
import { type Kind, referenceKey, refsTo } from '../../../kinds/definition.ts';
import { isOnlyRelinked } from '../../../kinds/link-change.ts';
import type { KindObject } from '../../../kinds/object.ts';
import {
  both,
  type Change,
  type Controller,
  createController,
  done,
  keyOf,
  type Outcome,
  parseKey,
  removeFinalizer,
  requeueAfter,
  watching,
} from '../../../kube/mod.ts';
import { isReachedAlike } from '../../../rules/bus-hub.ts';
import { checkApplicationDeletion } from '../../../rules/deletion.ts';
import { identityLabels, isIdentityTaken, nodeUuid, type ObjectIdentity } from '../../../rules/identity.ts';
import type { BusRuleKind } from '../../../rules/missing-rules.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';
import { isV3Role } from '../../access/rules/v3-role.ts';
import { textNameOf } from '../../content/rules/core-objects/form.ts';
import { KINDS, REFERENCED_KINDS, RESOURCES } from '../../kinds.ts';
import type { MassSilence } from '../../nodes/reconcile/mass-silence.ts';
import type { SilencePacer } from '../../nodes/reconcile/silence-pacer.ts';
import { type SilenceChange, silenceChange } from '../../nodes/rules/mass-silence.ts';
import { nodeOf } from '../../nodes/rules/placement/entries.ts';
import { type NodeId, withPlacements } from '../../nodes/rules/placement/moves.ts';
import { isSeenAlike } from '../../nodes/rules/status-change.ts';
import { busRuleKey, missingRulesOf } from '../rules/application/missing-rules.ts';
import { applicationStatus, placementsIn, readyAt } from '../rules/application/status.ts';
import type { ApplicationStatusInputs, NodeFacts } from '../rules/application/status-inputs.ts';
import { applicationVerdict, refusedMoves, verdicts } from '../rules/verdicts/verdict.ts';
import { deleteAccountsOf } from './accounts-of-application.ts';
import { createEarlyMoves, type EarlyMoves } from './early-moves.ts';
import { createReadyTimer, type ReadyTimer } from './ready-timer.ts';
import type { TemplateVerdicts } from './templates.ts';

/** The kinds whose objects verdicts look up. */
const REFERENCED = REFERENCED_KINDS.map((key) => KINDS[key] as Kind);

/** How often a pending deletion is checked when nothing changes. */
const DELETION_CHECK_MS = 5_000;

/** How often a move is checked: a report that equals the one before it changes no status. */
const MOVE_CHECK_MS = 5_000;

/** Application: identity, verdicts, status, and a deletion that waits for the machines. */
export function createApplicationController(
  deps: ControllerDependencies,
  massSilence: MassSilence,
  pacer: SilencePacer,
  templateVerdicts: (application: Application) => TemplateVerdicts,
): Controller {
  const { stores, clock, log, metrics } = deps;
  const statuses = createStatusWriter(deps, KINDS.applications);
  const readyTimer = createReadyTimer(clock, (seconds) => metrics.ready?.(seconds));
  const earlyMoves = createEarlyMoves((entry) => nodeOf(entry, deps.lookups));
  const reconcile = createReconcile(deps, { massSilence, pacer, statuses, readyTimer, earlyMoves, templateVerdicts });

  /** Applications whose statuses may depend on the change of a node. */
  const ofNode = (node: EdgeNode) => applicationsOn(stores, node).map(keyOf);
  /** Applications some of whose microservices reach the hub, having no bus server on their node. */
  const ofHub = ({ initial, type, object, previous }: Change<BusHub>) =>
    initial || (type !== 'delete' && previous && isReachedAlike(object, previous))
      ? []
      : stores.applications.byIndex('bus', 'true').map(keyOf);
  /** Applications that name a rule of the message bus which begins or ends; what it says is the matter of accounts and users. */
  const ofBusRule =
    (kind: BusRuleKind) =>
    (change: Change<BusAccountRule | BusUserRule>): string[] => {
      const { initial, type, object, previous } = change;
      if (initial || (type !== 'delete' && previous && v3Name(previous) === v3Name(object))) return [];
      const named = (rule: BusAccountRule | BusUserRule) =>
        stores.applications.byIndex('busRule', busRuleKey(kind, v3Name(rule))).map(keyOf);
      return [...both(named)(change)];
    };
  /** Applications that name a role which begins or ends; what it permits is the matter of agents. */
  const ofRole = (change: Change<NativeRole>): string[] => {
    const { initial, type, object, previous } = change;
    if (initial || (type !== 'delete' && previous && isV3Role(previous) === isV3Role(object))) return [];
    return stores.applications.byIndex('role', object.metadata.name).map(keyOf);
  };
  /** Applications whose verdicts may depend on the ports and names that an application claims. */
  const neighbours = (application: Application) =>
    [...nodesOf(deps, application)]
      .flatMap(ofNode)
      .concat([...rivalsOf(stores, application, v3Name(application))].map(keyOf));
  const namedBy = (source: Kind, kind: Kind, object: KindObject) =>
    refsTo(kind, object).flatMap((ref) => storeOf(stores, source).byIndex('ref', referenceKey({ to: kind.key, ref })));
  const usersOfObject = (kind: Kind, object: KindObject): string[] => [
    ...namedBy(KINDS.applications as Kind, kind, object).map(keyOf),
    // A registry reaches the applications that name a catalog item of it.
    ...REFERENCED.filter(({ references }) => references).flatMap((via) =>
      namedBy(via, kind, object).flatMap((one) => namedBy(KINDS.applications as Kind, via, one).map(keyOf)),
    ),
  ];
  const watchReferenced = (kind: Kind) => {
    const users = (object: KindObject) => usersOfObject(kind, object);
    return watching(storeOf(stores, kind), (change) => (concernsVerdicts(kind, change) ? both(users)(change) : []));
  };
  const usersOf =
    (kind: 'secrets' | 'configMaps') =>
    (object: Secret | ConfigMap): string[] => {
      const ref = referenceKey({ to: kind, ref: textNameOf(object) });
      // The microservices that mount it name it through their volume mounts.
      const mounts = stores.volumeMounts.byIndex('ref', ref) as readonly KindObject[];
      return [
        ...stores.applications.byIndex('ref', ref).map(keyOf),
        ...mounts.flatMap((mount) =>
          namedBy(KINDS.applications as Kind, KINDS.volumeMounts as unknown as Kind, mount).map(keyOf),
        ),
      ];
    };

  return createController({
    name: 'application',
    watches: [
      watching(stores.applications, (change) => {
        const { type, key, object, previous, initial } = change;
        earlyMoves.note(change);
        if (type === 'delete') readyTimer.forget(key);
        else if (!initial && object.metadata.generation !== previous?.metadata.generation)
          readyTimer.start(key, object);
        if (changesMoreThanStatus(change)) return [key, ...both(neighbours)(change)];
        const rivals = previous ? [...rivalsByRecord(stores, object, previous)].map(keyOf) : [];
        return statuses.isForeign(change) ? [key, ...rivals] : rivals;
      }),
      watching(stores.nodes, (change) => {
        if (concernsApplications(change)) return both(ofNode)(change);
        // The list that its report follows concerns what left the node.
        const isNewList = change.object.status?.microserviceList !== change.previous?.status?.microserviceList;
        return isNewList ? stores.applications.byIndex('left', nodeUuid(change.object)).map(keyOf) : [];
      }),
      ...REFERENCED.map(watchReferenced),
      watching(stores.roles, ofRole),
      watching(stores.secrets, both(usersOf('secrets'))),
      watching(stores.configMaps, both(usersOf('configMaps'))),
      ...(deps.platform.isBusEnabled
        ? [
            watching(stores.busHubs, ofHub),
            watching(stores.busAccountRules, ofBusRule('BusAccountRule')),
            watching(stores.busUserRules, ofBusRule('BusUserRule')),
          ]
        : []),
    ],
    reconcile: (key, { signal }) => reconcile(key, signal),
    concurrency: 8,
    log,
    metrics,
  });
}

interface Helpers {
  massSilence: MassSilence;
  pacer: SilencePacer;
  statuses: StatusWriter<Application>;
  readyTimer: ReadyTimer;
  earlyMoves: EarlyMoves;
  /** what is known of the templates that an application names; they are rendered elsewhere, since that may take long */
  templateVerdicts: (application: Application) => TemplateVerdicts;
}

/** Observes an application and its nodes, plans its status, writes it in its turn, and returns when to reconcile again. */
function createReconcile(
  deps: ControllerDependencies,
  { massSilence, pacer, statuses, readyTimer, earlyMoves, templateVerdicts }: Helpers,
) {
  const { client, stores, lookups, clock } = deps;
  const resource = RESOURCES.applications;

  function observe(key: string, application: Application, identity: ObjectIdentity) {
    const early = (application.spec.microservices ?? []).flatMap((entry) => [
      ...earlyMoves.of(key)(entryUuid(application, entry)),
    ]);
    const nodes: NodeFacts[] = [...nodesOf(deps, application, early)].map((node) => ({
      node,
      liveness: deps.liveness(node),
      desired: deps.desired(node) ?? { microservices: [] },
      observation: deps.observations.get(nodeUuid(node)),
    }));
    const rival =
      applicationVerdict(application, lookups) ?? idTaken(deps, KINDS.applications, application, identity.id);
    return { nodes, rival };
  }

  function inputsOf(
    key: string,
    application: Application,
    { nodes, rival }: ReturnType<typeof observe>,
  ): ApplicationStatusInputs {
    const isDeleted = application.metadata.deletionTimestamp !== undefined;
    const { obstacle, failures = [] } = isDeleted ? {} : templateVerdicts(application);
    const identity = rival ?? obstacle;
    const refused = refusedMoves(application, nodes, lookups);
    const inputs: ApplicationStatusInputs = {
      application,
      staying: new Set(refused.keys()),
      ...(identity && { identity }),
      verdicts: new Map(failures),
      nodes,
      leftEarly: earlyMoves.of(key),
      isBusOn: lookups.bus !== undefined,
      ...(lookups.bus && !isDeleted && { missingRules: missingRulesOf(application, hasRule) }),
      now: new Date(clock()).toISOString(),
    };
    // Whether an entry waits for its former node depends on what this status says of that node.
    const placed = withPlacements(application, placementsIn(inputs));
    const negative = verdicts(placed, lookups);
    // Whose uuid it is does not depend on whether a template can be rendered.
    const ofTemplates = [...failures].filter(([name]) => !isIdentityTaken(negative.get(name)));
    return { ...inputs, verdicts: new Map([...negative, ...refused, ...ofTemplates]) };
  }

  /** The built-in rules exist from the start, also before their objects do. */
  function hasRule(of: BusRuleKind, name: string): boolean {
    const kind: Kind = of === 'BusAccountRule' ? KINDS.busAccountRules : KINDS.busUserRules;
    return storeOf(stores, kind).byIndex('name', name).length > 0 || !!kind.builtIns?.some((one) => one.name === name);
  }

  return async (key: string, signal: AbortSignal): Promise<Outcome> => {
    const { namespace, name } = parseKey(key);
    const stored = stores.applications.get(namespace, name);
    if (!stored) {
      pacer.forget(key);
      earlyMoves.forget(key);
      return done();
    }
    const identity = await identityOf(deps, KINDS.applications, stored, signal);
    const isDeleted = stored.metadata.deletionTimestamp !== undefined;
    const stamps = { finalizer: FINALIZERS.workloads, labels: identityLabels(identity) };
    const application = isDeleted ? stored : await stamp(client, resource, stored, stamps, signal);
    const seen = observe(key, application, identity);
    const ownsName = seen.rival?.reason !== 'NameTaken';
    if (isDeleted && ownsName) await deleteAccountsOf(deps, application, signal);
    const deletion = isDeleted ? checkApplicationDeletion(application, seen.nodes, clock(), { ownsName }) : undefined;
    if (deletion && !deletion.pending) {
      await removeFinalizer(client, resource, application, FINALIZERS.workloads, { signal });
      return done();
    }
    const inputs = inputsOf(key, application, seen);
    const status = { ...applicationStatus(inputs), ...identity };
    const change = deletion ? undefined : changeOf(application, status);
    const silenceMs = pacer.waitMs(key, change);
    if (silenceMs > 0) return requeueAfter(silenceMs);
    const options = pacer.writeOptions(key, change, massSilence.suspected);
    const { refused } = await statuses.write(application, status, signal, options);
    if (!refused) earlyMoves.forget(key);
    if (!refused && isReady(status)) readyTimer.stop(key, application);
    if (deletion) return requeueAfter(Math.min(DELETION_CHECK_MS, Math.max(0, deletion.until - clock())));
    if (refused) return requeueAfter(REFUSED_RETRY_MS);
    const at = readyAt(inputs);
    const readyMs = at === undefined ? Number.POSITIVE_INFINITY : Math.max(0, at - clock()) + 10;
    const moveMs = isMoving(status) ? MOVE_CHECK_MS : Number.POSITIVE_INFINITY;
    const nextMs = Math.min(readyMs, moveMs);
    return nextMs === Number.POSITIVE_INFINITY ? done() : requeueAfter(nextMs);
  };
}

/** How silence changes the status of an application; changes by users are not about silence and are written at once. */
function changeOf({ status: before }: Application, after: ApplicationStatus): SilenceChange | undefined {
  if (before?.observedGeneration !== after.observedGeneration) return undefined;
  return silenceChange(isUnreachable(before), isUnreachable(after));
}

const isUnreachable = ({ conditions = [] }: Pick<ApplicationStatus, 'conditions'>) =>
  conditions.some(({ type, reason }) => type === 'Ready' && reason === ('NodeUnreachable' satisfies Reason));

/** Whether statuses of applications may depend on the change of a node; a sign of life alone changes none. */
const concernsApplications = (change: Change<EdgeNode>) =>
  changesMoreThanStatus(change) || !change.previous || !isSeenAlike(change.object, change.previous);

/** Whether verdicts on the users of an object may depend on its change; labels and annotations take no part in them. */
const concernsVerdicts = ({ identity }: Kind, { type, object, previous }: Change<KindObject>) =>
  type === 'delete' ||
  previous === undefined ||
  previous.metadata.uid !== object.metadata.uid ||
  (previous.metadata.generation !== object.metadata.generation && !isOnlyRelinked(object, previous)) ||
  // an object may become unusable, or usable again, by a change of what it names
  readyOf(previous) !== readyOf(object) ||
  identity.id?.(previous) !== identity.id?.(object);

const readyOf = ({ status }: KindObject) => status?.conditions?.find(({ type }) => type === 'Ready')?.status;

const isMoving = ({ microservices = [] }: ApplicationStatus) =>
  microservices.some(({ formerNodes = [] }) => formerNodes.some(({ state }) => state === 'Stopping'));

/** Every node that an entry names or left, or that still reports a microservice of the application. */
function nodesOf(
  { stores, lookups }: ControllerDependencies,
  application: Application,
  early: readonly Pick<NodeId, 'uuid'>[] = [],
): Set<EdgeNode> {
  const nodes = new Map<string, EdgeNode>();
  const add = (node: EdgeNode | undefined) => void (node && nodes.set(nodeUuid(node), node));
  for (const entry of application.spec.microservices ?? []) add(nodeOf(entry, lookups));
  const lines = application.status?.microservices ?? [];
  for (const { uuid } of [...early, ...lines.flatMap(placesOf)]) if (uuid !== undefined) add(lookups.nodeByUuid(uuid));
  // Lines of before the uuid of their node was recorded have its name alone.
  for (const { node, nodeUuid: uuid } of lines)
    if (uuid === undefined && node !== undefined) add(lookups.nodeByName(node));
  for (const node of stores.nodes.byIndex('reports', v3Name(application))) add(node);
  return new Set(nodes.values());
}

const placesOf = ({ nodeUuid: uuid, formerNodes = [] }: NonNullable<ApplicationStatus['microservices']>[number]) => [
  { uuid },
  ...formerNodes,
];

const isReady = ({ conditions = [] }: { conditions?: readonly { type: string; status: string }[] }) =>
  conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
