import type { Verdict } from '../../inputs.ts';
import { applicationUuid, entryUuid, nameTaken, uuidTaken, v3Name } from '../../names.ts';
import { byAge, isSame } from '../age.ts';
import type { VerdictInput } from './rule.ts';

/** Two applications with one name would have equal container names, so the older one keeps the name. */
export function nameIsFree({ application, lookups }: Pick<VerdictInput, 'application' | 'lookups'>) {
  const name = v3Name(application);
  const owner = lookups.applicationByName(name);
  return owner && !isSame(owner, application) ? nameTaken('application', name, owner.metadata.name) : undefined;
}

/** Two applications with one uuid would have equal microservice uuids, so the older one keeps the uuid. */
export function applicationUuidIsFree({ application, lookups }: Pick<VerdictInput, 'application' | 'lookups'>) {
  const uuid = applicationUuid(application);
  const owner = lookups.applicationByUuid?.(uuid);
  return owner && !isSame(owner, application) ? uuidTaken('application', uuid, owner.metadata.name) : undefined;
}

/** A uuid belongs to one microservice. The older application keeps it; within one application, the first entry by name. */
export function uuidIsFree({ application, entry, uuid, lookups, writing }: VerdictInput): Verdict | undefined {
  const claims = lookups
    .applicationsWithEntry(uuid)
    .flatMap((other) =>
      (other.spec.microservices ?? [])
        .filter((candidate) => entryUuid(other, candidate) === uuid)
        .map((candidate) => ({ application: other, name: candidate.name })),
    );
  const isOwn = (claim: (typeof claims)[number]) => isSame(claim.application, application) && claim.name === entry.name;
  const winner = writing ? claims.find((claim) => !isOwn(claim)) : claims.sort(byAge)[0];
  if (!winner || isOwn(winner)) return undefined;
  return {
    reason: 'UuidTaken',
    status: 409,
    code: 'DUPLICATE_UUID',
    field: 'uuid',
    message: `the uuid ${uuid} belongs to the microservice ${v3Name(winner.application)}/${winner.name}`,
  };
}
