import { FINALIZERS, LABELS } from '../../../api/names.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { identityOf } from '../../../controllers/identity.ts';
import { watchInteriorRoom } from '../../../controllers/interior-room.ts';
import { stamp } from '../../../controllers/stamp.ts';
import { createStatusWriter, REFUSED_RETRY_MS, type StatusWriter } from '../../../controllers/status-writer.ts';
import { applicationsOn } from '../../../datastore/lookups.ts';
import { nodeStatus, withLastSeen } from '../../../desired/rules/node-status.ts';
import {
  both,
  type Change,
  type Controller,
  createController,
  done,
  equal,
  inTurn,
  type KubeObject,
  keyFor,
  keyOf,
  type Outcome,
  parseKey,
  removeFinalizer,
  requeueAfter,
  watching,
} from '../../../kube/mod.ts';
import { checkNodeDeletion } from '../../../rules/deletion.ts';
import { identityLabels, nodeUuid, type ObjectIdentity } from '../../../rules/identity.ts';
import type { Liveness } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import { nodesOfAuthority, platformFacts } from '../../../rules/part.ts';
import { KINDS, RESOURCES } from '../../kinds.ts';
import { type SilenceChange, silenceChange } from '../rules/mass-silence.ts';
import { nodeOf } from '../rules/placement/entries.ts';
import { affectsStatus } from '../rules/status-filter.ts';
import { firstReportWait, silenceDueMs } from '../rules/status-timing.ts';
import { concernsDownstream, upstreamVerdicts } from '../rules/upstreams.ts';
import { nodeVerdict } from '../rules/verdict.ts';
import type { MassSilence } from './mass-silence.ts';
import { nodesWithBus } from './nodes-with-bus.ts';
import { createRemovedEntries, type RemovedEntries } from './removed-entries.ts';
import type { SilencePacer } from './silence-pacer.ts';
import { createStatusBudget } from './status-budget.ts';
import { TunnelPorts } from './tunnel-ports.ts';

/** How often a pending deletion is checked when nothing changes. */
const DELETION_CHECK_MS = 5_000;
/** Reports in quick succession are reconciled together. */
const MERGE_MS = 250;

/** EdgeNode: identity, liveness, what the node observed, and a deletion that waits for the machine. */
export function createEdgeNodeController(
  deps: ControllerDependencies,
  massSilence: MassSilence,
  pacer: SilencePacer,
): Controller {
  const { stores, observations, clock, log, metrics } = deps;
  const statuses = createStatusWriter(deps, KINDS.nodes);
  const removed = createRemovedEntries((entry) => nodeOf(entry, deps.lookups));
  const reconciledAt = new Map<string, number>();
  const tunnels = new TunnelPorts(deps.lookups.tunnels, stores.nodes);
  const facts = platformFacts(deps.platform, deps.lookups);
  const usersOf = (authority: string | undefined) =>
    nodesOfAuthority(authority, () => stores.nodes.list(), { parts: deps.platform.parts, facts }).map(keyOf);
  const reconcile = createReconcile(deps, { massSilence, pacer, statuses, removed, tunnels });

  /** Contact alone may end a silence that is stored, or that waits to be stored. */
  function endsSilence(node: EdgeNode): boolean {
    const change = changeOf(node, deps.liveness(node));
    return change === 'ends' || (change === undefined && pacer.isWaiting(keyOf(node)));
  }

  const controller = createController({
    name: 'edge-node',
    watches: [
      watching(stores.nodes, (change) => {
        const others = tunnels.affected(change);
        if (changesMoreThanStatus(change))
          return [change.key, ...sameIdentity(deps, change.object), ...downstream(deps, change), ...others];
        return [...(statuses.isForeign(change) ? [change.key] : []), ...others];
      }),
      watchInteriorRoom(deps),
      // Verdicts on entries are part of a node's platform status.
      watching(stores.applications, (change) => {
        removed.note(change);
        const reporting = change.type === 'delete' ? stores.nodes.byIndex('reports', v3Name(change.object)) : [];
        // The conditions of a node say what keeps the microservices of its platform from running.
        return [...reporting.map(keyOf), ...ownersOf(change.object)];
      }),
      // A new provisioning is recorded before the first report of the agent; and what the platform needs is there, or changes.
      watching(stores.secrets, ({ object, initial }) => {
        const { labels = {} } = object.metadata;
        if (labels[LABELS.nodeKey] || labels[LABELS.platform]) return ownersOf(object);
        if (labels[LABELS.bus]) return initial ? [] : nodesWithBus(deps, object);
        if (object.metadata.name === deps.lookups.tunnels?.settings.secretName)
          return stores.nodes.byIndex('tunnel', 'wanted').map(keyOf);
        return initial ? [] : usersOf(labels[LABELS.authority]);
      }),
    ],
    reconcile(key, { signal }) {
      const { namespace, name } = parseKey(key);
      if (stores.nodes.get(namespace, name)) reconciledAt.set(key, clock());
      else reconciledAt.delete(key);
      return reconcile(key, signal);
    },
    concurrency: 8,
    log,
    metrics,
  });
  const observing = observations.subscribe((uuid, now, before) => {
    const nodes = stores.nodes.byIndex('uuid', uuid);
    const [stored] = nodes;
    if (!(stored && endsSilence(stored)) && !affectsStatus(now, before, stored?.status, clock())) return;
    for (const key of nodes.map(keyOf))
      controller.enqueue(key, { afterMs: Math.max(0, (reconciledAt.get(key) ?? 0) + MERGE_MS - clock()) });
  });
  const end = controller[Symbol.asyncDispose];
  return Object.assign(controller, {
    async [Symbol.asyncDispose]() {
      observing[Symbol.dispose]();
      await end();
    },
  });
}

