import { readFileSync } from 'node:fs';

/** Lines of a log that are looked at, and that are shown at most. */
const LOOKED_AT = 200;
const SHOWN = 8;

/**
 * What matters of the end of a log, for people: warnings and errors of a structured log as `LEVEL message: reason`, and lines that
 * are not structured, such as a stack trace. Where there is neither, its last line.
 */
export function lastWords(file: string): string {
  const lines = tail(file, LOOKED_AT).split('\n').map(readable);
  const matter = lines.filter(({ matters }) => matters);
  return (matter.length > 0 ? matter.slice(-SHOWN) : lines.slice(-1)).map(({ text }) => text).join('\n');
}

/** Levels of the controller are numbers, levels of the agent are words. */
const LEVELS: Readonly<Record<string, string>> = { 40: 'WARN', 50: 'ERROR', 60: 'FATAL', WARN: 'WARN', ERROR: 'ERROR' };

function readable(line: string): { text: string; matters: boolean } {
  const entry = parse(line);
  if (!entry) return { text: line, matters: line.trim() !== '' };
  const level = LEVELS[String(entry.level).toUpperCase()];
  const words = String(entry.msg ?? entry.message ?? '');
  const error = entry.err ?? entry.error;
  const reason = typeof error === 'object' ? (error as { message?: string } | null)?.message : error;
  return { text: [`${level ?? 'INFO'} ${words}`, reason].filter(Boolean).join(': '), matters: level !== undefined };
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = line.startsWith('{') ? JSON.parse(line) : undefined;
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** The last lines of a log file, or an empty text. */
export function tail(file: string, lines = 25): string {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  } catch {
    return '';
  }
}
