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

/**
 * Everything that concerns one node, gathered once by the I/O side. The domain asks for nothing else, so its answer is
 * a pure function of this and can be memoised by the versions of what was read.
 */
export interface NodeInputs {
  node: EdgeNode;
  /** applications with at least one entry that names this node, and those whose containers it still reports */
  applications: readonly Application[];
  registries: readonly Registry[];
  /** an EdgeNode by v3 name, for `${Agents.<node>}` */
  nodeByName: (name: string) => EdgeNode | undefined;
  /** shareable Secrets and ConfigMaps only */
  secret: (name: string) => KeyedText | undefined;
  configMap: (name: string) => KeyedText | undefined;
  /** password of a registry, read from its Secret */
  registryPassword: (registry: Registry) => string | undefined;
}

/** What a node is to do, and one digest per section of it. */
export interface DesiredState {
  microservices: readonly (MicroserviceView | MicroserviceHold)[];
  registries: readonly RegistryView[];
  config: AgentConfig;
  deleteNode: boolean;
  digests: Digests;
}

/**
 * Why an entry may not run as asked, or that it may. The same words at both doors: REST answers `status`, the
 * reconciler sets Ready=False with `reason`.
 */
export interface Verdict {
  reason: string;
  message: string;
  /** HTTP status that REST answers a write with that earns this verdict */
  status: 400 | 404 | 409;
  /** code of the REST error body (gaps-01 section 5.3) */
  code: string;
}

/** What the leader knows of a node besides its objects: the latest of everything it said, in memory only. */
export interface Observation {
  /** all deltas merged */
  report: StatusReport;
  /** Unix ms of the last report, by the controller's clock */
  reportedAt?: number;
  /** Unix ms of the last authenticated contact */
  contactAt?: number;
  /** seconds that the armed held poll may last, 0 without one */
  holdSeconds: number;
  /** version that our own agent names in its requests; absent for foreign agents */
  agent?: string;
  /** installation and boot that speak for this node; several at once mean a cloned identity */
  instances: Readonly<Record<string, { boot?: string; seenAt: number }>>;
  /** for agents that do not echo revisions: what was last handed out, per microservice */
  handedOut: Readonly<Record<string, { revision: string; at: number; rebuildOrder: number }>>;
}
