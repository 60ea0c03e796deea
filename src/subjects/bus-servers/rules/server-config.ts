import { onceEach } from '../../../rules/once-each.ts';

/**
 * The text of `server.conf`, for every server of the bus: the members of the hub, and the servers of nodes. What a server of a node
 * may never have is not expressible: it is no member of the hub's cluster, so that the quorum of the hub's streams does not depend
 * on machines, and monitoring listens where only probes reach it.
 */
export interface ServerConfigInput {
  /** `hub` and `server` take leaf links, `leaf` takes none */
  mode: 'hub' | 'server' | 'leaf';
  /** a name that `serverName` made, or the environment variable that has it */
  name: string | { variable: string };
  /** where clients connect; the address of all interfaces unless another is named */
  address?: string;
  serverPort: number;
  /** absent: clients connect without TLS. Clients are asked for no certificate, and a client without TLS is refused. */
  clientTls?: ServerTls;
  /** where probes ask; `127.0.0.1` unless the prober is elsewhere */
  monitor: { address?: string; port: number };
  /** tokens of operators; while an operator is rotated, servers trust both */
  operators: readonly string[];
  /** public key of the system account */
  systemAccount: string;
  /** since when other keys sign its users, as the former ones were lost: nobody is let in who could bring a running server its token */
  systemRenewed?: string | undefined;
  resolver: {
    dir: string;
    /** tokens by the public key of their account, which the server stores at its start unless it has newer ones */
    preload?: Readonly<Record<string, string>>;
    /** files beside the configuration with further such tokens, a line each: `<public key>: "<token>"` */
    includes?: readonly string[];
  };
  /** streams; absent: the server has none of its own */
  store?: ServerStore;
  /** the other members of the hub; absent: the hub has one member */
  cluster?: { name: string; port: number; routes: readonly string[]; tls: ServerTls };
  /** where leafs connect; not in mode `leaf` */
  leafs?: { port: number; advertise?: string; tls: ServerTls };
  /** links to upstream servers, one for each account and upstream */
  remotes?: readonly ServerRemote[];
  /** devices; its TLS asks clients for no certificate */
  mqtt?: { port: number; tls?: ServerTls };
  pidFile?: string;
  /** a text by which a running server says which configuration it has read */
  tag?: string;
}

export interface ServerTls {
  ca: string;
  cert: string;
  key: string;
}

/** Bytes for streams. */
interface StoreSizes {
  memory: number;
  file: number;
}

interface ServerStore extends StoreSizes {
  dir: string;
  /** a name that `serverName` made; no other server has it but members of one hub */
  domain: string;
  /** what the files are encrypted with */
  key?: string;
  /** the key before, until all files are encrypted with the present one */
  formerKey?: string;
}

export interface ServerRemote {
  urls: readonly string[];
  /** public key of the account that is linked */
  account: string;
  /** file with the credentials of the leaf user of this account and node */
  credentials: string;
  tls?: ServerTls;
  /** subjects that the link carries in neither direction, since the upstream server sends them already */
  denyImports?: readonly string[];
  denyExports?: readonly string[];
}

