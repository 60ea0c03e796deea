import type { Log } from '../../../src/lib/log.ts';
import { LOG_LEVELS, type LogLevel } from '../domain/config.ts';

/** Structured logging: one JSON object a line, the message static, what varies in fields. */

type Fields = Record<string, unknown>;

export interface LogEntry extends Fields {
  timestamp: string;
  level: LogLevel;
  message: string;
}

export interface LogSink {
  level: LogLevel;
  write(entry: LogEntry): void;
}

/** A log that writes to a sink; the sink's level may change at any time. */
export function createLog(sink: LogSink, wall: () => number = Date.now, own: Fields = {}): Log {
  const say = (level: LogLevel) => (fields: object, message: string) => {
    if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(sink.level)) return;
    sink.write({ timestamp: new Date(wall()).toISOString(), level, message, ...own, ...plain(fields) });
  };
  return {
    debug: say('DEBUG'),
    info: say('INFO'),
    warn: say('WARN'),
    error: say('ERROR'),
    child: (fields) => createLog(sink, wall, { ...own, ...fields }),
  };
}

/** Errors become their message and code, with those of their causes. */
function plain(fields: object): Fields {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [key, value instanceof Error ? errorText(value) : value]),
  );
}

/** An error and its causes as one sentence. */
export function errorText(error: unknown): string {
  const parts: string[] = [];
  for (let each = error; each instanceof Error && parts.length < 5; each = each.cause)
    if (!parts.some((part) => part.includes((each as Error).message))) parts.push(each.message);
  return parts.join(': ') || String(error);
}

/** What was logged last, and what is logged from now on. */
export interface LogBuffer {
  readonly entries: readonly LogEntry[];
  /** Entries as they come, until the signal fires; who reads too slowly misses the oldest. */
  follow(signal: AbortSignal): AsyncGenerator<LogEntry>;
}

/** The last entries, for the local API, and a stream to write them to. */
export function bufferedSink(level: LogLevel, size: number, write: (line: string) => void): LogSink & LogBuffer {
  const entries: LogEntry[] = [];
  const listeners = new Set<(entry: LogEntry) => void>();
  return {
    level,
    entries,
    write(entry) {
      entries.push(entry);
      if (entries.length > size) entries.splice(0, entries.length - size);
      write(`${JSON.stringify(entry)}\n`);
      for (const listener of listeners) listener(entry);
    },
    async *follow(signal) {
      const waiting: LogEntry[] = [];
      let wake = () => {};
      const listener = (entry: LogEntry) => {
        waiting.push(entry);
        if (waiting.length > size) waiting.shift();
        wake();
      };
      const onAbort = () => wake();
      listeners.add(listener);
      signal.addEventListener('abort', onAbort);
      try {
        while (!signal.aborted) {
          const entry = waiting.shift();
          if (entry) yield entry;
          else
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
        }
      } finally {
        listeners.delete(listener);
        signal.removeEventListener('abort', onAbort);
      }
    },
  };
}
