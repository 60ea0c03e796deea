import type { Reason } from '../api/conditions.ts';
import { SYSTEM_AUTHORITIES } from '../api/names.ts';
import type { EdgeNode, MicroserviceEntry } from '../api/v3/index.ts';
import type { SystemFilesReport } from '../wire/system-files.ts';
import type { ServiceLookups } from './bridges.ts';
import type { BusLookups } from './bus-lookups.ts';
import { nodeUuid } from './identity.ts';
import type { DefaultRouter } from './router-hub.ts';
import type { Base64ByKey, SystemFileSet } from './system-files.ts';

/**
 * A part of the platform of a node: it says what a machine needs besides the containers of users, as a pure function. The platform
 * has the list of parts; it makes what they want, sends it, and compares it with what the machine reports.
 */
export interface PlatformPart {
  /** the condition of the node that says whether the machine has what the part wants */
  condition: PartCondition;
  /** What the part wants on a node; undefined: nothing, and the node has no such condition. */
  wants(node: EdgeNode, facts: PlatformFacts): PartWants | undefined;
}

/** Conditions of nodes about the parts of their platform, in the order in which reads show them. */
export const PART_CONDITIONS = ['CertificatesReady', 'RouterReady', 'BusReady'] as const;
export type PartCondition = (typeof PART_CONDITIONS)[number];

/** What parts know of the installation. */
export interface PlatformFacts {
  /** whether nodes without a `routerMode` have a router to connect to, such as the router of a system node */
  readonly hasDefaultRouter: boolean;
  /** whether nodes without a `busMode` are part of the bus */
  readonly isBusEnabled: boolean;
  /** whether nodes with a router mode have a router */
  readonly hasRouters?: boolean | undefined;
  /** whether the network has too many interior routers for the interior router of a node */
  hasNoRoomFor?(node: EdgeNode): boolean;
}

/** What a part wants on one node. */
export interface PartWants {
  certificates?: readonly NodeCertificate[];
  /** a microservice of the application `system-{node}`, without `agent`, which is the node */
  entry?: MicroserviceEntry;
  /** what the container of the entry binds of the system's files */
  binds?: readonly SystemBind[];
  /** Names of random keys of 32 bytes that are made once for the node and kept with its certificates. */
  keys?: readonly string[];
  /** further files of the machine, from what others keep in Secrets of the system */
  files?(inputs: PartInputs): PartFiles;
  /** The `config` of the microservice, for images that fetch it themselves; it replaces no container. */
  config?(inputs: PartInputs): unknown;
}

/** What files of parts are made from. */
export interface PartInputs {
  /** a random key of the node, in base64; undefined until it is made */
  key(name: string): string | undefined;
  /** Content of a Secret of the system, by the name of the object: base64 by key. */
  secret(name: string): Base64ByKey | undefined;
  /** The node that an upstream means, by its uuid or its name. */
  upstreamNode(ref: string): EdgeNode | undefined;
  /** absent: the bus is off */
  bus?: BusLookups;
  /** the nodes of the system, the oldest first */
  systemNodes?(): readonly EdgeNode[];
  /** the default router of the cluster, once it has an address */
  defaultRouter?(): DefaultRouter | undefined;
  /** the microservices that are placed on the node, whether or not they run */
  placed?(): readonly PlacedEntry[];
  /** absent: there are no services */
  services?: ServiceLookups | undefined;
}

/** A microservice that is placed on a node. */
export interface PlacedEntry {
  uuid: string;
  application: string;
  name: string;
  isOnHostNetwork: boolean;
}

/** Files of a part. */
export interface PartFiles {
  sets: readonly SystemFileSet[];
  /** an object that does not exist yet, in words of the fix; the sets are all that can be made without it */
  lacks?: PartState['lacks'];
}

/** A key of a node with its certificate. The machine has both, with what to trust, as the files of the set `name`. */
export interface NodeCertificate {
  name: string;
  /** the authority of the system that signs it */
  authority: string;
  /** names of it besides the address under which others reach the node */
  hosts: readonly string[];
}

export interface SystemBind {
  set: string;
  /** a path of the set; absent: the whole directory, which changes in place */
  path?: string;
  containerDestination: string;
}

/** What the desired state of a node has of one part. */
export interface PartState {
  condition: PartCondition;
  /** what the controller does not have yet, and so cannot send */
  lacks?: { reason: Reason; message: string } | undefined;
  /** Unix ms: the first end of the certificates that are sent */
  expiresAt?: number;
  /** whether files of the system are sent for it */
  hasFiles: boolean;
  /** digests of its own sets of files, by name; absent: it has none */
  sets?: Readonly<Record<string, string>>;
  /** whether others are about to be sent, since the node has another host */
  isOutdated?: boolean;
  /** its microservice */
  entry?: MicroserviceEntry;
}

/**
 * Whether a machine has the files of a part as they are sent: an agent that does not report each set is judged by the list of all files,
 * whose digest is `due`.
 */
export function hasFilesOf(
  { sets = {} }: Pick<PartState, 'sets'>,
  due: string | undefined,
  here: SystemFilesReport | undefined,
): boolean {
  const reported = here?.sets;
  if (!reported) return due === here?.digest;
  return Object.entries(sets).every(([name, digest]) => reported[name] === digest);
}

/** The parts of an installation, and what its configuration says of them. */
export interface PlatformOptions {
  parts: readonly PlatformPart[];
  isBusEnabled: boolean;
  /** whether nodes have routers */
  hasRouters?: boolean;
  /** what tags of nodes that select services begin with */
  serviceTag?: string;
  /** interior routers that the network has room for; absent: as many as routers know */
  mostInterior?: number | undefined;
  /** whether nodes of the system are the hub; a cluster has its own */
  isRemote: boolean;
}

/** What parts know of the installation. The lookups are asked only where the answer matters. */
export const platformFacts = (
  { isBusEnabled, hasRouters, isRemote }: PlatformOptions,
  {
    hasSystemNode,
    defaultRouter,
    interiorRouters,
  }: {
    hasSystemNode(): boolean;
    defaultRouter?(): DefaultRouter | undefined;
    interiorRouters?: { leftOut(): ReadonlySet<string> } | undefined;
  },
): PlatformFacts => ({
  isBusEnabled,
  hasRouters,
  hasNoRoomFor: (node) => interiorRouters?.leftOut().has(nodeUuid(node)) === true,
  get hasDefaultRouter() {
    return isRemote ? hasSystemNode() : hasRouters === true && defaultRouter?.() !== undefined;
  },
});

/** The nodes on which a part wants a certificate of this authority; none for an authority of users. */
export const nodesOfAuthority = (
  authority: string | undefined,
  nodes: () => readonly EdgeNode[],
  { parts, facts }: { parts: readonly PlatformPart[]; facts: PlatformFacts },
): readonly EdgeNode[] =>
  authority !== undefined && SYSTEM_AUTHORITIES.includes(authority)
    ? nodes().filter((node) =>
        parts.some(({ wants }) => wants(node, facts)?.certificates?.some((each) => each.authority === authority)),
      )
    : [];
