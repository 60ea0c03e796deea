import type { Application, MicroserviceEntry } from '../../../../api/v3/index.ts';
import { entryUuid } from '../../../../rules/names.ts';
import { byPrecedence, type Claim, compareTexts, isOfSystem } from '../../../../rules/precedence.ts';
import { lineNameOf } from '../../../nodes/rules/placement/moves.ts';

/** An entry that claims a uuid. */
export interface EntryClaim {
  application: Application;
  entry: MicroserviceEntry;
}

/** The entries of these applications that claim a uuid. */
export const entryClaims = (uuid: string, applications: readonly Application[]): EntryClaim[] =>
  applications.flatMap((application) =>
    (application.spec.microservices ?? [])
      .filter((entry) => entryUuid(application, entry) === uuid)
      .map((entry) => ({ application, entry })),
  );

/**
 * Of several entries with one uuid, the one to which it belongs: the others never get a container (UuidTaken), and their lines
 * in a status do not have the uuid. So the application whose status has the uuid keeps it, however old another one is.
 */
export function entryHolder(uuid: string, applications: readonly Application[]): EntryClaim | undefined {
  const [first, ...others] = entryClaims(uuid, applications);
  if (!first || others.length === 0) return first;
  return [first, ...others].map((one) => claimOf(uuid, one)).sort(byEntry)[0]?.one;
}

interface Ranked extends Claim {
  one: EntryClaim;
  /** its line has the name of the entry: an edit may rename an entry, or give its uuid to another one */
  isNamed: boolean;
}

function claimOf(uuid: string, one: EntryClaim): Ranked {
  const { application, entry } = one;
  const line = lineNameOf(application, entry.name, uuid);
  return {
    one,
    isSystem: isOfSystem(application),
    has: line === undefined ? 0 : 1,
    of: application,
    isNamed: line === entry.name,
  };
}

const byEntry = (a: Ranked, b: Ranked) =>
  byPrecedence(a, b) || Number(b.isNamed) - Number(a.isNamed) || compareTexts(a.one.entry.name, b.one.entry.name);
