import type { CommandForm, Flags } from '../../../../src/lib/command-line/command.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
type NextWords = readonly (readonly [before: string, words: readonly string[]])[];
type Shell = (typeof SHELLS)[number];

/** The commands, and the flags that all of them have. */
export interface CommandTable {
  commands: readonly CommandForm[];
  flags: Flags;
}

/** What the scripts are made from. */
interface Words {
  next: NextWords;
  /** flags whose next word is their value, in every command that has them */
  valued: readonly string[];
}

/** A script that completes the commands in a shell, made from their table. */
export function completionScript(shell: Shell, table: CommandTable): string {
  return `${SCRIPTS[shell]({ next: nextWords(table), valued: valuedFlags(table) }).join('\n')}\n`;
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

/** A letter may be a flag with a value in one command, and without in another one: then it is not among these. */
function valuedFlags({ commands, flags: shared }: CommandTable): string[] {
  const all = [shared, ...commands.map(({ flags = {} }) => flags)].flatMap((flags) => Object.entries(flags));
  const spellings = all.flatMap(([name, { short, value, spellings: others = [] }]) => {
    const long = [name, ...others].map((each) => `--${each}`);
    return [...long, ...(short ? [`-${short}`] : [])].map((spelling) => ({ spelling, hasValue: value !== undefined }));
  });
  const plain = new Set(spellings.filter(({ hasValue }) => !hasValue).map(({ spelling }) => spelling));
  return [...new Set(spellings.map(({ spelling }) => spelling))].filter((spelling) => !plain.has(spelling));
}

/** Which words the line has without its flags and their values: shells differ in how they say so. */
const SCRIPTS: Readonly<Record<Shell, (words: Words) => string[]>> = {
  bash: ({ next, valued }) => [
    '# Completion of skerry-agent for bash.',
    '_skerry_agent() {',
    '  local line="" word value="" words="" current="${COMP_WORDS[COMP_CWORD]}"',
    '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
    '    if [[ -n "$value" ]]; then value=""; continue; fi',
    `    case "$word" in ${valued.join('|')}) value=1 ;; -*) ;; *) line="\${line:+$line }$word" ;; esac`,
    '  done',
    '  if [[ -n "$value" ]]; then line="-"; fi',
    '  case "$line" in',
    ...next.map(([before, words]) => `    '${before}') words='${words.join(' ')}' ;;`),
    '  esac',
    '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")',
    '}',
    'complete -o default -F _skerry_agent skerry-agent',
  ],
  zsh: ({ next, valued }) => [
    '#compdef skerry-agent',
    '# Completion of skerry-agent for zsh.',
    '_skerry_agent() {',
    '  local word value',
    '  local -a given next',
    '  for word in ${words[2,CURRENT-1]}; do',
    '    if [[ -n $value ]]; then value=""; continue; fi',
    `    case $word in ${valued.join('|')}) value=1 ;; -*) ;; *) given+=($word) ;; esac`,
    '  done',
    '  if [[ -n $value ]]; then given=(-); fi',
    '  case "${(j: :)given}" in',
    ...next.map(([before, words]) => `    '${before}') next=(${words.join(' ')}) ;;`),
    '  esac',
    '  if (( ${#next} )); then compadd -- $next; else _files; fi',
    '}',
    'if [[ "$funcstack[1]" = _skerry-agent ]]; then _skerry_agent; else compdef _skerry_agent skerry-agent; fi',
  ],
  fish: ({ next, valued }) => [
    '# Completion of skerry-agent for fish.',
    'function __skerry_agent_next',
    '  set -l given',
    '  set -l value',
    '  for word in (commandline --tokenize --cut-at-cursor --current-process)[2..]',
    '    if set -q value[1]',
    '      set value',
    '      continue',
    '    end',
    '    switch $word',
    `      case ${valued.join(' ')}`,
    '        set value 1',
    "      case '-*'",
    "      case '*'",
    '        set --append given $word',
    '    end',
    '  end',
    '  set -l words',
    '  set -q value[1]; or switch "$given"',
    ...next.flatMap(([before, words]) => [`    case '${before}'`, `      set words ${words.join(' ')}`]),
    '  end',
    '  set -l current (commandline --current-token)',
    "  string match --quiet -- $current'*' $words; or set words (__fish_complete_path $current)",
    "  printf '%s\\n' $words",
    'end',
    "complete --command skerry-agent --no-files --arguments '(__skerry_agent_next)'",
  ],
};
