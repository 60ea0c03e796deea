import type { NativeRole } from '../api/rbac.ts';
import type {
  Application,
  CatalogItem,
  EdgeNode,
  Knowledge,
  Model,
  Registry,
  RuntimeClass,
  ServiceAccount,
  VolumeMount,
} from '../api/v3/index.ts';
import type {
  AgentConfig,
  MicroserviceHold,
  MicroserviceView,
  RegistryView,
  RuntimeClassView,
  StatusReport,
} from '../wire/agent.ts';
import type { ArtifactView } from '../wire/artifacts.ts';
import type { Digests } from '../wire/sections.ts';
import type { TunnelView } from '../wire/tunnel.ts';
import type { VolumeMountView } from '../wire/volume-mounts.ts';
import type { ServiceLookups } from './bridges.ts';
import type { BusLookups } from './bus-lookups.ts';
import type { PartState, PlatformFacts, PlatformPart } from './part.ts';
import type { DefaultRouter } from './router-hub.ts';
import type { Base64ByKey, SystemFileSet } from './system-files.ts';
import type { Tunnels } from './tunnel.ts';
import type { Verdict } from './verdict.ts';

/** A core Secret or ConfigMap as the domain reads it: text by key. Secrets are decoded. */
export interface KeyedText {
  name: string;
  data: Readonly<Record<string, string>>;
  /** the values that are known in base64, by key; exact where they are no text */
  base64?: Readonly<Record<string, string>>;
  /** An opaque text that changes with the content, or with the value of one key, and says nothing about it. */
  identify?(key?: string): string;
}

/**
 * The kinds, besides nodes and applications, whose objects verdicts and desired states look up, by the keys of the
 * kinds. A change of such an object reaches the applications that refer to it and the desired states made from it.
 */
export interface ReferencedObjects {
  registries: Registry;
  catalogItems: CatalogItem;
  runtimeClasses: RuntimeClass;
  models: Model;
  knowledge: Knowledge;
  serviceAccounts: ServiceAccount;
  volumeMounts: VolumeMount;
}
type ReferencedKind = keyof ReferencedObjects;

/** All that is looked up so: also the roles that users make, which are Roles of the cluster and have only a name. */
export interface FoundObjects extends ReferencedObjects {
  roles: NativeRole;
}

/** The oldest object of a kind with this id (a number) or v3 name (text). */
export type Find = <K extends keyof FoundObjects>(kind: K, ref: number | string) => FoundObjects[K] | undefined;

/** The objects of a linkable kind that are linked to a node. */
export type Linked = <K extends LinkableKind>(kind: K) => readonly ReferencedObjects[K][];
/** The kinds whose objects can be linked to nodes. */
export type LinkableKind = {
  [K in ReferencedKind]: ReferencedObjects[K] extends { spec: { nodes?: readonly string[] | undefined } } ? K : never;
}[ReferencedKind];

/**
 * All objects that concern one node, collected by the caller. The domain reads nothing else, so that its result is a
 * pure function of this and can be cached by the versions of the objects that were read.
 */
export interface NodeInputs {
  /** without it, nothing of the platform is sent */
  platform?: PlatformInputs;
  node: EdgeNode;
  /** applications with at least one entry that names this node or is kept by it, and those whose containers it still reports */
  applications: readonly Application[];
  find: Find;
  linked: Linked;
  /** an EdgeNode by v3 name, for `${Agents.<node>}` */
  nodeByName: (name: string) => EdgeNode | undefined;
  /** an EdgeNode by uuid, for the upstreams of a node; without it no uuid is of another node */
  nodeByUuid?: (uuid: string) => EdgeNode | undefined;
  /** shareable Secrets and ConfigMaps only */
  secret: (name: string) => KeyedText | undefined;
  configMap: (name: string) => KeyedText | undefined;
  /** password of a registry, read from its Secret */
  registryPassword: (registry: Registry) => string | undefined;
  /** the ssh server of tunnels; absent: the installation has none */
  tunnels?: Tunnels;
  /** absent: the bus is off */
  bus?: BusLookups;
  /** absent: there are no services */
  services?: ServiceLookups;
  /**
   * The oldest Application with this v3 name, over the whole namespace. Without it only `applications` are searched, and
   * the name of an application on other nodes counts as free.
   */
  applicationByName?: (name: string) => Application | undefined;
  /** the oldest Application with this uuid, over the whole namespace; without it the uuid counts as free */
  applicationByUuid?: (uuid: string) => Application | undefined;
  /** every Application with an entry of this uuid, over the whole namespace; without it only `applications` */
  applicationsWithEntry?: (uuid: string) => readonly Application[];
  /**
   * Random key of this installation. With it, a changed Secret changes the revision, and a status reveals nothing of
   * its content; without it, secret values take no part in the revision (the agent still notices the change).
   */
  revisionKey?: string;
}

/**
 * The questions that verdicts ask about other objects. `lookupsOf` makes one from NodeInputs for the
 * entries of that node.
 */
