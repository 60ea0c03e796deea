import { LABELS, PLATFORM_SECRET_PREFIX } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';
import type { EdgeNode, RouterHub } from '../../../api/v3/index.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { watchInteriorRoom } from '../../../controllers/interior-room.ts';
import {
  type Change,
  type Controller,
  createController,
  done,
  keyFor,
  keyOf,
  type Outcome,
  parseKey,
  requeueAfter,
  watching,
} from '../../../kube/mod.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import { nodesOfAuthority, platformFacts } from '../../../rules/part.ts';
import type { Signer } from '../../../signer/signer.ts';
import { RESOURCES } from '../../kinds.ts';
import { hostOf } from '../../nodes/rules/settings.ts';
import { nodeVerdict } from '../../nodes/rules/verdict.ts';
import { routerHubSettings } from '../../routers/rules/hub.ts';
import { wantsOn } from '../rules/node.ts';
import { platformSecretName } from '../rules/secret.ts';
import { createNodeCertificates } from './certificates.ts';
import { createPlatformEntries } from './entries.ts';

/** Timers of Node take no longer time. */
const LONGEST_MS = 24 * 3_600_000;

/**
 * The platform of a node: makes what its parts want, in the cluster. It writes no status: the status of a node says what its
 * machine has of this (src/desired/rules/node-status.ts).
 */
export function createPlatformController(deps: ControllerDependencies, signer: Signer): Controller {
  const { stores, lookups, log, metrics, clock, platform } = deps;
  const certificates = createNodeCertificates(deps, signer);
  const entries = createPlatformEntries(deps);
  const facts = platformFacts(platform, lookups);

  async function reconcile(key: string, signal: AbortSignal): Promise<Outcome> {
    const { namespace, name } = parseKey(key);
    const node = stores.nodes.get(namespace, name);
    if (!node) {
      for (const application of stores.applications.byIndex('endsWithNode', name))
        await entries.end(application, signal);
      for (const secret of stores.secrets.byIndex('platformOf', name)) await certificates.remove(secret, signal);
      return done();
    }
    // Another node has the name or the uuid, and with it what would be made here.
    if (nodeVerdict(node, lookups)) return done();
    if (node.metadata.deletionTimestamp) {
      // The containers go first; their files stay until the machine has removed them.
      await entries.keep(node, [], signal);
      return done();
    }
    // Of a former uuid, or of a former node with this name.
    for (const secret of stores.secrets.byIndex('platformOf', name))
      if (secret.metadata.name !== platformSecretName(nodeUuid(node))) await certificates.remove(secret, signal);
    const wanted = wantsOn(node, { parts: platform.parts, facts });
    const dueAt = await certificates.keep(
      node,
      {
        certificates: wanted.flatMap((each) => each.certificates ?? []),
        keys: wanted.flatMap((each) => each.keys ?? []),
      },
      signal,
    );
    await entries.keep(
      node,
      wanted.flatMap(({ entry }) => entry ?? []),
      signal,
    );
    return dueAt === undefined ? done() : requeueAfter(Math.min(LONGEST_MS, Math.max(0, dueAt - clock())));
  }

  /** Nodes that lack a setting may act in another mode once the first node of the system exists, or the last one is deleted. */
  const concernsAll = ({ type, object, previous }: Change<EdgeNode>) =>
    object.spec.isSystem === true && (type === 'delete' || !previous);
  const allNodes = () => Array.from(stores.nodes.list(), keyOf);
  const usersOf = (authority: string | undefined) =>
    nodesOfAuthority(authority, () => stores.nodes.list(), { parts: platform.parts, facts }).map(keyOf);

  /** Nodes with the name or the uuid of a deleted node: the oldest of them has it now. */
  const namesakesOf = (node: EdgeNode) => [
    ...stores.nodes.byIndex('name', v3Name(node)),
    ...stores.nodes.byIndex('uuid', nodeUuid(node)),
  ];

  /** Nodes that report an address get no certificate with it while it is the host of another node. */
  function withAddressOf({ object, previous }: Change<EdgeNode>): readonly EdgeNode[] {
    const hosts = [object.spec.host, previous?.spec.host].filter((host) => host !== undefined);
    return hosts.flatMap((host) => stores.nodes.byIndex('address', host)).filter(({ spec }) => !spec.host);
  }

  /** The nodes that a Secret of a platform is for, by its name and its owners: whoever took one of them off finds it put right. */
  function nodesOf({ metadata: { name, namespace, ownerReferences = [] } }: Secret): readonly string[] {
    if (!name.startsWith(PLATFORM_SECRET_PREFIX)) return [];
    const owners = ownerReferences.filter(isNode).map((owner) => keyFor(namespace, owner.name));
    const named = stores.nodes.byIndex('uuid', name.slice(PLATFORM_SECRET_PREFIX.length)).map(keyOf);
    return [...new Set([...owners, ...named])];
  }

  return createController({
    name: 'platform',
    watches: [
      watching(stores.nodes, (change) => {
        if (!change.initial && concernsAll(change)) return allNodes();
        const own = changesMoreThanStatus(change) || isReachedElsewhere(change) ? [change.key] : [];
        const others = [
          ...(change.type === 'delete' ? namesakesOf(change.object) : []),
          ...(change.initial || isHostKept(change) ? [] : withAddressOf(change)),
        ];
        return [...own, ...others.map(keyOf)];
      }),
      watchInteriorRoom(deps),
      watching(stores.secrets, ({ object, initial }) => [
        ...nodesOf(object),
        ...(initial ? [] : usersOf(object.metadata.labels?.[LABELS.authority])),
      ]),
      // Nodes without a router mode are edge routers once the default router has an address.
      watching(stores.routerHubs, (change) =>
        platform.hasRouters && !change.initial && isAddressKnown(change) !== wasAddressKnown(change) ? allNodes() : [],
      ),
      // An authority that is deleted by force is made again.
      watching(stores.certificateAuthorities, ({ object, type }) =>
        type === 'delete' ? usersOf(object.metadata.name) : [],
      ),
      watching(stores.applications, ({ object }) => {
        const { name, namespace, ownerReferences = [] } = object.metadata;
        if (object.spec.isSystem) return ownerReferences.filter(isNode).map((owner) => keyFor(namespace, owner.name));
        // The application of a user may have had the name of the system's.
        return stores.nodes.byIndex('systemApplication', name).map(keyOf);
      }),
    ],
    reconcile: (key, { signal }) => reconcile(key, signal),
    concurrency: 2,
    log,
    metrics,
  });
}

const hasAddress = (hub: RouterHub) =>
  hub.metadata.deletionTimestamp === undefined && routerHubSettings(hub).host !== undefined;
const isAddressKnown = ({ object, type }: Change<RouterHub>) => type !== 'delete' && hasAddress(object);
const wasAddressKnown = ({ object, previous, type }: Change<RouterHub>) => {
  const before = type === 'delete' ? object : previous;
  return before !== undefined && hasAddress(before);
};

const isNode = ({ kind }: { kind: string }) => kind === RESOURCES.nodes.kind;

const isReachedElsewhere = ({ object, previous }: Change<EdgeNode>) =>
  previous !== undefined && (hostOf(object) !== hostOf(previous) || nodeUuid(object) !== nodeUuid(previous));

const isHostKept = ({ object, previous, type }: Change<EdgeNode>) =>
  type !== 'delete' && object.spec.host === previous?.spec.host;
