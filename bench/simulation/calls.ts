import type { PrivateKey } from '../../agent/src/state/identity.ts';

import type { LinkQuality } from './link.ts';

/** What the process of the simulated nodes does for others; arguments and answers go over its channel as JSON. */
export interface Calls {
  /** Sets the network of all nodes from now on. */
  link(args: { quality: LinkQuality }): Promise<void>;
  /** Adds a node per key and provisions it, `concurrency` at a time; from then on they live. */
  provision(args: { url: string; keys: string[]; concurrency: number }): Promise<LoadSummary>;
  state(args: object): Promise<SimulationState>;
  /** What others need to speak in the place of each node. */
  credentials(args: object): Promise<NodeCredentials[]>;
  /** When each node stored a document with this text, ms since 1970; null where it has not. */
  stored(args: { document: 'registries' | 'microservices'; text: string }): Promise<(number | null | undefined)[]>;
}

/** A node as the controller hears it. */
export interface NodeCredentials {
  uuid: string;
  nodeKey: PrivateKey;
  /** of its last request, its credentials aside */
  headers: Record<string, string>;
  /** what the agent said last that it has, as its polls carry it */
  have: string;
  /** all that its reports have told, as one */
  report: string;
}

interface LoadSummary {
  /** ms, of requests that were answered as they should */
  latencies: number[];
  /** texts of the others, and how often */
  failures: [string, number][];
  seconds: number;
}

interface SimulationState {
  nodes: number;
  connected: number;
  /** containers */
  running: number;
  /** containers started in all */
  starts: number;
  /** begun, by path */
  requests: Record<string, number>;
}
