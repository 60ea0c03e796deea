import type { CommandForm, CommandLine, Flags } from './command.ts';

/** The help of a program: its commands, and the flags that all of them have. */
export function overview({ about, commands, notes, flags }: CommandLine): string {
  const rows = commands.map((command) => [nameOf(command), command.about] as const);
  return [about, columns(rows), ...notes, flagTable(flags)].join('\n\n').concat('\n');
}

/** The help of a command. */
export function commandPage(command: CommandForm, program: CommandLine): string {
  const { about, details = [], examples = [], flags = {} } = command;
  const shown = examples.map((example) => `${program.name} ${example}`);
  return [
    about,
    `Usage: ${program.name} ${nameOf(command)}`,
    ...(details.length > 0 ? [details.join('\n')] : []),
    ...(shown.length === 1 ? [`Example: ${shown[0]}`] : []),
    ...(shown.length > 1 ? [['Examples:', ...shown].join('\n  ')] : []),
    flagTable({ ...flags, ...program.flags }),
  ]
    .join('\n\n')
    .concat('\n');
}

const nameOf = ({ name, usage }: CommandForm) => [name, usage].filter(Boolean).join(' ');

function flagTable(flags: Flags): string {
  const rows = Object.entries(flags).map(
    ([flag, { short, value, about }]) =>
      [`${short ? `-${short}, ` : '    '}--${flag}${value ? ` ${value}` : ''}`, about] as const,
  );
  return `Flags:\n${columns(rows)}`;
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([first]) => first.length));
  return rows.map(([first, second]) => `  ${first.padEnd(width)}   ${second}`).join('\n');
}
