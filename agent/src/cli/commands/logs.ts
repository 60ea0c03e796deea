import type { Flags } from '../../../../src/lib/command-line/command.ts';
import { momentOf } from '../../../../src/terminal/moment.ts';
import { structured } from '../../../../src/terminal/output.ts';
import { LOG_TAIL } from '../../../../src/wire/sessions.ts';
import { CliError } from '../../local-api/client.ts';
import type { CommandContext } from './command.ts';

export const LOG_FLAGS: Flags = {
  follow: { short: 'f', about: 'go on until Ctrl-C' },
  tail: {
    ...{ short: 'n', value: '<value>' },
    about: `lines from the end (default ${LOG_TAIL.usual}, with --since all since then), -1: ${LOG_TAIL.most}`,
  },
  since: { value: '<value>', about: 'not before this long ago, such as 90s, 10m, 2h, 1d, or a date and time' },
  'since-time': { value: '<value>', about: 'not before this date and time, such as 2026-05-01T10:00:00Z' },
  until: { value: '<value>', about: 'not after this date and time, or this long ago' },
};

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

export function logParameters({ flags }: CommandContext): URLSearchParams {
  const query = new URLSearchParams();
  for (const [flag, name] of [
    ['until', 'until'],
    ['since-time', 'since'],
    ['since', 'since'],
  ] as const) {
    const given = flags[flag];
    if (given !== undefined) query.set(name, requiredMoment(String(given), flag, Date.now()));
  }
  const tail = flags.tail ?? (query.has('since') ? '-1' : undefined);
  if (tail !== undefined) query.set('tailLines', tail === '-1' ? String(LOG_TAIL.most) : String(tail));
  return query;
}

interface Line {
  line: string;
}

/**
 * Prints the existing lines and, with --follow, new ones until the signal fires. `print` is for lines in the form for people:
 * `raw` for those of a container, which may be meant for a terminal, as with kubectl logs and docker logs.
 */
export async function showLines(
  { client, flags, signal, format, out }: CommandContext,
  path: string,
  query: URLSearchParams,
  print: (text: string) => void,
): Promise<void> {
  if (!flags.follow) {
    const data = await client.call<{ entries: Line[] }>('GET', `${path}?${query}`);
    if (format === 'human') print(data.entries.map(({ line }) => `${line}\n`).join(''));
    else out(structured(data, format));
    return;
  }
  query.set('follow', 'true');
  try {
    for await (const entry of client.stream<Line>(`${path}?${query}`))
      if (format === 'human') print(`${entry.line}\n`);
      else out(`${JSON.stringify(entry)}\n`);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