interface Helpers {
  massSilence: MassSilence;
  pacer: SilencePacer;
  statuses: StatusWriter<EdgeNode>;
  removed: RemovedEntries;
  tunnels: TunnelPorts;
}

/** Observes a node and its reports, plans its status, writes it in its turn, and returns when to reconcile again. */
function createReconcile(deps: ControllerDependencies, { massSilence, pacer, statuses, removed, tunnels }: Helpers) {
  const { client, stores, lookups, observations, clock, listeningSince } = deps;
  const resource = RESOURCES.nodes;
  const budget = createStatusBudget(clock, (node) => applicationsOn(stores, node).length);

  function observe(node: EdgeNode) {
    const uuid = nodeUuid(node);
    return { uuid, liveness: deps.liveness(node), observation: observations.get(uuid), now: clock() };
  }

  function plan(node: EdgeNode, identity: ObjectIdentity, seen: ReturnType<typeof observe>) {
    const desired = deps.desired(node);
    const rival = nodeVerdict(node, lookups);
    const upstreams = upstreamVerdicts(node, lookups);
    const provisioned = deps.provisioned(seen.uuid);
    const status = nodeStatus({
      node,
      now: seen.now,
      controlPlane: deps.controlPlane,
      listeningSince,
      removed: removed.of(seen.uuid),
      ...(seen.observation && { observation: seen.observation }),
      ...(desired && { desired }),
      ...(rival && { identity: rival }),
      upstreams,
      tunnel: tunnels.grant(node),
      ...(provisioned && { provisioned }),
    });
    const planned = { ...status, ...identity };
    return equal(node.status, planned) ? planned : withLastSeen(planned, seen.observation);
  }

  /** Milliseconds that the write of a silence waits. Checked before the status is computed, since a node may wait repeatedly. */
  function waitForSilence(key: string, change: SilenceChange | undefined): number {
    if (change === 'begins') massSilence.check();
    return pacer.waitMs(key, change);
  }

  async function reconcileDeletion(key: string, node: EdgeNode, signal: AbortSignal): Promise<Outcome> {
    const seen = observe(node);
    const deletion = checkNodeDeletion(node, seen.liveness, seen.now);
    if (!deletion.pending) {
      await removeFinalizer(client, resource, node, FINALIZERS.workloads, { signal });
      observations.forget(seen.uuid);
      removed.forget(seen.uuid);
      return done();
    }
    pacer.waitMs(key, undefined);
    const status = plan(node, await identityOf(deps, KINDS.nodes, node, signal), seen);
    const { refused } = await statuses.write(node, status, signal, pacer.writeOptions(key, undefined, false));
    return requeueAfter(
      refused ? DELETION_CHECK_MS : Math.min(DELETION_CHECK_MS, Math.max(0, deletion.until - clock())),
    );
  }

  return async (key: string, signal: AbortSignal): Promise<Outcome> => {
    const { namespace, name } = parseKey(key);
    const stored = stores.nodes.get(namespace, name);
    if (!stored) {
      pacer.forget(key);
      budget.forget(key);
      tunnels.forget(key);
      return done();
    }
    if (stored.metadata.deletionTimestamp !== undefined) return reconcileDeletion(key, stored, signal);
    const identity = await identityOf(deps, KINDS.nodes, stored, signal);
    const stamps = { finalizer: FINALIZERS.workloads, labels: identityLabels(identity) };
    const node = await stamp(client, resource, stored, stamps, signal);
    const seen = observe(node);
    const { observation, now } = seen;
    const change = changeOf(node, seen.liveness);
    const silenceMs = waitForSilence(key, change);
    if (silenceMs > 0) return requeueAfter(silenceMs);
    const reportMs = firstReportWait(deps.provisioned(seen.uuid)?.provisionedAt, observation, now);
    if (reportMs > 0) return requeueAfter(reportMs);
    // The state of a node with a large bus server costs milliseconds, and what changes one node often changes others.
    const status = await inTurn(() => plan(node, identity, seen));
    // The pacer already limits writes that silence causes.
    const budgetMs = change ? 0 : budget.waitMs(key, node, status);
    if (budgetMs === 0) {
      const options = pacer.writeOptions(key, change, massSilence.suspected);
      const { refused } = await statuses.write(node, status, signal, options);
      if (refused) return requeueAfter(REFUSED_RETRY_MS);
    }
    // A write that waits does not delay the time at which silence begins.
    const dueMs = silenceDueMs(node, observation, status, { now, listeningSince });
    const nextMs = Math.min(dueMs ?? Number.POSITIVE_INFINITY, budgetMs || Number.POSITIVE_INFINITY);
    return nextMs === Number.POSITIVE_INFINITY ? done() : requeueAfter(nextMs);
  };
}

