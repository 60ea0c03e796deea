/** Health checks of containers with `checkEvery`, which the engine leaves to the agent. */
export interface HealthPort {
  /**
   * Makes sure that a health check has ended since a time: runs it unless the engine did. Only called for containers with
   * `checkEvery`.
   */
  checkHealth(id: string, since: number, signal?: AbortSignal): Promise<void>;
}
