import { AUTHORITY_SECRET_PREFIX, BUS_BRIDGE_HOST, SYSTEM_AUTHORITY } from '../api/names.ts';
import type { Application } from '../api/v3/index.ts';
import { TAKEN_ACCOUNT_NAMES } from './bus-accounts.ts';
import { v3Name } from './names.ts';
import type { NormalEntry } from './normal-entry.ts';

/**
 * What a container of a microservice with access to the message bus has: a file with credentials, and two variables that say where
 * the file and the server are (docs/spec/workloads.md#access-to-the-message-bus). All of it is computed for the container and shown in reads, and an
 * entry never has it: credentials and servers change without an edit.
 */

/** Where a container finds its credentials. */
export const BUS_CREDS_MOUNT = '/etc/bus/creds';

/** The variables of a container with access; `ca` where its server asks for TLS. */
const BUS_ENV = { path: 'BUS_CREDS_PATH', url: 'BUS_SERVER_URL', ca: 'BUS_CA_PATH' } as const;
export const BUS_ENV_NAMES: readonly string[] = Object.values(BUS_ENV);

/** The file of the certificates by which a container knows its server, beside the directories of credentials. */
export const BUS_CA_FILE = 'ca.crt';

/** Where the controller has its content: the authority signs the certificates of all servers for clients and devices. */
export const BUS_CA = { secret: `${AUTHORITY_SECRET_PREFIX}${SYSTEM_AUTHORITY.busLocal}`, key: 'ca.crt' } as const;

/** Port for clients where neither a node nor the hub names one. */
export const BUS_SERVER_PORT = 4222;

/** Greatest lengths of slugs: in the path of a credentials file, and in the names that reads show. */
const SLUG = { path: 64, name: 48 } as const;

/** A name as paths and names of objects have it: two names may have one slug, so nothing is found by it. */
export function busSlug(text: string, most: number = SLUG.name): string {
  const plain = text
    .trim()
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/-{2,}/g, '-');
  return withoutEdges(withoutEdges(plain).slice(0, most)) || 'default';
}

function withoutEdges(text: string): string {
  const start = text.startsWith('-') ? 1 : 0;
  return text.endsWith('-') ? text.slice(start, -1) : text.slice(start);
}

/** Where a container reaches its server. */
export interface BusPlaces {
  /** the container uses the network of its machine */
  hostNetwork: boolean;
  /** the server on the machine of the container */
  localBus?: { serverPort: number; hasTls?: boolean } | undefined;
  hub?: { host: string; serverPort: number; hasTls?: boolean } | undefined;
}

/** What a container with access gets. */
export interface BusAccess {
  /** path of its credentials in the container: BUS_CREDS_PATH */
  path: string;
  /** path of them in the set of the system's files */
  file: string;
  /** BUS_SERVER_URL */
  serverUrl: string;
  /** BUS_CA_PATH; absent: the server has no TLS for clients */
  caPath?: string;
}

/** What a container with access gets; undefined where there is no server that it could reach. */
export function busAccessOf({
  application,
  microservice,
  ...places
}: BusPlaces & { application: string; microservice: string }): BusAccess | undefined {
  const server = serverOf(places);
  if (!server) return undefined;
  const file = busCredsFile(application, microservice);
  const { hasTls = false } = places.localBus ?? places.hub ?? {};
  return {
    ...{ path: `${BUS_CREDS_MOUNT}/${file}`, file, serverUrl: `${hasTls ? 'tls' : 'nats'}://${server}` },
    ...(hasTls && { caPath: `${BUS_CREDS_MOUNT}/${BUS_CA_FILE}` }),
  };
}

/** The path of a credentials file below its directory. */
const busCredsFile = (application: string, microservice: string): string =>
  `${busSlug(application, SLUG.path)}/${busSlug(microservice, SLUG.path)}.creds`;

function serverOf({ hostNetwork, localBus, hub }: BusPlaces): string | undefined {
  if (localBus) return `${hostNetwork ? 'localhost' : BUS_BRIDGE_HOST}:${localBus.serverPort}`;
  return hub && `${inUrl(hub.host)}:${hub.serverPort}`;
}

const inUrl = (host: string) => (host.includes(':') && !host.startsWith('[') ? `[${host}]` : host);

/** The name by which reads show where the credentials come from; no object has it. */
const busCredsName = (application: string, microservice: string): string =>
  `bus-creds-${busSlug(application)}-${busSlug(microservice)}`;

/** Whether an entry has access: it asks for it, and its application has it. What the system makes needs none. */
export const hasBusAccess = (application: Application, { busConfig }: Pick<NormalEntry, 'busConfig'>): boolean =>
  busConfig?.busAccess === true &&
  application.spec.busConfig?.busAccess === true &&
  application.spec.isSystem !== true &&
  !TAKEN_ACCOUNT_NAMES.includes(v3Name(application));

/**
 * Variables without what reads show of the access, so that a client may send back what it read. A server alone may be a variable of
 * a user without access: the computed ones are known by the path beside it.
 */
export function withoutBusVariables<V extends { key?: unknown; value?: unknown }>(env: readonly V[]): V[] {
  const isPath = ({ key, value }: V) => key === BUS_ENV.path && String(value).startsWith(`${BUS_CREDS_MOUNT}/`);
  const isUrl = ({ key, value }: V) => key === BUS_ENV.url && /^(nats|tls):\/\/[^/@]+:[0-9]{1,5}$/.test(String(value));
  const isCa = ({ key, value }: V) => key === BUS_ENV.ca && value === `${BUS_CREDS_MOUNT}/${BUS_CA_FILE}`;
  const isOurs = (variable: V) => isPath(variable) || isUrl(variable) || isCa(variable);
  return env.some(isPath) ? env.filter((variable) => !isOurs(variable)) : [...env];
}

/** Whether reads show a mapping because of the access. */
export const isBusMapping = (mapping: { containerDestination?: unknown; hostDestination?: unknown }): boolean =>
  mapping.containerDestination === BUS_CREDS_MOUNT && String(mapping.hostDestination).startsWith('bus-creds-');

/** The variables of a container with access. */
export const busVariables = ({ path, serverUrl, caPath }: BusAccess) => [
  { key: BUS_ENV.path, value: path },
  { key: BUS_ENV.url, value: serverUrl },
  ...(caPath === undefined ? [] : [{ key: BUS_ENV.ca, value: caPath }]),
];

/** What reads show of the access beside the variables and mappings of the entry. */
export function busReads(application: Application, entry: Pick<NormalEntry, 'name'>, access: BusAccess) {
  return {
    env: busVariables(access),
    mapping: {
      hostDestination: busCredsName(v3Name(application), entry.name),
      containerDestination: BUS_CREDS_MOUNT,
      accessMode: 'ro',
      type: 'volumeMount',
      scope: 'private',
    },
  } as const;
}
