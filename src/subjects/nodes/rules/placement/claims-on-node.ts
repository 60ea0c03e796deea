import type { EdgeNode, MicroserviceEntry } from '../../../../api/v3/index.ts';
import type { LinkableKind, Lookups } from '../../../../rules/inputs.ts';
import { v3Name } from '../../../../rules/names.ts';
import { byAge, byPrecedence, type Claim, compareTexts, isOfSystem } from '../../../../rules/precedence.ts';
import { placedOn } from './entries.ts';

/** What asks for an object on a node: entries that use it, the oldest application of which counts, or a link alone. */
export interface NodeClaim extends Omit<Claim, 'has'> {
  /** v3 name of the object */
  name: string;
  isUsed: boolean;
}

/** The objects of a kind that a node is to have, by the entries that name them and by their links; in no order. */
export function claimsOnNode(
  kind: LinkableKind,
  node: EdgeNode,
  lookups: Pick<Lookups, 'applicationsOn' | 'linkedTo' | 'nodeByName'>,
  namesOf: (entry: MicroserviceEntry, application: Parameters<ReturnType<typeof placedOn>>[0]) => readonly string[],
): readonly NodeClaim[] {
  const entriesOf = placedOn(node, lookups);
  const found = new Map<string, NodeClaim>();
  for (const application of lookups.applicationsOn(node))
    for (const entry of entriesOf(application))
      for (const name of namesOf(entry, application)) {
        const known = found.get(name);
        const isSystem = isOfSystem(application);
        found.set(name, {
          name,
          isUsed: true,
          isSystem: isSystem || (known?.isSystem ?? false),
          of: known && byAge(known.of, application) <= 0 ? known.of : application,
        });
      }
  for (const object of lookups.linkedTo(node)(kind)) {
    const name = v3Name(object);
    if (!found.has(name)) found.set(name, { name, isUsed: false, isSystem: false, of: object });
  }
  return [...found.values()];
}

/** The order in which the places of a node are given; of two linked objects the older one comes first. */
export const byPlace = (a: NodeClaim & Claim, b: NodeClaim & Claim): number =>
  Number(b.isSystem) - Number(a.isSystem) ||
  b.has - a.has ||
  Number(b.isUsed) - Number(a.isUsed) ||
  byPrecedence(a, b) ||
  compareTexts(a.name, b.name);