export interface Lookups {
  find: Find;
  /** the objects of a kind that are linked to a node, in no order */
  linkedTo: (node: EdgeNode) => Linked;
  /** the oldest EdgeNode with this v3 name */
  nodeByName: (name: string) => EdgeNode | undefined;
  /** the oldest EdgeNode with this uuid */
  nodeByUuid: (uuid: string) => EdgeNode | undefined;
  /** Applications with an entry that names this node, by name or uuid, or is kept by it, and those whose containers it still reports */
  applicationsOn: (node: EdgeNode) => readonly Application[];
  /** the oldest Application with this v3 name */
  applicationByName: (name: string) => Application | undefined;
  /** the oldest Application with this uuid; without it the uuid counts as free */
  applicationByUuid?: (uuid: string) => Application | undefined;
  /** every Application with an entry of this uuid */
  applicationsWithEntry: (uuid: string) => readonly Application[];
  /** shareable Secrets and ConfigMaps only */
  secret: (name: string) => KeyedText | undefined;
  configMap: (name: string) => KeyedText | undefined;
  /** the ssh server of tunnels; absent: the installation has none */
  tunnels?: Tunnels;
  /** absent: the bus is off */
  bus?: BusLookups;
  /** absent: there are no services */
  services?: ServiceLookups;
}

/** What the desired state of a node needs of the platform. */
export interface PlatformInputs {
  parts: readonly PlatformPart[];
  facts: PlatformFacts;
  /** Content of a Secret of the system, by the name of the object: base64 by key. None that a user can name. */
  secret: (name: string) => Base64ByKey | undefined;
  /** The Application with this name of the object. */
  applicationNamed: (name: string) => Application | undefined;
  /** the nodes of the system, the oldest first; without it there are none */
  systemNodes?: () => readonly EdgeNode[];
  /** the default router of the cluster, once it has an address; without it there is none */
  defaultRouter?: () => DefaultRouter | undefined;
}

/** The desired state of a node, with one digest per section. */
export interface DesiredState {
  microservices: readonly (MicroserviceView | MicroserviceHold)[];
  registries: readonly RegistryView[];
  runtimeClasses: readonly RuntimeClassView[];
  models: readonly ArtifactView[];
  knowledge: readonly ArtifactView[];
  volumeMounts: readonly VolumeMountView[];
  systemFiles: readonly SystemFileSet[];
  /** the parts of the platform that want something of the node */
  parts: readonly PartState[];
  /** v3 names of what the node is to have and has no room for */
  leftOut: Readonly<Record<'models' | 'knowledge' | 'volumeMounts', readonly string[]>>;
  config: AgentConfig;
  /** absent: the node has none, and never had one */
  tunnel?: TunnelView;
  deleteNode: boolean;
  digests: Digests;
  /** for third-party agents, which do not support holds: the views of held entries, as far as they resolve; by uuid */
  held: ReadonlyMap<string, MicroserviceView>;
  /** every entry of this node, entries that should not run included; by uuid */
  entries: ReadonlyMap<string, DesiredEntry>;
}

/** The part of the desired state about one entry, whether it should run or not. */
export interface DesiredEntry {
  /** uid of the Application that it belongs to */
  owner: string;
  application: string;
  name: string;
  /** false for entries that are stopped, or whose application is stopped or being deleted */
  shouldRun: boolean;
  verdict?: Verdict;
}

/** Whether a node shows signs of life: `never` before its first provisioning, `silent` beyond its limit. */
export type Liveness = 'live' | 'silent' | 'never';

/** What the leader knows of a node from its requests, in memory only: the latest value of each member. */
export interface Observation {
  /** all deltas merged */
  report: StatusReport;
  /** Unix ms of the last report, by the controller's clock */
  reportedAt?: number;
  /** Unix ms of the last authenticated contact */
  contactAt?: number;
  /** seconds that the long poll may last, 0 without one */
  waitSeconds: number;
  /** version that our own agent names in its requests; absent for third-party agents */
  agent?: string;
  /** agent instances that use the identity of this node, each with its boot; several at once mean a cloned identity */
  instances: Readonly<Record<string, { boot?: string; seenAt: number }>>;
  /** while the agent retains what the datastore lacks: the epoch by which the datastore is accepted */
  restored?: string;
  /** for agents that do not echo revisions: the last list that was sent, per microservice */
  sentRevisions: Readonly<Record<string, SentRevision>>;
  /** Unix ms of that list */
  listedAt?: number;
}

/** What was sent to an agent for one microservice, and when it was first sent, Unix ms. */
export interface SentRevision {
  revision: string;
  imageId: string;
  rebuildCount: number;
  at: number;
  /** Unix ms of the last list that is known to have had something else for it */
  after?: number;
  /** Unix ms of when the stored status says that something else was sent, by the clock of the leader that wrote it */
  storedAfter?: number;
}
