/** Makes the network that the containers of this agent share. */
export interface NetworkPort {
  /** The network that this agent's containers share, if it exists. */
  network(signal?: AbortSignal): Promise<EngineNetwork | undefined>;
  /** Makes that network unless it is there. */
  ensureNetwork(signal?: AbortSignal): Promise<EngineNetwork>;
  removeNetwork(signal?: AbortSignal): Promise<void>;
}

export interface EngineNetwork {
  id: string;
  name: string;
  /** the machine as its containers see it */
  gateway?: string;
  /** what it lacks, for people */
  problem?: string;
}
