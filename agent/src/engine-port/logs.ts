/** Reads logs of containers. */
export interface LogPort {
  /** Lines of a container's log; with `follow` until it ends. Reading slowly stops the reading from the engine. */
  logs(id: string, options: LogOptions, signal?: AbortSignal): AsyncIterable<LogLine>;
}

export interface LogOptions {
  tail: number;
  since?: number;
  until?: number;
  follow?: boolean;
}

export interface LogLine {
  ts: string;
  stream: 'stdout' | 'stderr';
  line: string;
}
