import { BOUNDS } from '../../../../api/bounds.ts';
import type { Application, EdgeNode } from '../../../../api/v3/index.ts';
import type { Lookups } from '../../../../rules/inputs.ts';
import { entryUuid } from '../../../../rules/names.ts';
import { byPrecedence, compareTexts, isOfSystem } from '../../../../rules/precedence.ts';
import { placedOn } from './entries.ts';

const NONE: ReadonlySet<string> = new Set();

/**
 * The microservices beyond the bound of the list that an agent reads: those of the system come first, then those that the node
 * reports, then those of older applications.
 */
export function crowdOn(
  node: EdgeNode,
  applications: readonly Application[],
  lookups: Pick<Lookups, 'nodeByName'>,
): ReadonlySet<string> {
  const bound = applications.reduce((sum, { spec }) => sum + (spec.microservices?.length ?? 0), 0);
  if (bound <= BOUNDS.report) return NONE;
  const entriesOf = placedOn(node, lookups);
  const reported = new Set((node.status?.microservices ?? []).map((item) => item.uuid));
  const all = applications
    .flatMap((application) =>
      entriesOf(application).map((entry) => {
        const uuid = entryUuid(application, entry);
        const claim = { isSystem: isOfSystem(application), has: Number(reported.has(uuid)), of: application };
        return { ...claim, name: entry.name, uuid };
      }),
    )
    .sort((a, b) => byPrecedence(a, b) || compareTexts(a.name, b.name))
    .map(({ uuid }) => uuid);
  const first = new Set(all.slice(0, BOUNDS.report));
  return new Set(all.slice(BOUNDS.report).filter((uuid) => !first.has(uuid)));
}
