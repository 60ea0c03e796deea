import { applicationUuid, nameTaken, uuidTaken } from '../../../../rules/identity.ts';
import { v3Name } from '../../../../rules/names.ts';
import type { Verdict } from '../../../../rules/verdict.ts';
import { isSame } from '../../../nodes/rules/placement/entries.ts';
import { type EntryClaim, entryClaims, entryHolder } from '../application/claims.ts';
import type { VerdictInput } from './rule.ts';

/** Two applications with one name would have equal container names, so only one of them has the name. */
export function nameIsFree({ application, lookups }: Pick<VerdictInput, 'application' | 'lookups'>) {
  const name = v3Name(application);
  const owner = lookups.applicationByName(name);
  return owner && !isSame(owner, application) ? nameTaken('application', name, owner.metadata.name) : undefined;
}

/** Two applications with one uuid would have equal microservice uuids, so only one of them has the uuid. */
export function applicationUuidIsFree({ application, lookups }: Pick<VerdictInput, 'application' | 'lookups'>) {
  const uuid = applicationUuid(application);
  const owner = lookups.applicationByUuid?.(uuid);
  return owner && !isSame(owner, application) ? uuidTaken('application', uuid, owner.metadata.name) : undefined;
}

/** A uuid belongs to one microservice. A write is refused whoever has it, since it would never run. */
export function uuidIsFree({ application, entry, uuid, lookups, writing }: VerdictInput): Verdict | undefined {
  const applications = lookups.applicationsWithEntry(uuid);
  const isOwn = (claim: EntryClaim) => isSame(claim.application, application) && claim.entry.name === entry.name;
  const winner = writing
    ? entryClaims(uuid, applications).find((claim) => !isOwn(claim))
    : entryHolder(uuid, applications);
  if (!winner || isOwn(winner)) return undefined;
  return {
    reason: 'UuidTaken',
    status: 409,
    code: 'DUPLICATE_UUID',
    field: 'uuid',
    message: `the uuid ${uuid} belongs to the microservice ${v3Name(winner.application)}/${winner.entry.name}`,
  };
}
