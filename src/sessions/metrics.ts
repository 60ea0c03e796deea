/** Every hook is optional and must not throw. Labels have a low cardinality. */
export interface SessionMetrics {
  sessionBegan?(kind: 'exec' | 'log'): void;
  /** with the close code of the user */
  sessionEnded?(kind: 'exec' | 'log', code: number): void;
  /** A socket of a user or an agent that has no session: the HTTP status before the upgrade, else the close code. */
  socketRefused?(by: 'user' | 'agent', code: number): void;
  sessionMessage?(kind: 'exec' | 'log', from: 'user' | 'agent', bytes: number): void;
  /** a line of a log that its user did not get, since it reads too slowly */
  lineLeftOut?(): void;
}
