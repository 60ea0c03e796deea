import type { Command } from './command.ts';

/** What people know of kubectl's command lines and `parseArgs` of Node refuses. */

type Flags = NonNullable<Command['flags']>;

/** Whether the word is a flag whose value follows it. */
export function takesValue(flags: Flags, word = ''): boolean {
  const flag = Object.entries(flags).find(([name, { short }]) => word === `--${name}` || word === `-${short}`);
  return flag?.[1].type === 'string';
}

/** A command line in parts: the flags of every command that stand before the command, its name, and what follows it. */
export function splitLine(
  line: readonly string[],
  flags: Flags,
): { before: readonly string[]; name: string | undefined; after: readonly string[] } {
  let at = 0;
  while (isGiven(flags, line[at])) at += takesValue(flags, line[at]) ? 2 : 1;
  return { before: line.slice(0, at), name: line[at], after: line.slice(at + 1) };
}

/** Of flags with a value: the start page has flags of its own. */
function isGiven(flags: Flags, word = ''): boolean {
  return Object.entries(flags).some(
    ([name, { short, type }]) =>
      type === 'string' &&
      (word === `--${name}` || word.startsWith(`--${name}=`) || (short !== undefined && word.startsWith(`-${short}`))),
  );
}

/** `--flag=true`, `--flag=false` and values that are negative numbers, in a form that `parseArgs` takes. */
export function plainFlags(args: readonly string[], flags: Flags): string[] {
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  const plain: string[] = [];
  for (let at = 0; at < end; at++) {
    const word = args[at] ?? '';
    const [, name = '', value] = /^--([^=]+)=(true|false)$/.exec(word) ?? [];
    const next = at + 1 < end ? (args[at + 1] ?? '') : '';
    if (flags[name]?.type === 'boolean') {
      if (value === 'true') plain.push(`--${name}`);
    } else if (word.startsWith('--') && takesValue(flags, word) && /^-\d+$/.test(next)) {
      plain.push(`${word}=${next}`);
      at += 1;
    } else plain.push(word);
  }
  return [...plain, ...args.slice(end)];
}
