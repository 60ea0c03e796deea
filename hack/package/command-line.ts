import { GLOBAL_FLAGS } from '../../agent/src/cli/cli.ts';
import { COMMANDS } from '../../agent/src/cli/commands.ts';
import { EXIT_MEANINGS } from '../../agent/src/local-api/client.ts';
import type { Flags } from '../../src/lib/command-line/command.ts';

/** The manual page of skerry-agent, from the table of its commands. */

const escaped = (text: string) =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^([.'])/gm, '\\&$1');

/** The manual page, in the language of man(7). */
export function manualPage({ version, date }: { version: string; date: Date }): string {
  const flags = (all: Flags) =>
    Object.entries(all).flatMap(([flag, { short, value, about }]) => [
      '.TP',
      `.B ${escaped(`--${flag}`)}${value ? ' \\fIvalue\\fR' : ''}`,
      escaped(short ? `${about}; short -${short}` : about),
    ]);
  const commands = COMMANDS.flatMap(({ name, usage, about, flags: own = {}, examples = [] }) => [
    '.SS',
    escaped([name, usage].filter(Boolean).join(' ')),
    `${escaped(about)}.`,
    ...flags(own),
    ...examples.flatMap((example) => ['.PP', 'Example:', '.PP', '.nf', escaped(`skerry-agent ${example}`), '.fi']),
  ]);
  const codes = Object.entries(EXIT_MEANINGS).flatMap(([code, text]) => ['.TP', `.B ${code}`, escaped(text)]);
  return [
    `.TH SKERRY\\-AGENT 1 ${date.toISOString().slice(0, 10)} "skerry-agent ${version}" "Skerry"`,
    ...['.SH NAME', 'skerry\\-agent \\- run containers on this machine as a controller asks'],
    ...['.SH SYNOPSIS', '.B skerry\\-agent', '\\fIcommand\\fR [\\fIwords\\fR] [\\fIflags\\fR]'],
    ...['.SH DESCRIPTION', 'The daemon is a service of systemd, skerry\\-agent.service. The commands speak to it.'],
    ...['.SH COMMANDS', ...commands],
    ...['.SH FLAGS OF ALL COMMANDS', ...flags(GLOBAL_FLAGS)],
    ...['.SH EXIT STATUS', ...codes],
    ...['.SH FILES', '.TP', '.I /etc/skerry\\-agent/config.yaml', 'settings', '.TP'],
    ...['.I /etc/skerry\\-agent/policy.yaml', 'what this machine lets containers do', '.TP'],
    ...['.I /var/lib/skerry\\-agent', 'identity, database and volumes', ''],
  ].join('\n');
}
