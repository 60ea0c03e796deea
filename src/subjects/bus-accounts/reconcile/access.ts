import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { Application } from '../../../api/v3/index.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { holderIn } from '../../../datastore/holder.ts';
import {
  both,
  type Change,
  type Controller,
  createController,
  done,
  keyFor,
  type Outcome,
  parseKey,
  watching,
} from '../../../kube/mod.ts';
import { TAKEN_ACCOUNT_NAMES } from '../../../rules/bus-accounts.ts';
import { v3Name } from '../../../rules/names.ts';
import { KINDS } from '../../kinds.ts';
import { accessAskedBy } from '../rules/access.ts';
import { accountNameOf } from '../rules/account.ts';
import { createBusObjects } from './objects.ts';

/**
 * Access of applications to the bus: an account for each application that asks, and a user for each of its microservices that asks.
 * One run is about one name, whoever has it: an application may be deleted and another one be created with its name.
 */
export function createAccessController(deps: ControllerDependencies): Controller {
  const { stores, namespace, platform, log, metrics } = deps;
  const objects = createBusObjects(deps);

  const applicationNamed = (name: string): Application | undefined =>
    holderIn(KINDS.applications, stores.applications.byIndex('name', name), 'name', name);

  async function reconcile(key: string, signal: AbortSignal): Promise<Outcome> {
    const { name } = parseKey(key);
    if (!platform.isBusEnabled || TAKEN_ACCOUNT_NAMES.includes(name)) return done();
    const application = applicationNamed(name);
    const asked = application && accessAskedBy(application);
    const account = objects.accountNamed(name);
    if (account?.spec.system !== undefined) return done();
    if (!application || !asked) {
      // An account that somebody asked for over REST stays, unless its application ends.
      const isKept = application && !application.metadata.deletionTimestamp && account?.spec.busAccess !== true;
      if (account && !isKept) await objects.remove(account, signal);
      for (const user of stores.busUsers.byIndex('access', name)) await objects.remove(user, signal);
      return done();
    }
    const { rule } = asked;
    const made = await objects.keepAccount(
      { name, application: name, busAccess: true, rule },
      { owner: application, signal },
    );
    if (!made || made.metadata.deletionTimestamp) return done();
    const wanted = new Map(asked.users.map((user) => [user.name, user]));
    for (const user of stores.busUsers.byIndex('access', name))
      if (wanted.get(v3Name(user))?.microserviceUuid !== user.spec.microserviceUuid) await objects.remove(user, signal);
    for (const user of asked.users)
      await objects.keepUser(
        { name: user.name, account: name, microserviceUuid: user.microserviceUuid, rule: user.rule },
        { owner: made, signal },
      );
    return done();
  }

  const named = (name: string) => keyFor(namespace, name);
  const ofApplication = ({ initial, ...change }: Change<Application>) =>
    initial || changesMoreThanStatus(change as Change<Application>) ? both(keysOf)(change as Change<Application>) : [];
  const keysOf = (application: Application) => [named(v3Name(application))];

  return createController({
    name: 'bus-access',
    watches: [
      watching(stores.applications, ofApplication),
      watching(stores.busAccounts, (change) =>
        changesMoreThanStatus(change) ? both((account: BusAccount) => [named(accountNameOf(account))])(change) : [],
      ),
      watching(stores.busUsers, (change) =>
        changesMoreThanStatus(change) && change.object.spec.microserviceUuid !== undefined
          ? [named(change.object.spec.account)]
          : [],
      ),
    ],
    reconcile: (key, { signal }) => reconcile(key, signal),
    log,
    metrics,
  });
}
