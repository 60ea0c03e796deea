import { type Logger, pino } from 'pino';

/**
 * The log of a process: one JSON object per line. Messages are static and capitalised; what varies is a field. Fields
 * that may carry a credential are masked, whoever logs them.
 */
export function createLog(options: { level: string; name: string }): Logger {
  return pino({
    level: options.level,
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
  });
}
