import { FINALIZERS, LABELS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import type { EdgeNode, EdgeNodeStatus } from '../api/v3/index.ts';
import { isNews } from '../domain/edge-node/status-filter.ts';
import {
  identityLabels,
  type Liveness,
  massSilence,
  nameTaken,
  nodeHold,
  nodeOf,
  nodeStatus,
  nodeUuid,
  type Observation,
  signOfLife,
  silentAt,
  statusCost,
  uuidTaken,
  type Verdict,
  v3Name,
} from '../domain/index.ts';
import { RESOURCES } from '../kinds/index.ts';
import {
  type Controller,
  createController,
  createTokenBuckets,
  done,
  equal,
  keyFor,
  keyOf,
  parseKey,
  removeFinalizer,
  requeueAfter,
  watching,
} from '../kube/mod.ts';
import { applicationsOn } from '../stores/world.ts';
import { asksForSomething } from './change-filter.ts';
import type { Leader } from './dependencies.ts';
import { identityOf } from './identity.ts';
import { createLeft } from './removed-entries.ts';
import type { Silence, Turn } from './silence-pacer.ts';
import { stamp } from './stamp.ts';
import { createStatuses, REFUSED_AGAIN_MS } from './status-writer.ts';

const HELD_MS = 5_000;
const FIRST_REPORT_MS = 1_000;
const JUDGED_AGAIN_MS = 5_000;
/** As many wait that their silence may be one of many, not seen as such yet. */
const SEVERAL = 3;
/**
 * What one node may cause by what it says: a status costs as many units as it has KiB, as microservices changed, and as
 * applications look at it, whichever is most, and never less than LEAST_COST. 15 writes at once, then one in two seconds.
 */
const STATUS_BUDGET = { burst: 600, perSecond: 20 };
const LEAST_COST = 40;
/** Texts and counters leave this much for changes of state, and are merged while they wait. */
const RESERVE = 300;
/** Reports in quick succession are looked at together. */
const LOOK_MS = 250;

/** EdgeNode: identity, liveness, what the node observed, and a deletion that waits for the machine. */
export function createEdgeNodeController(leader: Leader, silence: Silence): Controller & Disposable {
  const { client, stores, observations, clock, listeningSince, log, metrics } = leader;
  const resource = RESOURCES.nodes;
  const turns = silence.turns();
  const statuses = createStatuses(leader, resource);
  const budget = createTokenBuckets({ clock: { now: clock }, ...STATUS_BUDGET });
  const lookedAt = new Map<string, number>();
  const left = createLeft((entry) => nodeOf(entry, leader.world));
  let judgedAt = 0;
  let looking: NodeJS.Timeout | undefined;

  async function reconcile(key: string, { signal }: { signal: AbortSignal }) {
    const { namespace, name } = parseKey(key);
    const stored = stores.nodes.get(namespace, name);
    if (!stored) {
      turns.forget(key);
      budget.forget(key);
      lookedAt.delete(key);
      return done();
    }
    const now = clock();
    lookedAt.set(key, now);
    const deleting = stored.metadata.deletionTimestamp !== undefined;
    const identity = await identityOf(stored, { withUuid: (uuid) => stores.nodes.byIndex('uuid', uuid) });
    const stamps = { finalizer: FINALIZERS.workloads, labels: identityLabels(identity) };
    const node = deleting ? stored : await stamp(client, resource, stored, stamps, signal);
    const uuid = nodeUuid(node);
    const observation = observations.get(uuid);
    const hold = deleting ? nodeHold(node, leader.liveness(node), now) : undefined;
    if (hold && !hold.held) {
      await removeFinalizer(client, resource, node, FINALIZERS.workloads, { signal });
      observations.forget(uuid);
      left.forget(uuid);
      return done();
    }
    // Before anything is computed: of many that wait most ask more than once.
    const turn = deleting ? undefined : turnOf(node, leader.liveness(node));
    if (turn === 'silent') judgeSilence(now);
    const waitMs = turns.waitFor(turn, key);
    if (waitMs > 0) return requeueAfter(waitMs);
    const rival = rivalOf(node);
    const desired = leader.desired(node);
    const provisioned = leader.provisioned(uuid);
    const reportMs = deleting ? 0 : firstReportWait(provisioned?.provisionedAt, observation, now);
    if (reportMs > 0) return requeueAfter(reportMs);
    const judged = nodeStatus({
      node,
      now,
      listeningSince,
      left: left.of(uuid),
      ...(observation && { observation }),
      ...(desired && { desired }),
      ...(rival && { identity: rival }),
      ...(provisioned && { provisioned }),
    });
    const status = { ...judged, ...identity };
    // A turn is paid for by its pace, and comes no more often than silence does.
    const payMs = turn || deleting ? 0 : payFor(key, node, status);
    if (payMs > 0) return requeueAfter(payMs);
    const { refused } = await statuses.write(node, status, signal, turns.writing(turn, key));
    if (refused) return requeueAfter(hold ? HELD_MS : REFUSED_AGAIN_MS);
    if (hold) return requeueAfter(Math.min(HELD_MS, Math.max(0, hold.until - clock())));
    return again(node, observation, status, now);
  }

  /** What a node says is written as far as it has something left; 0 when it may be written now, which uses it up. */
  function payFor(key: string, node: EdgeNode, status: EdgeNodeStatus): number {
    // an answer to what somebody asks for is not for the node to pay
    if (node.status?.observedGeneration !== status.observedGeneration || equal(node.status, status)) return 0;
    const { urgent, units } = statusCost(node.status, status);
    const waitMs = budget.waitMs(key, urgent ? 0 : RESERVE);
    if (waitMs === 0) budget.charge(key, Math.max(LEAST_COST, units, applicationsOn(stores, node).length));
    return waitMs;
  }

  /** When to look again although nothing was heard: the moment at which silence begins. */
  function again(node: EdgeNode, observation: Observation | undefined, status: EdgeNodeStatus, now: number) {
    const at = status.daemonStatus === 'UNKNOWN' ? undefined : silentAt(node, observation, listeningSince);
    return at === undefined ? done() : requeueAfter(Math.max(at - now, 0) + 50);
  }

  /** Of two nodes with one name or uuid the older wins. */
  function rivalOf(node: EdgeNode): Verdict | undefined {
    const byName = leader.world.nodeByName(v3Name(node));
    if (byName && byName.metadata.uid !== node.metadata.uid)
      return nameTaken('node', v3Name(node), byName.metadata.name);
    const byUuid = leader.world.nodeByUuid(nodeUuid(node));
    if (byUuid && byUuid.metadata.uid !== node.metadata.uid)
      return uuidTaken('node', nodeUuid(node), byUuid.metadata.name);
    return undefined;
  }

  /** More than 30 % of the live nodes silent at once is first our own fault: said once, written slowly. */
  function judgeSilence(now: number): void {
    // Everybody who falls silent asks, and everybody is looked at: once a second is enough, and sooner when it begins.
    const begins = !silence.suspected && turns.waiting >= SEVERAL;
    if (now - judgedAt < (begins ? 100 : 1_000)) return;
    judgedAt = now;
    const facts = stores.nodes.list().flatMap((node) => {
      const observation = observations.get(nodeUuid(node));
      const sign = observation?.contactAt && signOfLife(node, observation, listeningSince);
      return sign ? [{ contactAt: sign.at, limit: sign.limit }] : [];
    });
    const verdict = massSilence(facts, now);
    // As long as somebody waits to be marked, those who have long been silent included.
    const suspected = verdict.suspected || (silence.suspected && turns.waiting > 0);
    if (suspected !== silence.suspected) {
      silence.suspected = suspected;
      watchEnd();
      metrics.massSilence?.(suspected);
      const { live, fellSilent } = verdict;
      log.warn({ live, fellSilent, suspected }, 'Mass silence changed');
      const event = suspected
        ? {
            type: 'Warning',
            reason: 'MassSilence',
            note: `${fellSilent} of ${live} live nodes fell silent within one limit; first look at the controller, its network and its clock. They are marked UNKNOWN slowly`,
          }
        : { type: 'Normal', reason: 'MassSilenceOver', note: 'the nodes are heard of again, or have been marked' };
      leader.events.record(leader.self, {
        ...event,
        type: event.type as 'Warning' | 'Normal',
        action: 'Listen',
        about: 'MassSilence',
      });
    }
  }

  /** Whether a silence is over that is stored, or waits to be: whether contact alone ends it is for liveness to say. */
  function endsSilence(node: EdgeNode): boolean {
    const turn = turnOf(node, leader.liveness(node));
    return turn === 'back' || (turn === undefined && turns.waits(keyOf(node)));
  }

  /** Its end is noticed although nobody falls silent any more. */
  function watchEnd() {
    clearInterval(looking);
    if (silence.suspected) looking = setInterval(() => judgeSilence(clock()), JUDGED_AGAIN_MS);
  }

  const keyOfUuid = (uuid: string) => stores.nodes.byIndex('uuid', uuid).map(keyOf);
  const controller = createController({
    name: 'edge-node',
    watches: [
      watching(stores.nodes, (change) => {
        if (asksForSomething(change)) return [change.key, ...sameIdentity(leader, change.object)];
        return statuses.isForeign(change) ? [change.key] : [];
      }),
      // Verdicts on entries are part of a node's platform status.
      watching(stores.applications, (change) => {
        left.note(change);
        return change.type === 'delete' ? stores.nodes.byIndex('reports', v3Name(change.object)).map(keyOf) : [];
      }),
      // A new provisioning is on record before the agent's first report.
      watching(stores.secrets, (change) =>
        change.object.metadata.labels?.[LABELS.nodeKey] ? ownersOf(change.object) : [],
      ),
    ],
    reconcile,
    concurrency: 8,
    log,
    metrics,
  });
  const news = observations.subscribe((uuid, now, before) => {
    const stored = stores.nodes.byIndex('uuid', uuid)[0];
    if (!(stored && endsSilence(stored)) && !isNews(now, before, stored?.status, clock())) return;
    for (const key of keyOfUuid(uuid))
      controller.enqueue(key, { afterMs: Math.max(0, (lookedAt.get(key) ?? 0) + LOOK_MS - clock()) });
  });
  return Object.assign(controller, {
    [Symbol.dispose]: () => {
      news[Symbol.dispose]();
      clearInterval(looking);
      // Whoever leads next judges anew.
      metrics.massSilence?.(false);
    },
  });
}

/** What silence alone changes of what is stored. */
function turnOf({ status }: EdgeNode, alive: Liveness): Turn | undefined {
  const isStored = status?.daemonStatus === 'UNKNOWN';
  if (alive === 'silent') return isStored ? undefined : 'silent';
  return alive === 'live' && isStored ? 'back' : undefined;
}

/** ms to wait yet for the first report of an agent that took its identity a moment ago: one status tells both. */
function firstReportWait(provisionedAt: number | undefined, observation: Observation | undefined, now: number): number {
  if (provisionedAt === undefined || (observation?.reportedAt ?? 0) >= provisionedAt) return 0;
  // By the clock of the replica that provisioned, which may be ahead.
  return now < provisionedAt ? 0 : Math.max(0, provisionedAt + FIRST_REPORT_MS - now);
}

const ownersOf = ({ metadata: { namespace, ownerReferences = [] } }: Secret) =>
  ownerReferences.filter(({ kind }) => kind === RESOURCES.nodes.kind).map(({ name }) => keyFor(namespace, name));

const sameIdentity = ({ stores }: Leader, node: EdgeNode) =>
  [...stores.nodes.byIndex('name', v3Name(node)), ...stores.nodes.byIndex('uuid', nodeUuid(node))].map(keyOf);
