import type { BusAccount } from '../api/v3/bus-account.ts';
import type { BusUser } from '../api/v3/bus-user.ts';
import { keyFor } from '../kube/mod.ts';
import { busAddressFor } from '../rules/bus-clients.ts';
import { HUB_OBJECT } from '../rules/bus-hub.ts';
import type { BusAccountRef, BusLookups, BusUserRef } from '../rules/bus-lookups.ts';
import { uuidOf } from '../rules/identity.ts';
import { onceEach } from '../rules/once-each.ts';
import { accountNameOf } from '../subjects/bus-accounts/rules/account.ts';
import { accountSecretName, userSecretName } from '../subjects/bus-accounts/rules/secret.ts';
import { hasClientTls, hubSettings } from '../subjects/bus-servers/rules/hub.ts';
import { KINDS } from '../subjects/kinds.ts';
import { holderIn } from './holder.ts';
import type { ReadStores } from './stores.ts';

/** What rules read of the message bus, from the stores. */
export function createBusLookups(
  stores: Pick<ReadStores, 'busHubs' | 'busAccounts' | 'busUsers' | 'secrets'>,
  namespace: string,
): BusLookups {
  const account = (name: string) => holderIn(KINDS.busAccounts, stores.busAccounts.byIndex('name', name), 'name', name);
  /** The Secret of a ref. A server of all accounts asks for thousands at each edit of one: the key is made once. */
  function secretNamed(secret: string): Pick<BusAccountRef, 'secret' | 'content'> {
    const key = keyFor(namespace, secret);
    return {
      secret,
      content() {
        const found = stores.secrets.getByKey(key);
        return found && (found.data ?? {});
      },
    };
  }
  const userRef = onceEach(
    (user: BusUser): BusUserRef => ({
      name: user.spec.name ?? user.metadata.name,
      account: user.spec.account,
      createdAt: user.metadata.creationTimestamp,
      ...secretNamed(userSecretName(uuidOf(user))),
      get isOfSystem() {
        return account(user.spec.account)?.spec.system !== undefined;
      },
    }),
  );
  const accountRef = onceEach(
    (of: BusAccount): BusAccountRef => ({ name: accountNameOf(of), ...secretNamed(accountSecretName(uuidOf(of))) }),
  );
  function settings() {
    const hub = stores.busHubs.get(namespace, HUB_OBJECT);
    const found = hub && hubSettings(hub);
    return found?.host === undefined ? undefined : { ...found, host: found.host };
  }
  return {
    hub: settings,
    hubFor(node) {
      const stored = stores.busHubs.get(namespace, HUB_OBJECT);
      if (!stored) return undefined;
      const hasTls = hasClientTls(stored);
      if (stored.status?.clients) return { ...busAddressFor(stored.status.clients, node), hasTls };
      const hub = settings();
      return hub && { host: hub.host, port: hub.serverPort, hasTls };
    },
    // Where no policy is installed, whoever may write a BusUser may write the uuid of any microservice.
    userOf: (microserviceUuid, of) =>
      stores.busUsers
        .byIndex('microservice', microserviceUuid)
        .filter(({ spec }) => spec.account === of)
        .map(userRef)[0],
    usersOfNode: (node) => stores.busUsers.byIndex('node', node).map(userRef),
    account(name) {
      const found = account(name);
      return found && accountRef(found);
    },
    accounts: () => Array.from(stores.busAccounts.list()).filter(isOfServers).map(accountRef),
  };
}

/** Whether all servers but leafs have an account: the system account of one leaf is that leaf's alone. */
const isOfServers = ({ spec }: BusAccount) => spec.system !== 'leaf';
