import { momentOf } from '../../../src/terminal/moment.ts';
import { CliError } from '../local-api/client.ts';
import { type CommandContext, show } from './command.ts';

export const LOG_FLAGS = {
  'tail=': 'how many lines from the end (default 100)',
  'since=': 'not before this date and time, or this long ago: 90s, 10m, 2h, 1d',
  'until=': 'not after this date and time, or this long ago',
  follow: 'go on until Ctrl-C',
} as const;

/** A date and time, from itself or from a duration before now. */
export function requiredMoment(text: string, flag: string, now: number): string {
  const moment = momentOf(text, now);
  if (moment !== undefined) return moment;
  throw new CliError(
    'INVALID_ARGUMENT',
    `--${flag} is "${text}", which is neither a date and time nor a duration`,
    'Such as 2026-05-01T10:00:00Z, 90s, 10m, 2h or 1d.',
  );
}

export function logQuery({ flags }: CommandContext): URLSearchParams {
  const query = new URLSearchParams();
  if (flags.has('tail')) query.set('tailLines', String(flags.get('tail')));
  for (const name of ['since', 'until']) {
    const given = flags.get(name);
    if (given !== undefined) query.set(name, requiredMoment(String(given), name, Date.now()));
  }
  return query;
}

interface Line {
  line: string;
}

/** Prints the existing lines and, with --follow, new ones until the signal fires. */
export async function showLines(context: CommandContext, path: string, query: URLSearchParams): Promise<void> {
  const { client, flags, signal, format, out } = context;
  if (!flags.has('follow')) {
    const data = await client.call<{ entries: Line[] }>('GET', `${path}?${query}`);
    return show(context, data, () => data.entries.map(({ line }) => `${line}\n`).join(''));
  }
  query.set('follow', 'true');
  try {
    for await (const entry of client.stream<Line>(`${path}?${query}`))
      out(format === 'human' ? `${entry.line}\n` : `${JSON.stringify(entry)}\n`);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
