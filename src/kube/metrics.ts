/** Every hook is optional; a hook must not throw. Labels have a low cardinality: never the name of an object. */
export interface KubeMetrics {
  /** One HTTP request to the API server; each retry counts. `code` is the status, or a transport error code. */
  apiRequest?(labels: { verb: string; resource: string; code: string }, seconds: number): void;
  /** One change received from a watch. */
  watchEvent?(labels: { resource: string; type: string }): void;
  /** A watch ended. `next` says what follows; `reason` is a code such as `closed`, `expired`, `lost`, `timeout`. */
  watchEnded?(labels: { resource: string; reason: string; next: 'resume' | 'relist' }): void;
  /** A complete list replaced the content of a store; `seconds` is the time from the request to the swap. */
  relisted?(labels: { resource: string; mode: 'stream' | 'pages' }, items: number, seconds: number): void;
  queueDepth?(labels: { controller: string }, depth: number): void;
  /** The time from the moment a key was due to the start of its run. */
  queueWait?(labels: { controller: string }, seconds: number): void;
  reconciled?(labels: { controller: string; outcome: string }, seconds: number): void;
  /** Runs that have not ended after their deadline. A value above 0 means a bug or a dependency that does not respond. */
  overdue?(labels: { controller: string }, count: number): void;
  leading?(labels: { lease: string }, leading: boolean): void;
  eventDropped?(labels: { reason: 'rate' | 'failed' | 'full' }): void;
}