type Value = string | number | boolean | Bare | readonly Value[] | { readonly [key: string]: Value | undefined };
/** A text that is written without quotes, such as a variable. */
class Bare {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** Seconds that a handshake may take. */
const TLS_TIMEOUT = 3;
/**
 * How often servers compare their tokens with other members of their cluster, for the first time that long after their start. Servers
 * of nodes have no members to compare with, and the interval of v3.
 */
const RESOLVER_INTERVAL = { member: '10s', alone: '2m' } as const;
const LEAF_RECONNECT = '10s';
/** Bytes of a line of the protocol: CONNECT has the token of the user, and the largest rule makes one of 180 KiB. */
const MOST_CONTROL_LINE = 256 * 1024;

/** Throws on a combination that no server of the bus has: it is a bug of the caller. */
export function serverConfig(input: ServerConfigInput): string {
  const { mode, name, address = '0.0.0.0', serverPort, monitor, operators, resolver, store, cluster, leafs } = input;
  const { mqtt, pidFile } = input;
  if (mode !== 'hub' && cluster) throw new Error('a server of a node is no member of the cluster of the hub');
  if (mode === 'leaf' && leafs) throw new Error('a leaf of the bus takes no leaf links');
  if (operators.length === 0) throw new Error('a server of the bus trusts no operator');
  const listen = (port: number) => `${address}:${port}`;
  return print({
    server_name: typeof name === 'string' ? name : new Bare(`$${name.variable}`),
    listen: listen(serverPort),
    tls: input.clientTls && serverSide(input.clientTls),
    http: `${monitor.address ?? '127.0.0.1'}:${monitor.port}`,
    pid_file: pidFile,
    server_tags: input.tag === undefined ? undefined : [input.tag],
    max_control_line: MOST_CONTROL_LINE,
    // While the operator is rotated another one signs: servers trust the same ones, and none is started again for it.
    operator: operators.toSorted(),
    system_account: systemAccountOf(input),
    resolver: {
      ...{ type: 'full', dir: resolver.dir, allow_delete: false },
      interval: RESOLVER_INTERVAL[cluster ? 'member' : 'alone'],
    },
    resolver_preload: preloaded(resolver),
    jetstream: store && {
      store_dir: store.dir,
      domain: store.domain,
      max_memory_store: store.memory,
      max_file_store: store.file,
      // A key in quotes stays a text, whatever number it looks like.
      ...(store.key !== undefined && { cipher: 'chachapoly', key: store.key, prev_encryption_key: store.formerKey }),
    },
    cluster: cluster && {
      name: cluster.name,
      listen: listen(cluster.port),
      no_advertise: true,
      routes: cluster.routes,
      tls: mutual(cluster.tls),
    },
    leafnodes: leafnodesOf(input),
    mqtt: mqtt && {
      listen: listen(mqtt.port),
      tls: mqtt.tls && serverSide(mqtt.tls),
    },
  });
}

/**
 * The members of a configuration that a server has from its start to its end: a server that runs takes all others by a reload, and
 * a store that is no smaller (reloads.test.ts asks a real server for each).
 */
export function startedWith(input: ServerConfigInput): ServerConfigInput {
  const { tag: _, resolver, remotes: __, store, cluster, ...rest } = input;
  return {
    ...rest,
    resolver: { dir: resolver.dir },
    ...(store && { store: { ...store, memory: 0, file: 0 } }),
    ...(cluster && { cluster: { ...cluster, routes: [] } }),
  };
}

/** Whether a running server has to be started again for another store, since it gives back nothing that it has reserved. */
export const isSmallerStore = (next: StoreSizes, former: StoreSizes): boolean =>
  next.memory < former.memory || next.file < former.file;

function leafnodesOf({ mode, address = '0.0.0.0', leafs, remotes = [] }: ServerConfigInput): Value | undefined {
  if (mode === 'hub' && !leafs && remotes.length === 0) return undefined;
  return {
    ...(leafs && {
      listen: `${address}:${leafs.port}`,
      advertise: leafs.advertise,
      tls: { ...mutual(leafs.tls), handshake_first: true },
    }),
    // A server of a node has it from its start: no reload changes it, and the first link comes by a reload.
    ...((mode !== 'hub' || remotes.length > 0) && { reconnect: LEAF_RECONNECT }),
    ...(remotes.length > 0 && { remotes: printedRemotes(remotes) }),
  };
}

/** What follows the key has a server start again. */
const systemAccountOf = ({ systemAccount: key, systemRenewed }: ServerConfigInput): Value =>
  systemRenewed === undefined ? key : new Bare(`${JSON.stringify(key)} # keys since ${JSON.stringify(systemRenewed)}`);

function preloaded({ preload = {}, includes = [] }: ServerConfigInput['resolver']): Value | undefined {
  if (includes.length === 0) return Object.keys(preload).length > 0 ? preload : undefined;
  const files = includes.map((file) => `  include ${JSON.stringify(file)}\n`).join('');
  return new Bare(`{\n${print(preload, '  ')}${files}}`);
}

const serverSide = ({ cert, key }: ServerTls) => ({ cert_file: cert, key_file: key, timeout: TLS_TIMEOUT });

const mutual = ({ ca, cert, key }: ServerTls) => ({
  ca_file: ca,
  cert_file: cert,
  key_file: key,
  verify: true,
  timeout: TLS_TIMEOUT,
});

const remoteOf = ({ urls, account, credentials, tls, denyImports, denyExports }: ServerRemote) => ({
  urls,
  account,
  credentials,
  deny_imports: denyImports?.length ? denyImports : undefined,
  deny_exports: denyExports?.length ? denyExports : undefined,
  tls: tls && { ...mutual(tls), handshake_first: true },
});

const REMOTE_INDENT = '    ';
/** A server with many accounts has a link for each, and an edit concerns one, or none of them. */
const printedRemote = onceEach((remote: ServerRemote) => new Bare(printed(remoteOf(remote), REMOTE_INDENT)));
const printedRemotes = onceEach(
  (remotes: readonly ServerRemote[]) => new Bare(printed(remotes.map(printedRemote), '  ')),
);

/** One member a line, which a person can read and compare. */
function print(members: { readonly [key: string]: Value | undefined }, indent = ''): string {
  return Object.entries(members)
    .filter((member): member is [string, Value] => member[1] !== undefined)
    .map(([key, value]) => `${indent}${key}: ${printed(value, indent)}\n`)
    .join('');
}

function printed(value: Value, indent: string): string {
  if (value instanceof Bare) return value.text;
  if (typeof value !== 'object') return JSON.stringify(value);
  const deeper = `${indent}  `;
  if (isList(value))
    return value.length === 0
      ? '[]'
      : `[\n${value.map((one) => `${deeper}${printed(one, deeper)}\n`).join('')}${indent}]`;
  return `{\n${print(value, deeper)}${indent}}`;
}

const isList = (value: Value): value is readonly Value[] => Array.isArray(value);