/** How silence changes the status of a node; a silence that is stored already changes nothing. */
function changeOf({ status }: EdgeNode, alive: Liveness): SilenceChange | undefined {
  const stored = status?.daemonStatus === 'UNKNOWN';
  if (alive === 'never' || (stored && alive === 'silent')) return undefined;
  return silenceChange(stored, alive === 'silent');
}

const ownersOf = ({ metadata: { namespace, ownerReferences = [] } }: KubeObject) =>
  ownerReferences.filter(({ kind }) => kind === RESOURCES.nodes.kind).map(({ name }) => keyFor(namespace, name));

/** The nodes that name a node as their router or bus server, when its change may concern them. */
function downstream({ stores }: ControllerDependencies, change: Change<EdgeNode>): Iterable<string> {
  const { type, object, previous, initial } = change;
  // Nodes that exist at the start are reconciled anyway.
  if (initial || (type === 'set' && previous && !concernsDownstream(object, previous))) return [];
  return both((node: EdgeNode) =>
    [nodeUuid(node), v3Name(node)].flatMap((name) => stores.nodes.byIndex('upstream', name).map(keyOf)),
  )(change);
}

const sameIdentity = ({ stores }: ControllerDependencies, node: EdgeNode) =>
  [...stores.nodes.byIndex('name', v3Name(node)), ...stores.nodes.byIndex('uuid', nodeUuid(node))].map(keyOf);
