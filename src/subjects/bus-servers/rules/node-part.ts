import { hash } from 'node:crypto';
import { BOUNDS } from '../../../api/bounds.ts';
import { BUILT_IN_CATALOG_ITEMS } from '../../../api/names.ts';
import type { EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import { BUS_CA, BUS_SERVER_PORT } from '../../../rules/bus-access.ts';
import { HUB_UPSTREAM } from '../../../rules/bus-hub.ts';
import type { BusLookups } from '../../../rules/bus-lookups.ts';
import { namesShown } from '../../../rules/kind-status.ts';
import { v3Name } from '../../../rules/names.ts';
import type { PartFiles, PartInputs, PartState, PlatformPart } from '../../../rules/part.ts';
import type { Base64ByKey, SystemFileSet } from '../../../rules/system-files.ts';
import { BUS_FILES, BUS_PLACES, BUS_SETS } from '../../../wire/bus.ts';
import { BUS_KEYS, operatorSecretName, parsedText } from '../../bus-accounts/rules/secret.ts';
import { type BusMode, busModeOf } from '../../nodes/rules/modes.ts';
import { hostOf } from '../../nodes/rules/settings.ts';
import { namedBusServers } from '../../nodes/rules/upstreams.ts';
import { type AccountRoom, linkedAccounts, type NodeAccount, type NodeAccounts } from './node-accounts.ts';
import { type ServerConfigInput, type ServerRemote, serverConfig, startedWith } from './server-config.ts';
import { serverName } from './server-names.ts';
import { storeBytes } from './sizes.ts';

/** Ports of the server of a node, where the node names none. */
const PORTS = { server: BUS_SERVER_PORT, leaf: 7422, mqtt: 8883, http: 8222 } as const;
/** Sizes of its store likewise. */
const STORE = { file: '10g', memory: '1g' } as const;
/** Files of tokens: one for each last character that a key can have. */
const TOKEN_FILES = 32;
/** Of the files of a machine, its certificates and the credentials of its containers take the rest. */
const ROOM: AccountRoom = {
  links: BOUNDS.systemFilesOfSet - TOKEN_FILES - 2,
  characters: BOUNDS.systemFileBytes - 2 ** 19,
};
/** Names of servers that nodes do not get: they are the hub's. */
const HUB_NAMES = ['hub'];
/** The random key of a node that its streams are encrypted with. */
const STORE_KEY = 'bus-store';

const portsOf = ({ spec }: EdgeNode) => ({
  server: spec.busServerPort ?? PORTS.server,
  leaf: spec.busLeafPort ?? PORTS.leaf,
  mqtt: spec.busMqttPort ?? PORTS.mqtt,
  http: spec.busHttpPort ?? PORTS.http,
});

/** Ports and sizes of the server of a node, by their names in a hub. */
export function nodeServerSettings(node: EdgeNode) {
  const { server, leaf, mqtt, http } = portsOf(node);
  const { jsStorageSize = STORE.file, jsMemoryStoreSize = STORE.memory } = node.spec;
  return { serverPort: server, leafPort: leaf, mqttPort: mqtt, httpPort: http, jsStorageSize, jsMemoryStoreSize };
}

/** The server of the message bus on a node (docs/resources/platform.md#the-bus-server). */
export const BUS_SERVER: PlatformPart = {
  condition: 'BusReady',
  wants(node, { isBusEnabled }) {
    const mode = isBusEnabled ? busModeOf(node, isBusEnabled) : 'none';
    if (mode === 'none') return undefined;
    return {
      entry: entryOf(node, mode),
      binds: [
        { set: BUS_SETS.config, containerDestination: BUS_PLACES.config },
        // Another content of one file replaces the container: what no reload changes is in it.
        { set: BUS_SETS.config, path: BUS_FILES.start, containerDestination: `${BUS_PLACES.root}/${BUS_FILES.start}` },
        ...[BUS_SETS.certificate, BUS_SETS.mqttCertificate].map((set) => ({
          set,
          containerDestination: `${BUS_PLACES.certificates}/${set}`,
        })),
      ],
      keys: [STORE_KEY],
      files: (inputs) => filesOf(node, mode, inputs),
    };
  },
};

/** The microservice of the server. Its image is the unchanged public one, whose program any other image with `nats-server` has too. */
function entryOf(node: EdgeNode, mode: BusMode): MicroserviceEntry {
  const { server, leaf, mqtt, http } = portsOf(node);
  const published = [server, mqtt, ...(mode === 'server' ? [leaf] : [])];
  return {
    name: 'bus',
    images: { catalogId: BUILT_IN_CATALOG_ITEMS.bus.id },
    schedule: 1,
    container: {
      entrypoint: ['nats-server'],
      commands: ['-c', `${BUS_PLACES.config}/${BUS_FILES.config}`],
      ports: published.map((port) => ({ internal: port, external: port, protocol: 'tcp' })),
      volumes: [
        {
          type: 'volume',
          hostDestination: 'bus',
          containerDestination: BUS_PLACES.data,
          accessMode: 'rw',
          scope: 'private',
        },
      ],
      healthCheck: {
        test: ['CMD-SHELL', probeOf(`http://127.0.0.1:${http}/healthz?js-enabled-only=true`)],
        // All other microservices of the node wait for the first healthy answer when the machine starts.
        interval: 10,
        timeout: 10,
        startPeriod: 60,
        retries: 6,
      },
    },
  };
}

/** What keeps a server from being set up, in words of the fix. */
const lacks = (message: string): PartState['lacks'] => ({ reason: 'BusNotSetUp', message });

/** Public images have wget, images of v3 have curl. */
const probeOf = (url: string) => `wget -q -O /dev/null '${url}' || curl -fsS -o /dev/null '${url}'`;

function filesOf(node: EdgeNode, mode: BusMode, { bus, key, secret, upstreamNode }: PartInputs): PartFiles {
  const operators = operatorsIn(secret(operatorSecretName()));
  const store = key(STORE_KEY);
  const system = bus && systemOf(bus, node);
  const ca = node.spec.busClientTls ? secret(BUS_CA.secret)?.[BUS_CA.key] : undefined;
  const systemUser = system?.content()?.creds;
  if (!bus) return { sets: [], lacks: lacks('the message bus is off: set BUS_ENABLED') };
  if (operators.length === 0) return { sets: [], lacks: lacks('the operator of the message bus is not made yet') };
  const upstreams = upstreamsOf(node, { bus, upstreamNode });
  const found = linkedAccounts(node, mode, bus, { hasUpstream: upstreams.length > 0, room: ROOM });
  const { accounts } = found;
  const systemAccount = system && accounts.find(({ name }) => name === system.account);
  if (!systemUser || !systemAccount || !store)
    return {
      sets: [],
      lacks: lacks(
        `the ${store ? 'system account of the bus server' : 'key of the store'} of this node is not made yet`,
      ),
    };
  const config = configOf(node, mode, { operators, systemAccount, accounts, upstreams, key: text(store) });
  const tokens = tokenFiles(accounts);
  const resolver = { dir: `${BUS_PLACES.data}/tokens`, includes: Object.keys(tokens).sort() };
  // Any other store counts as well: nothing here knows whether it is smaller.
  const started = serverConfig({ ...startedWith({ ...config, resolver }), store: config.store });
  const files: Record<string, string> = {
    [BUS_FILES.config]: configContent({ ...config, resolver }),
    [BUS_FILES.start]: base64(`${hash('sha256', started)}\n`),
    ...tokens,
  };
  for (const { publicKey, creds } of accounts) if (creds) files[credentialsFile(publicKey)] = creds;
  return { sets: [{ name: BUS_SETS.config, files }, systemSet(systemUser, ca)], ...tooMany(found) };
}

/** Says which accounts have no room; what has room works. */
function tooMany({ unlinked, leftOut }: NodeAccounts): Pick<PartFiles, 'lacks'> {
  const told = [
    ...(unlinked.length > 0
      ? [`a bus server links ${ROOM.links} accounts, and has these for its machine alone: ${namesShown(unlinked)}`]
      : []),
    ...(leftOut.length > 0 ? [`the tokens of these accounts have no room on the machine: ${namesShown(leftOut)}`] : []),
  ];
  return told.length === 0 ? {} : { lacks: { reason: 'BusTooManyAccounts', message: told.join('. ') } };
}

/** The tokens of the operators that a server trusts: while the operator is rotated, there are several. */
function operatorsIn(content: Base64ByKey | undefined): string[] {
  const textOf = (key: string) => (content?.[key] === undefined ? undefined : text(content[key]));
  const trusted = parsedText<string[]>(textOf(BUS_KEYS.trusted), [], Array.isArray);
  return [textOf(BUS_KEYS.token), textOf(BUS_KEYS.nextToken), ...trusted].filter((one) => one !== undefined);
}

/** The user by which the agent tells the server on its machine; the container does not have it. */
const systemSet = (creds: string, ca: string | undefined): SystemFileSet => ({
  name: BUS_SETS.system,
  files: { [BUS_FILES.credentials]: creds, ...(ca !== undefined && { [BUS_FILES.ca]: ca }) },
});

/** The user of the system account of a node. */
const systemOf = (bus: BusLookups, node: EdgeNode) =>
  bus.usersOfNode(v3Name(node)).find(({ isOfSystem }) => isOfSystem);

interface Upstream {
  host: string;
  port: number;
}

/**
 * The servers that a node links to, the first that answers: what it names, else the hub. One link for each account, however many
 * upstreams there are: two links would be a loop between servers that are linked themselves.
 */
function upstreamsOf(
  node: EdgeNode,
  { bus, upstreamNode }: Pick<PartInputs, 'upstreamNode'> & { bus: BusLookups },
): Upstream[] {
  return namedBusServers(node.spec).flatMap((name) => {
    const hub = name === HUB_UPSTREAM ? bus.hub() : undefined;
    if (hub) return [{ host: hub.host, port: hub.leafPort }];
    const other = upstreamNode(name);
    const host = other && hostOf(other);
    return other && host ? [{ host, port: portsOf(other).leaf }] : [];
  });
}

type Config = Omit<ServerConfigInput, 'resolver'>;

function configOf(
  node: EdgeNode,
  mode: BusMode,
  {
    operators,
    systemAccount,
    accounts,
    upstreams,
    key,
  }: {
    operators: readonly string[];
    systemAccount: NodeAccount;
    accounts: readonly NodeAccount[];
    upstreams: readonly Upstream[];
    key: string;
  },
): Config {
  const ports = portsOf(node);
  const name = serverName(v3Name(node), HUB_NAMES);
  const host = hostOf(node);
  const { jsStorageSize, jsMemoryStoreSize } = node.spec;
  return {
    mode: mode === 'server' ? 'server' : 'leaf',
    name,
    serverPort: ports.server,
    ...(node.spec.busClientTls && { clientTls: tlsOf(BUS_SETS.mqttCertificate) }),
    monitor: { port: ports.http },
    operators,
    systemAccount: systemAccount.publicKey,
    systemRenewed: systemAccount.signed.renewed,
    store: {
      dir: `${BUS_PLACES.data}/store`,
      domain: name,
      memory: bytesOf(jsMemoryStoreSize, STORE.memory),
      file: bytesOf(jsStorageSize, STORE.file),
      key,
    },
    ...(mode === 'server' && {
      leafs: {
        port: ports.leaf,
        tls: tlsOf(BUS_SETS.certificate),
        ...(host !== undefined && { advertise: `${inUrl(host)}:${ports.leaf}` }),
      },
    }),
    mqtt: { port: ports.mqtt, tls: tlsOf(BUS_SETS.mqttCertificate) },
    remotes:
      upstreams.length === 0
        ? []
        : linksTo(
            upstreams.map(({ host: at, port }) => `tls://${inUrl(at)}:${port}`),
            accounts.filter(({ creds }) => creds),
          ),
  };
}

/** Links by the key of their account, of the upstream servers that a node named last: nearly all nodes have the same. */
const lastLinks = new Map<string, { to: string; link: ServerRemote }>();
/** A server has fewer links than half of them. */
const MOST_LAST_LINKS = 2_048;

/** An account without imports has the same link, whatever else its token says. */
function linkTo(urls: readonly string[], { publicKey, imported }: NodeAccount): ServerRemote {
  const to = urls.join();
  const last = imported.length === 0 ? lastLinks.get(publicKey) : undefined;
  if (last?.to === to) return last.link;
  const link: ServerRemote = {
    urls,
    account: publicKey,
    credentials: `${BUS_PLACES.config}/${credentialsFile(publicKey)}`,
    tls: tlsOf(BUS_SETS.certificate),
    denyImports: imported,
    denyExports: imported,
  };
  if (imported.length > 0) return link;
  if (lastLinks.size >= MOST_LAST_LINKS) for (const oldest of lastLinks.keys()) if (lastLinks.delete(oldest)) break;
  lastLinks.set(publicKey, { to, link });
  return link;
}

function linksTo(urls: readonly string[], accounts: readonly NodeAccount[]): ServerRemote[] {
  const links = accounts.map((account) => linkTo(urls, account));
  // Leafs have lists of their own, which are made as fast as they are compared.
  if (links.length < FEW_LINKS) return links;
  if (!isSameList(links, lastList)) lastList = links;
  return lastList;
}

const FEW_LINKS = 16;
/** The long list of links that was made last: servers with all accounts have the same, and few edits change it. */
let lastList: ServerRemote[] = [];

const isSameList = <T>(list: readonly T[], other: readonly T[]): boolean =>
  list.length === other.length && list.every((one, i) => one === other[i]);

/** The last configuration with each list of links, by its text without them. */
const lastConfigs = new WeakMap<object, { rest: string; content: string }>();

function configContent(input: ServerConfigInput): string {
  const { remotes = [] } = input;
  const rest = serverConfig({ ...input, remotes: [] });
  const last = lastConfigs.get(remotes);
  if (last?.rest === rest) return last.content;
  const content = base64(serverConfig(input));
  lastConfigs.set(remotes, { rest, content });
  return content;
}

const tlsOf = (set: string) => ({
  ca: `${BUS_PLACES.certificates}/${set}/ca.crt`,
  cert: `${BUS_PLACES.certificates}/${set}/tls.crt`,
  key: `${BUS_PLACES.certificates}/${set}/tls.key`,
});

const inUrl = (host: string) => (host.includes(':') ? `[${host}]` : host);

const bytesOf = (size: string | undefined, absent: string): number =>
  storeBytes(size ?? absent) ?? storeBytes(absent) ?? 0;

const credentialsFile = (publicKey: string) => `creds/${publicKey}.creds`;

/** Tokens in files by the first characters of their keys: one changed token is one small file on the link. */
function tokenFiles(accounts: readonly NodeAccount[]): Record<string, string> {
  const files = new Map<string, NodeAccount['signed'][]>();
  for (const { signed } of accounts) {
    const ofFile = files.get(signed.file);
    if (ofFile) ofFile.push(signed);
    else files.set(signed.file, [signed]);
  }
  return Object.fromEntries([...files].map(([file, signed]) => [file, contentOf(file, signed)]));
}

/** Files of fewer lines are made as fast as they are compared. */
const FEW_LINES = 4;
/** The last content of each file of many lines: servers with all accounts have the same, and an edit changes one of them. */
const lastContents = new Map<string, { signed: NodeAccount['signed'][]; content: string }>();

function contentOf(file: string, signed: NodeAccount['signed'][]): string {
  const last = lastContents.get(file);
  if (last && isSameList(signed, last.signed)) return last.content;
  const lines = signed.map(({ line }) => line).sort();
  const content = base64(lines.join(''));
  if (lines.length > FEW_LINES) lastContents.set(file, { signed, content });
  return content;
}

const text = (content: string) => Buffer.from(content, 'base64').toString();
const base64 = (content: string) => Buffer.from(content).toString('base64');
