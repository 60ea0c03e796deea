import type { CommandForm, Flags } from '../../../../src/lib/command-line/command.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
type NextWords = readonly (readonly [before: string, words: readonly string[]])[];
type Shell = (typeof SHELLS)[number];

/** The commands, and the flags that all of them have. */
export interface CommandTable {
  commands: readonly CommandForm[];
  flags: Flags;
}

/** A script that completes the commands in a shell, made from their table. */
export function completionScript(shell: Shell, table: CommandTable): string {
  return `${SCRIPTS[shell](nextWords(table)).join('\n')}\n`;
}

/** The words that may follow the beginning of a line. */
function nextWords({ commands, flags: shared }: CommandTable): NextWords {
  const next = new Map<string, Set<string>>();
  const add = (before: string, word: string) => next.set(before, (next.get(before) ?? new Set()).add(word));
  const names = (flags: Flags) => Object.keys(flags).map((flag) => `--${flag}`);
  for (const { name, flags = {} } of commands) {
    const words = name.split(' ');
    for (const [at, word] of words.entries()) add(words.slice(0, at).join(' '), word);
    for (const flag of [...names(flags), ...names(shared)]) add(name, flag);
  }
  for (const { name } of commands.filter((command) => command.name === 'completion'))
    for (const shell of SHELLS) add(name, shell);
  return [...next].map(([before, words]) => [before, [...words]]);
}

/** Which words the line has without its flags: shells differ in how they say so. */
const SCRIPTS: Readonly<Record<Shell, (next: NextWords) => string[]>> = {
  bash: (next) => [
    '# Completion of skerry-agent for bash.',
    '_skerry_agent() {',
    '  local line="" word words="" current="${COMP_WORDS[COMP_CWORD]}"',
    '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
    '    case "$word" in -*) ;; *) line="${line:+$line }$word" ;; esac',
    '  done',
    '  case "$line" in',
    ...next.map(([before, words]) => `    '${before}') words='${words.join(' ')}' ;;`),
    '  esac',
    '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")',
    '}',
    'complete -o default -F _skerry_agent skerry-agent',
  ],
  zsh: (next) => [
    '#compdef skerry-agent',
    '# Completion of skerry-agent for zsh.',
    '_skerry_agent() {',
    '  local -a given next',
    '  given=(${${words[2,CURRENT-1]}:#-*})',
    '  case "${(j: :)given}" in',
    ...next.map(([before, words]) => `    '${before}') next=(${words.join(' ')}) ;;`),
    '  esac',
    '  if (( ${#next} )); then compadd -- $next; else _files; fi',
    '}',
    'if [[ "$funcstack[1]" = _skerry-agent ]]; then _skerry_agent; else compdef _skerry_agent skerry-agent; fi',
  ],
  fish: (next) => [
    '# Completion of skerry-agent for fish.',
    'function __skerry_agent_next',
    "  set -l given (string match --invert -- '-*' (commandline --tokenize --cut-at-cursor --current-process)[2..])",
    '  switch "$given"',
    ...next.flatMap(([before, words]) => [`    case '${before}'`, `      printf '%s\\n' ${words.join(' ')}`]),
    '  end',
    'end',
    "complete --command skerry-agent --arguments '(__skerry_agent_next)'",
  ],
};
