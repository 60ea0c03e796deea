import { GLOBAL_FLAGS } from '../../agent/src/cli/cli.ts';
import { COMMANDS } from '../../agent/src/cli/commands.ts';
import { EXIT_MEANINGS } from '../../agent/src/local-api/client.ts';
import type { Flags } from '../../src/lib/command-line/command.ts';

/** The manual page and the completion of skerry-agent, from the table of its commands. */

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

/** Completion for bash. */
export function completion(): string {
  const next = new Map<string, Set<string>>();
  const add = (before: string, word: string) => next.set(before, (next.get(before) ?? new Set()).add(word));
  for (const { name, flags = {} } of COMMANDS) {
    const words = name.split(' ');
    for (const [at, word] of words.entries()) add(words.slice(0, at).join(' '), word);
    for (const flag of [...Object.keys(flags), ...Object.keys(GLOBAL_FLAGS)]) add(name, `--${flag}`);
  }
  const cases = [...next].map(([before, words]) => `    '${before}') words='${[...words].join(' ')}' ;;`);
  return [
    '# Completion of skerry-agent for bash.',
    '_skerry_agent() {',
    '  local line="" word words="" current="${COMP_WORDS[COMP_CWORD]}"',
    '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
    '    case "$word" in -*) ;; *) line="${line:+$line }$word" ;; esac',
    '  done',
    '  case "$line" in',
    ...cases,
    '  esac',
    '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")',
    '}',
    'complete -o default -F _skerry_agent skerry-agent',
    '',
  ].join('\n');
}
