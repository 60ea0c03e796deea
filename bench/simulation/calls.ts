import type { LinkQuality } from './link.ts';

/** What the process of the simulated nodes does for others; arguments and answers go over its channel as JSON. */
export interface Calls {
  /** Sets the network of all nodes from now on. */
  link(args: { quality: LinkQuality }): Promise<void>;
  /** Adds a node per key and provisions it, `concurrency` at a time; from then on they live. */
  provision(args: { url: string; keys: string[]; concurrency: number }): Promise<LoadSummary>;
  state(args: object): Promise<SimulationState>;
  /** Polls that are not held, of all nodes in turn, at a fixed rate. */
  polls(args: { rate: number; seconds: number }): Promise<LoadSummary>;
  /** Whole reports in which nothing has changed, in the same way. */
  reports(args: { rate: number; seconds: number }): Promise<LoadSummary>;
  /** When each node stored a document with this text, ms since 1970; null where it has not. */
  stored(args: { document: 'registries' | 'microservices'; text: string }): Promise<(number | null | undefined)[]>;
}

export interface LoadSummary {
  /** ms, of requests that were answered as they should */
  latencies: number[];
  /** texts of the others, and how often */
  failures: [string, number][];
  seconds: number;
}

export interface SimulationState {
  nodes: number;
  connected: number;
  /** containers */
  running: number;
  /** containers started in all */
  starts: number;
  /** begun, by path */
  requests: Record<string, number>;
}
