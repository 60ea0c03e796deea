import type { Reason } from '../api/conditions.ts';
import { FINALIZERS } from '../api/names.ts';
import type { ConfigMap, Secret } from '../api/resources.ts';
import type { Application, ApplicationStatus, EdgeNode, Registry } from '../api/v3/index.ts';
import {
  applicationHold,
  applicationStatus,
  applicationUuid,
  applicationVerdict,
  identityLabels,
  idVerdict,
  type NodeFacts,
  nodeOf,
  nodeUuid,
  readyAt,
  refsTo,
  registryId,
  registryKey,
  v3Name,
  verdicts,
} from '../domain/index.ts';
import { RESOURCES } from '../kinds/index.ts';
import {
  both,
  type Change,
  type Controller,
  createController,
  done,
  keyOf,
  parseKey,
  removeFinalizer,
  requeueAfter,
  watching,
} from '../kube/mod.ts';
import { isSeenAlike } from '../stores/node-change.ts';
import { textNameOf } from '../stores/references.ts';
import { applicationsOn } from '../stores/world.ts';
import { asksForSomething } from './change-filter.ts';
import type { Leader } from './dependencies.ts';
import { holderOf, identityOf } from './identity.ts';
import { createReadyLag } from './ready-timer.ts';
import type { Silence, Turn } from './silence-pacer.ts';
import { stamp } from './stamp.ts';
import { createStatuses, REFUSED_AGAIN_MS } from './status-writer.ts';

/** How often a held deletion is looked at when nothing changes. */
const HELD_MS = 5_000;

/** Application: identity, verdicts, status, and a deletion that waits for the machines. */
export function createApplicationController(leader: Leader, silence: Silence): Controller {
  const { client, stores, world, ids, clock, log, metrics } = leader;
  const resource = RESOURCES.applications;
  const statuses = createStatuses(leader, resource);
  const turns = silence.turns();
  const lag = createReadyLag(clock, (seconds) => metrics.ready?.(seconds));

  /** Applications that may see a node differently now. */
  const ofNode = (node: EdgeNode) => applicationsOn(stores, node).map(keyOf);
  /** An application's claims of ports and names matter to its neighbours. */
  const neighbours = (application: Application) =>
    [...nodesOf(leader, application)]
      .flatMap(ofNode)
      .concat(stores.applications.byIndex('name', v3Name(application)).map(keyOf))
      .concat(stores.applications.byIndex('uuid', applicationUuid(application)).map(keyOf));
  const usersOfRegistry = (registry: Registry) =>
    refsTo(registry).flatMap((ref) => stores.applications.byIndex('registry', registryKey(ref)).map(keyOf));
  const usersOf = (kind: 'secret' | 'configMap') => (object: Secret | ConfigMap) =>
    stores.applications.byIndex('source', `${kind}:${textNameOf(object)}`).map(keyOf);

  /** A change of the spec begins to age when it is seen. */
  function noteAge({ type, key, object, previous, initial }: Change<Application>): void {
    if (type === 'delete') lag.gone(key);
    else if (!initial && object.metadata.generation !== previous?.metadata.generation) lag.changed(key, object);
  }

  async function reconcile(key: string, { signal }: { signal: AbortSignal }) {
    const { namespace, name } = parseKey(key);
    const stored = stores.applications.get(namespace, name);
    if (!stored) {
      turns.forget(key);
      return done();
    }
    const identity = await identityOf(stored, {
      withUuid: (uuid) => stores.applications.byIndex('uuid', uuid),
      withId: (id) => stores.applications.byIndex('id', String(id)),
      nextId: () => ids.next('Application', signal),
    });
    const stamps = { finalizer: FINALIZERS.workloads, labels: identityLabels(identity) };
    const application = stored.metadata.deletionTimestamp
      ? stored
      : await stamp(client, resource, stored, stamps, signal);
    const nodes: NodeFacts[] = [...nodesOf(leader, application)].map((node) => ({
      node,
      liveness: leader.liveness(node),
      desired: leader.desired(node) ?? { microservices: [] },
    }));
    const askedId = stored.spec.id;
    const rival =
      applicationVerdict(application, world) ??
      idVerdict(stored, identity.id, holderOf(stores.applications.byIndex('id', String(askedId)), stored));
    const hold = application.metadata.deletionTimestamp
      ? applicationHold(application, nodes, clock(), { ownsName: rival?.reason !== 'NameTaken' })
      : undefined;
    if (hold && !hold.held) {
      await removeFinalizer(client, resource, application, FINALIZERS.workloads, { signal });
      return done();
    }
    const inputs = {
      application,
      ...(rival && { identity: rival }),
      verdicts: verdicts(application, world),
      nodes,
      now: new Date(clock()).toISOString(),
    };
    const status = { ...applicationStatus(inputs), ...identity };
    const turn = hold ? undefined : turnOf(application, status);
    const waitMs = turns.waitFor(turn, key);
    if (waitMs > 0) return requeueAfter(waitMs);
    const { refused } = await statuses.write(application, status, signal, turns.writing(turn, key));
    lag.judged(key, application, !refused && isReady(status));
    if (hold) return requeueAfter(Math.min(HELD_MS, Math.max(0, hold.until - clock())));
    if (refused) return requeueAfter(REFUSED_AGAIN_MS);
    const at = readyAt(inputs);
    return at === undefined ? done() : requeueAfter(Math.max(0, at - clock()) + 10);
  }

  return createController({
    name: 'application',
    watches: [
      watching(stores.applications, (change) => {
        noteAge(change);
        if (asksForSomething(change)) return [change.key, ...both(neighbours)(change)];
        return statuses.isForeign(change) ? [change.key] : [];
      }),
      watching(stores.nodes, (change) => (isSeen(change) ? both(ofNode)(change) : [])),
      watching(stores.registries, (change) => (isJudgedBy(change) ? both(usersOfRegistry)(change) : [])),
      watching(stores.secrets, both(usersOf('secret'))),
      watching(stores.configMaps, both(usersOf('configMap'))),
    ],
    reconcile,
    concurrency: 8,
    log,
    metrics,
  });
}

