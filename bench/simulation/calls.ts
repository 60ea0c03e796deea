import type { PrivateKey } from '../../agent/src/state/identity.ts';

import type { LinkQuality } from './link.ts';

/** The calls to the process of the simulated nodes; arguments and results are sent over its IPC channel as JSON. */
export interface Calls {
  /** Sets the network of all nodes from now on. */
  link(args: { quality: LinkQuality }): Promise<void>;
  /** Adds a node per key and provisions it, `concurrency` at a time; from then on the nodes run. */
  provision(args: { url: string; keys: string[]; concurrency: number }): Promise<LoadSummary>;
  state(args: object): Promise<SimulationState>;
  /** What another process needs to send requests as each node. */
  credentials(args: object): Promise<NodeCredentials[]>;
  /** When each node stored a document that contains this text, ms since 1970; null where it has not. */
  stored(args: { document: 'registries' | 'microservices'; text: string }): Promise<(number | null | undefined)[]>;
}

/** What the requests of a node contain. */
export interface NodeCredentials {
  uuid: string;
  nodeKey: PrivateKey;
  /** headers of its last request, without credentials */
  headers: Record<string, string>;
  /** the digests of the sections that the agent has, as in its last poll */
  have: string;
  /** all of its reports, merged into one */
  report: string;
}

interface LoadSummary {
  /** ms, of requests with the expected response */
  latencies: number[];
  /** messages of the failures, with their number */
  failures: [string, number][];
  seconds: number;
}

interface SimulationState {
  nodes: number;
  connected: number;
  /** running containers */
  running: number;
  /** containers started in all */
  starts: number;
  /** requests begun, by path */
  requests: Record<string, number>;
}
