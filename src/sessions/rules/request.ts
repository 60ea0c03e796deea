import { invalid } from '../../rules/errors.ts';
import { commandProblem, LOG_TAIL, type TailConfig } from '../../wire/sessions.ts';

/** What the query of a log socket asks for. Throws DomainError. */
export function readTailConfig(query: URLSearchParams): TailConfig {
  const since = timeOf(query, 'since');
  const until = timeOf(query, 'until');
  if (since !== undefined && until !== undefined && Date.parse(until) < Date.parse(since))
    throw invalid('until: must not be before since', 'until');
  const previous = flagOf(query, 'previous', false);
  const follow = flagOf(query, 'follow', !previous);
  if (previous && follow)
    throw invalid('follow: a former run writes nothing more; leave it out with previous', 'follow');
  return {
    lines: linesOf(query.get('tail')),
    follow,
    ...(previous && { previous }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  };
}

/** What the query of an exec socket asks for: nothing means a shell with a terminal. Throws DomainError. */
export function readExec(query: URLSearchParams): { command?: readonly string[]; tty?: boolean } {
  const command = query.getAll('command');
  const problem = commandProblem(command);
  if (problem !== undefined) throw invalid(problem, 'command');
  return {
    ...(command.length > 0 && { command }),
    ...(query.has('tty') && { tty: flagOf(query, 'tty', true) }),
  };
}

function linesOf(value: string | null): number {
  if (value === null || value === '') return LOG_TAIL.usual;
  const lines = /^\d{1,5}$/.test(value) ? Number(value) : Number.NaN;
  if (lines >= LOG_TAIL.least && lines <= LOG_TAIL.most) return lines;
  throw invalid(`tail: ${shown(value)}; must be a number from ${LOG_TAIL.least} to ${LOG_TAIL.most}`, 'tail');
}

function flagOf(query: URLSearchParams, name: string, usual: boolean): boolean {
  const value = query.get(name);
  if (value === null || value === '') return usual;
  if (value === 'true' || value === 'false') return value === 'true';
  throw invalid(`${name}: ${shown(value)}; must be true or false`, name);
}

/** A date with a time and a zone; the agent gets it in UTC. */
const DATE_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;

function timeOf(query: URLSearchParams, name: string): string | undefined {
  const value = query.get(name);
  if (value === null || value === '') return undefined;
  const at = DATE_TIME.test(value) ? Date.parse(value) : Number.NaN;
  if (!Number.isNaN(at)) return new Date(at).toISOString();
  throw invalid(`${name}: ${shown(value)}; must be a date and time such as 2026-01-31T08:00:00Z`, name);
}

const shown = (value: string) => JSON.stringify(value.slice(0, 64));
