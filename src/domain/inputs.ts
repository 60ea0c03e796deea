import type { VerdictReason } from '../api/conditions.ts';
import type { Application, EdgeNode, Registry } from '../api/v3/index.ts';
import type {
  AgentConfig,
  Digests,
  MicroserviceHold,
  MicroserviceView,
  RegistryView,
  StatusReport,
} from '../wire/index.ts';

/** A core Secret or ConfigMap as the domain reads it: text by key. Secrets arrive decoded. */
export interface KeyedText {
  name: string;
  data: Readonly<Record<string, string>>;
}

/** The oldest Registry with this id (a number) or v3 name (text). */
export type RegistryLookup = (ref: number | string) => Registry | undefined;

/**
 * Everything that concerns one node, gathered once by the I/O side. The domain asks for nothing else, so its answer is
 * a pure function of this and can be memoised by the versions of what was read.
 */
export interface NodeInputs {
  node: EdgeNode;
  /** applications with at least one entry that names this node, and those whose containers it still reports */
  applications: readonly Application[];
  registry: RegistryLookup;
  /** an EdgeNode by v3 name, for `${Agents.<node>}` */
  nodeByName: (name: string) => EdgeNode | undefined;
  /** shareable Secrets and ConfigMaps only */
  secret: (name: string) => KeyedText | undefined;
  configMap: (name: string) => KeyedText | undefined;
  /** password of a registry, read from its Secret */
  registryPassword: (registry: Registry) => string | undefined;
  /**
   * The oldest Application with this v3 name, over the whole namespace. Without it only `applications` are looked at,
   * and a name taken by an application on other nodes goes unnoticed here.
   */
  applicationByName?: (name: string) => Application | undefined;
  /** the oldest Application with this uuid, over the whole namespace; without it nobody else has it */
  applicationByUuid?: (uuid: string) => Application | undefined;
  /** every Application with an entry of this uuid, over the whole namespace; without it only `applications` */
  applicationsWithEntry?: (uuid: string) => readonly Application[];
  /**
   * Random key of this installation. With it a changed Secret changes the revision, without a status telling anything
   * about its content; without it secret values take no part in the revision (the agent notices the change anyway).
   */
  revisionKey?: string;
}

/**
 * What verdicts look at besides the entry: everything there is, by lookups. `worldOf` makes one from NodeInputs for
 * the entries of that node.
 */
export interface Lookups {
  registry: RegistryLookup;
  /** the oldest EdgeNode with this v3 name */
  nodeByName: (name: string) => EdgeNode | undefined;
  /** the oldest EdgeNode with this uuid */
  nodeByUuid: (uuid: string) => EdgeNode | undefined;
  /** Applications with an entry that names this node, by name or uuid, and those whose containers it still reports */
  applicationsOn: (node: EdgeNode) => readonly Application[];
  /** the oldest Application with this v3 name */
  applicationByName: (name: string) => Application | undefined;
  /** the oldest Application with this uuid; without it nobody else has it */
  applicationByUuid?: (uuid: string) => Application | undefined;
  /** every Application with an entry of this uuid */
  applicationsWithEntry: (uuid: string) => readonly Application[];
  /** shareable Secrets and ConfigMaps only */
  secret: (name: string) => KeyedText | undefined;
  configMap: (name: string) => KeyedText | undefined;
}

/** What a node is to do, and one digest per section of it. */
export interface DesiredState {
  microservices: readonly (MicroserviceView | MicroserviceHold)[];
  registries: readonly RegistryView[];
  config: AgentConfig;
  deleteNode: boolean;
  digests: Digests;
  /** for foreign agents, who know no hold: the views that held entries would have, as far as they resolve; by uuid */
  held: ReadonlyMap<string, MicroserviceView>;
  /** every entry of this node, those that are not to run included; by uuid */
  entries: ReadonlyMap<string, DesiredEntry>;
}

/** What the desired state knows of one entry, whatever becomes of it. */
export interface DesiredEntry {
  /** uid of the Application that it belongs to */
  owner: string;
  application: string;
  name: string;
  /** false for entries that are stopped, or whose application is stopped or being deleted */
  shouldRun: boolean;
  verdict?: Verdict;
}

/**
 * Why an entry may not run as asked, or that it may. The same words at both doors: REST answers `status`, the
 * reconciler sets Ready=False with `reason`.
 */
export interface Verdict {
  reason: VerdictReason;
  message: string;
  /** HTTP status that REST answers a write with that earns this verdict */
  status: 400 | 404 | 409;
  /** code of the REST error body (docs/spec/rest-v3.md#error-codes) */
  code: string;
  /** path of the field in the entry, in the words of the YAML form */
  field?: string;
  /** passes by itself, for example when a port is being freed: nobody needs to change anything */
  passes?: true;
}

/** Whether a node is heard of: `never` before its first provisioning, `silent` beyond its limit. */
export type Liveness = 'live' | 'silent' | 'never';

/** What the leader knows of a node besides its objects: the latest of everything it said, in memory only. */
export interface Observation {
  /** all deltas merged */
  report: StatusReport;
  /** Unix ms of the last report, by the controller's clock */
  reportedAt?: number;
  /** Unix ms of the last authenticated contact */
  contactAt?: number;
  /** seconds that the long poll may last, 0 without one */
  waitSeconds: number;
  /** version that our own agent names in its requests; absent for foreign agents */
  agent?: string;
  /** installation and boot that speak for this node; several at once mean a cloned identity */
  instances: Readonly<Record<string, { boot?: string; seenAt: number }>>;
  /** while the agent retains what the datastore lacks: the epoch by which the datastore is accepted */
  restored?: string;
  /** for agents that do not echo revisions: what was last handed out, per microservice */
  sentRevisions: Readonly<Record<string, SentRevision>>;
}

/** What an agent was told to run of one microservice, and when it was first told, Unix ms. */
export interface SentRevision {
  revision: string;
  imageId: string;
  rebuildOrder: number;
  at: number;
}
