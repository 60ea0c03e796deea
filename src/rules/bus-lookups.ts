import type { BusDoor } from './bus-clients.ts';
import type { HubSettings } from './bus-hub.ts';
import type { Base64ByKey } from './system-files.ts';

/** What rules read of the message bus. Private things are in Secrets of the system, by the name of the object. */
export interface BusLookups {
  /** the hub, once it has an address */
  hub: () => (HubSettings & { host: string }) | undefined;
  /** where containers on a node reach the hub, by the uuid of the node */
  hubFor: (node: string) => BusDoor | undefined;
  /** the user of a microservice in the account of its application, by the uuid of the microservice and the name of the account */
  userOf: (microserviceUuid: string, account: string) => BusUserRef | undefined;
  /** the users that the server of a node has, by the v3 name of the node */
  usersOfNode: (node: string) => readonly BusUserRef[];
  /** an account by its name */
  account: (name: string) => BusAccountRef | undefined;
  /** all accounts that servers of the bus know */
  accounts: () => readonly BusAccountRef[];
}

/** A user of the bus. */
export interface BusUserRef {
  name: string;
  account: string;
  /** the account is a system account: the user tells a server */
  isOfSystem?: boolean;
  /** since when it exists, RFC 3339: a leaf user says since when the server of its node has the account */
  createdAt?: string | undefined;
  /** of the Secret with its credentials, under the key `creds` */
  secret: string;
  /** content of this Secret; undefined until it is made */
  content(): Base64ByKey | undefined;
}

/** An account of the bus. */
export interface BusAccountRef {
  name: string;
  /** of the Secret with its token, under the key `token` */
  secret: string;
  /** content of this Secret; undefined until it is made */
  content(): Base64ByKey | undefined;
}
