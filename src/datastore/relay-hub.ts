import { BUS_CA } from '../rules/bus-access.ts';
import { CONTROLLER_ACCOUNT_OF_BUS } from '../rules/bus-accounts.ts';
import { HUB_OBJECT, type HubServersOptions } from '../rules/bus-hub.ts';
import { uuidOf } from '../rules/identity.ts';
import { BUS_KEYS, isBusSecretOf, userSecretName } from '../subjects/bus-accounts/rules/secret.ts';
import { CONTROLLER_USER, userKey } from '../subjects/bus-accounts/rules/user.ts';
import { hubMembers } from '../subjects/bus-servers/rules/hub.ts';
import { decodeData } from './keyed-text.ts';
import type { Stores } from './stores.ts';

/** The hub of the message bus as every replica reaches it, with the credentials of the account and user `controller`. */
export function createRelayHub(
  stores: Pick<Stores, 'busHubs' | 'busUsers' | 'secrets'>,
  { namespace, hub: made }: { namespace: string; hub?: HubServersOptions },
) {
  function creds(): string | undefined {
    const [user] = stores.busUsers.byIndex('name', userKey(CONTROLLER_ACCOUNT_OF_BUS, CONTROLLER_USER));
    const secret = user && stores.secrets.get(namespace, userSecretName(uuidOf(user)));
    return secret && isBusSecretOf(secret, 'user') ? decodeData(secret.data)[BUS_KEYS.creds] : undefined;
  }
  return {
    servers(): readonly string[] {
      const hub = stores.busHubs.get(namespace, HUB_OBJECT);
      return hub && creds() !== undefined ? hubMembers(hub, namespace, made).map(({ url }) => url) : [];
    },
    ca: () => decodeData(stores.secrets.get(namespace, BUS_CA.secret)?.data)[BUS_CA.key],
    credentials: () => new TextEncoder().encode(creds() ?? ''),
  };
}
