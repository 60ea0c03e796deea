import { type DestinationStream, type Logger, pino, stdSerializers } from 'pino';

/**
 * The log of a process: one JSON object per line. Messages are static and capitalised; what varies is a field. Fields
 * that may carry a credential are masked, whoever logs them.
 *
 * Errors of other programs are logged as one short line without a stack, and equal lines at most once in ten seconds, with
 * the number of suppressed ones as `alike`: an API server that does not respond makes every request fail.
 */
export function createLog(options: { level: string; name: string }, destination?: DestinationStream): Logger {
  const isRepeated = createRepeats();
  const settings: pino.LoggerOptions = {
    level: options.level,
    serializers: { err: (error: Error) => (isOutside(error) ? shortOf(error) : stdSerializers.err(error)) },
    hooks: {
      logMethod([fields, message, ...rest], method, level) {
        const error = (fields as { err?: unknown } | undefined)?.err;
        if (!isOutside(error) || level < WARN) return method.apply(this, [fields, message, ...rest] as never);
        const { name, code, status } = error as Error & { code?: string; status?: number };
        const alike = isRepeated([message, name, code, status].join(' '));
        if (alike === undefined) return;
        method.apply(this, [{ ...(fields as object), ...(alike > 0 && { alike }) }, message, ...rest] as never);
      },
    },
    base: { name: options.name },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: {
      paths: [
        'authorization',
        'token',
        'password',
        'privateKey',
        '*.authorization',
        '*.token',
        '*.password',
        '*.privateKey',
      ],
      censor: '***',
    },
  };
  return destination ? pino(settings, destination) : pino(settings);
}

/** Errors of calls to other programs, by name: their classes are in folders that this one may not import. */
const OUTSIDE: ReadonlySet<string> = new Set([
  'TransportError',
  'ApiError',
  'LeaderError',
  'TimeoutError',
  'AbortError',
]);
const isOutside = (error: unknown): error is Error => error instanceof Error && OUTSIDE.has(error.name);

const MESSAGE_LIMIT = 500;
const shortOf = (error: Error) => ({ type: error.name, message: error.message.slice(0, MESSAGE_LIMIT) });

/** Lines below this level are never suppressed, since they are for diagnosis. */
const WARN = 40;
const AGAIN_MS = 10_000;
/** Limit of remembered lines, above the number of different lines. */
const REMEMBERED = 500;

/** The number of equal lines that were suppressed since the last one; undefined when the line is to be suppressed. */
export function createRepeats(now = () => performance.now()): (key: string) => number | undefined {
  const said = new Map<string, { at: number; swallowed: number }>();
  return (key) => {
    const last = said.get(key);
    if (last && now() - last.at < AGAIN_MS) {
      last.swallowed++;
      return undefined;
    }
    if (said.size >= REMEMBERED) said.clear();
    said.set(key, { at: now(), swallowed: 0 });
    return last?.swallowed ?? 0;
  };
}
