import type { Application } from '../api/v3/index.ts';
import type { Store } from '../kube/mod.ts';
import { applicationUuid } from '../rules/identity.ts';
import { recordedDifferently } from '../subjects/nodes/rules/placement/moves.ts';
import { entryUuidsOf } from '../subjects/workloads/kinds/application.ts';

interface Applications {
  applications: Store<Application>;
}

/** The applications that claim a name or a uuid that this application claims, which are usually itself alone. */
export function rivalsOf({ applications }: Applications, application: Application, name: string): Set<Application> {
  return new Set([
    ...applications.byIndex('name', name),
    ...applications.byIndex('uuid', applicationUuid(application)),
    ...entryUuidsOf(application).flatMap((uuid) => applications.byIndex('microservice', uuid)),
  ]);
}

/** The applications that claim a uuid that one status of an application records and the other does not, when there are several. */
export function rivalsByRecord(
  { applications }: Applications,
  now: Application,
  before: Application,
): Set<Application> {
  const claims = recordedDifferently(now, before)
    .filter((uuid) => applications.countByIndex('microservice', uuid) > 1)
    .flatMap((uuid) => applications.byIndex('microservice', uuid));
  const uuid = applicationUuid(now);
  const isOther = now.status?.uuid !== before.status?.uuid && applications.countByIndex('uuid', uuid) > 1;
  return new Set([...claims, ...(isOther ? applications.byIndex('uuid', uuid) : [])]);
}
