/** The calls to the process with both ends of many sessions; arguments and results pass its IPC channel as JSON. */
export interface Calls {
  /** Opens sessions, a few at a time. Rejects when one cannot be opened. */
  open(args: { url: string; token: string; kind: 'exec' | 'log'; sessions: readonly Planned[] }): Promise<void>;
  /** The agent of each session writes so many lines a second, all together evenly, and the users count them. */
  write(args: { perSecond: number; seconds: number; bytes: number }): Promise<{ written: number; read: number }>;
  /** Closes all of them. */
  close(args: object): Promise<void>;
}

/** A session that is to be opened. */
export interface Planned {
  microservice: string;
  /** of its node */
  token: string;
}
