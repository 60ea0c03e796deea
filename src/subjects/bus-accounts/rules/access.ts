import type { Application, MicroserviceEntry } from '../../../api/v3/index.ts';
import { TAKEN_ACCOUNT_NAMES } from '../../../rules/bus-accounts.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';

/** A user that an application asks for: one for each microservice with access to the bus. */
interface AskedUser {
  name: string;
  microserviceUuid: string;
  rule?: string;
}

/** What an application asks of the bus: an account, and its users. */
export interface AskedAccess {
  rule?: string;
  users: readonly AskedUser[];
}

/** Whether an entry asks for access, in either of its two spellings. */
export const wantsAccess = ({ busConfig, busEnabled }: Pick<MicroserviceEntry, 'busConfig' | 'busEnabled'>): boolean =>
  (busConfig?.busAccess ?? busEnabled) === true;

/**
 * What an application asks of the bus; undefined: nothing. A microservice without access of its application gets none, and an
 * application that is being deleted asks for nothing any more. The system's own applications have their accounts from the system, and an
 * application called as an account of the system has none.
 */
export function accessAskedBy(application: Application): AskedAccess | undefined {
  const { busConfig, isSystem, microservices = [] } = application.spec;
  if (!busConfig?.busAccess || isSystem || application.metadata.deletionTimestamp) return undefined;
  if (TAKEN_ACCOUNT_NAMES.includes(v3Name(application))) return undefined;
  return {
    ...(busConfig.busRule !== undefined && { rule: busConfig.busRule }),
    users: microservices.filter(wantsAccess).map((entry) => ({
      name: entry.name,
      microserviceUuid: entryUuid(application, entry),
      ...(entry.busConfig?.busRule !== undefined && { rule: entry.busConfig.busRule }),
    })),
  };
}
