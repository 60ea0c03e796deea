import type { EdgeNode } from '../api/v3/index.ts';
import { storeOf } from '../datastore/stores.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import { type Change, keyOf, type Watch, watching } from '../kube/mod.ts';
import type { Progress } from '../rules/conditions.ts';
import { nodeUuid } from '../rules/identity.ts';
import { linkObstacle } from '../rules/kind-status.ts';
import { v3Name } from '../rules/names.ts';
import { linkedNode } from '../subjects/nodes/rules/placement/reach.ts';
import type { ControllerDependencies } from './dependencies.ts';

/** The links of the objects of a kind to nodes. */
interface Links<T> {
  /** Why a node does not get an object although it is linked to it. The other nodes get it all the same. */
  obstacle(object: T): Progress | undefined;
  watches: readonly Watch[];
}

/** Judges links as REST does. A change of a node concerns the objects that are linked to it, and no others. */
export function createLinks<T extends KindObject>(
  { stores, lookups }: Pick<ControllerDependencies, 'stores' | 'lookups'>,
  kind: Kind<T>,
): Links<T> {
  const { links } = kind;
  if (!links) return { obstacle: () => undefined, watches: [] };
  const { refusal } = links;
  const store = storeOf(stores, kind);
  const isRefused = (object: T, node: EdgeNode) => refusal?.of(object, node) !== undefined;
  const linkedTo = (node: EdgeNode) => [nodeUuid(node), v3Name(node)].flatMap((name) => store.byIndex('linked', name));

  function concerned({ type, object, previous }: Change<EdgeNode>): readonly T[] {
    const isKnown = type === 'set' && previous && isNamedAlike(object, previous);
    if (!isKnown) return [object, ...(previous ? [previous] : [])].flatMap(linkedTo);
    return refusal ? linkedTo(object).filter((one) => isRefused(one, object) !== isRefused(one, previous)) : [];
  }

  return {
    obstacle: (object) =>
      linkObstacle(
        object.spec.nodes ?? [],
        linkedNode(lookups),
        refusal && { ...refusal, of: (node) => isRefused(object, node) },
      ),
    // Objects that exist at the start are reconciled anyway.
    watches: [watching(stores.nodes, (change) => (change.initial ? [] : concerned(change).map(keyOf)))],
  };
}

const isNamedAlike = (a: EdgeNode, b: EdgeNode) => nodeUuid(a) === nodeUuid(b) && v3Name(a) === v3Name(b);
