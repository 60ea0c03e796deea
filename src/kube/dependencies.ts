/** What the runtime asks of its surroundings: somewhere to say things, and somewhere to count them. */

/** The subset of pino that we call: structured fields first, then a static message. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Log;
}

export const silentLog: Log = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => silentLog,
};

/** Every hook is optional; a hook must not throw. Labels are low in cardinality: never an object's name. */
export interface Metrics {
  /** One HTTP exchange with the API server, retries counted singly. `code` is the status, or a transport error code. */
  apiRequest?(labels: { verb: string; resource: string; code: string }, seconds: number): void;
  /** One change received from a watch. */
  watchEvent?(labels: { resource: string; type: string }): void;
  /** A watch ended and what follows from it; `reason` is a code such as `closed`, `expired`, `lost`, `idle`. */
  watchEnded?(labels: { resource: string; reason: string; next: 'resume' | 'relist' }): void;
  /** A complete list was taken; `items` long, `seconds` from request to swap. */
  relisted?(labels: { resource: string; mode: 'stream' | 'pages' }, items: number, seconds: number): void;
  queueDepth?(labels: { controller: string }, depth: number): void;
  /** Time a key waited from its due time to its run. */
  queueWait?(labels: { controller: string }, seconds: number): void;
  reconciled?(labels: { controller: string; outcome: string }, seconds: number): void;
  /** Runs that outlived their deadline and still hold their key. Anything but 0 is a bug or a dead dependency. */
  overdue?(labels: { controller: string }, count: number): void;
  leading?(labels: { lease: string }, leading: boolean): void;
  eventDropped?(labels: { reason: 'rate' | 'failed' | 'full' }): void;
}
