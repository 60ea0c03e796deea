import type { EngineFacts } from './facts.ts';

/** Connects to an engine, and follows its events. */
export interface ConnectionPort {
  readonly url: string;
  /** Connects, agrees on an API version, and answers what the engine is. */
  connect(signal?: AbortSignal): Promise<EngineFacts>;
  /**
   * Events of the agent's containers; after the first one, `connected`, none is missed. Ends or throws when the connection
   * is lost.
   */
  events(signal: AbortSignal): AsyncIterable<EngineEvent>;
}

export interface EngineEvent {
  containerId: string;
  action: string;
}