/** What silence alone changes of what is stored; what somebody asked for is written at once. */
function turnOf({ status: before }: Application, after: ApplicationStatus): Turn | undefined {
  if (before?.observedGeneration !== after.observedGeneration) return undefined;
  const [was, is] = [isUnreachable(before), isUnreachable(after)];
  if (was && is) return 'more';
  return is ? 'silent' : was ? 'back' : undefined;
}

const isUnreachable = ({ conditions = [] }: Pick<ApplicationStatus, 'conditions'>) =>
  conditions.some(({ type, reason }) => type === 'Ready' && reason === ('NodeUnreachable' satisfies Reason));

/** Whether an application may see a node differently: a sign of life alone shows nowhere. */
const isSeen = (change: Change<EdgeNode>) =>
  asksForSomething(change) || !change.previous || !isSeenAlike(change.object, change.previous);

/** Whether verdicts on those who use a registry may be others now: labels and annotations do not matter to them. */
const isJudgedBy = ({ type, object, previous }: Change<Registry>) =>
  type === 'delete' ||
  previous === undefined ||
  previous.metadata.uid !== object.metadata.uid ||
  previous.metadata.generation !== object.metadata.generation ||
  registryId(previous) !== registryId(object);

/** Every node that an entry names, or that still reports a microservice of the application. */
function nodesOf({ stores, world }: Leader, application: Application): Set<EdgeNode> {
  const nodes = new Map<string, EdgeNode>();
  for (const entry of application.spec.microservices ?? []) {
    const node = nodeOf(entry, world);
    if (node) nodes.set(nodeUuid(node), node);
  }
  for (const node of stores.nodes.byIndex('reports', v3Name(application))) nodes.set(nodeUuid(node), node);
  return new Set(nodes.values());
}

const isReady = ({ conditions = [] }: { conditions?: readonly { type: string; status: string }[] }) =>
  conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
