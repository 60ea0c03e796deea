import type { Artifact, ArtifactKind, EdgeNode, ObservedArtifact } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { createWritePacer } from '../../../controllers/write-pacer.ts';
import { type Kind, referenceKey } from '../../../kinds/definition.ts';
import { type Change, type Controller, keyOf, type Store, type Watch, watching } from '../../../kube/mod.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import { KINDS } from '../../kinds.ts';
import { isReady } from '../../nodes/rules/artifacts.ts';
import { reach } from '../../nodes/rules/placement/reach.ts';
import { boundNames, pullSource } from '../rules/artifact/artifact.ts';

/** Least time between two counts of one artifact that reports cause. */
const MERGE_MS = 5_000;
/** Counts that reports cause, of all artifacts of a kind. */
const COUNTS_PER_SECOND = 10;

/** Model and Knowledge: besides what every kind has, on how many of its nodes an artifact is ready. */
export function createArtifactController(deps: ControllerDependencies, kind: ArtifactKind): Controller {
  const { stores, clock } = deps;
  const store = stores[kind] as Store<Artifact>;
  const pacer = createWritePacer(COUNTS_PER_SECOND, clock);
  const countedAt = new Map<string, number>();

  /** Milliseconds after which a report is counted; reports in the meantime are counted with it. */
  function countAfterMs(key: string): number {
    const merged = (countedAt.get(key) ?? 0) + MERGE_MS - clock();
    return Math.max(merged, pacer.take(key), 0);
  }

  function nodeCount(artifact: Artifact): string {
    const key = keyOf(artifact);
    pacer.release(key);
    countedAt.set(key, clock());
    const nodes = nodesOf(deps, kind, artifact);
    const source = pullSource(artifact, deps.lookups.find);
    const uuid = uuidOf(artifact);
    const ready = [...nodes].filter(({ status }) => {
      const item = status?.[kind]?.find((one) => one.uuid === uuid);
      return item && source && isReady(item, source);
    });
    return `${ready.length}/${nodes.size}`;
  }

  const controller = createKindController(deps, KINDS[kind] as unknown as Kind<Artifact>, {
    status: (artifact) => ({ nodeCount: nodeCount(artifact) }),
    watches: [
      // A node that is new or gone; what is linked to it follows by its links.
      watching(stores.nodes, (change) =>
        change.initial || (change.type === 'set' && change.previous)
          ? []
          : boundOn(deps, kind, change.object).map(keyOf),
      ),
      reportWatch(),
    ],
  });

  function reportWatch(): Watch {
    return {
      whenSynced: (signal) => stores.nodes.whenSynced(signal),
      start: () =>
        stores.nodes.subscribe((change) => {
          for (const uuid of change.initial ? [] : changedArtifacts(kind, change))
            for (const artifact of store.byIndex('uuid', uuid)) {
              const key = keyOf(artifact);
              controller.enqueue(key, { afterMs: countAfterMs(key) });
            }
        }),
    };
  }
  return controller;
}

/** uuids of the artifacts about which a node says something else than before. */
function changedArtifacts(kind: ArtifactKind, { object, previous }: Change<EdgeNode>): string[] {
  const [is, was] = [object, previous].map((node) => node?.status?.[kind] ?? []);
  if (is === was) return [];
  const before = new Map(was?.map((item) => [item.uuid, factsOf(item)]));
  const changed = (is ?? []).filter((item) => before.get(item.uuid) !== factsOf(item)).map(({ uuid }) => uuid);
  const now = new Set(is?.map(({ uuid }) => uuid));
  return [...changed, ...[...before.keys()].filter((uuid) => !now.has(uuid))];
}

const factsOf = ({ state, pulledFor = '' }: ObservedArtifact) => `${state} ${pulledFor}`;

/** Nodes linked to the artifact, or with an entry that binds it, or to which such an entry is to move. */
function nodesOf({ stores, lookups }: ControllerDependencies, kind: ArtifactKind, artifact: Artifact): Set<EdgeNode> {
  const name = v3Name(artifact);
  const uses = stores.applications
    .byIndex('ref', referenceKey({ to: kind, ref: name }))
    .flatMap((application) =>
      (application.spec.microservices ?? [])
        .filter((entry) => entry[kind]?.items?.some((item) => item.name === name))
        .map((entry) => ({ application, entry })),
    );
  return new Set([...reach(artifact, uses, lookups)].map(({ node }) => node));
}

/** The artifacts that entries on a node bind. */
const boundOn = ({ lookups }: ControllerDependencies, kind: ArtifactKind, node: EdgeNode): Artifact[] =>
  lookups
    .applicationsOn(node)
    .flatMap((application) => [...boundNames(application, kind)])
    .flatMap((name) => lookups.find(kind, name) ?? []);
