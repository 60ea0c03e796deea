import type { Tone } from './rows.ts';

const CODES: Readonly<Record<Tone, number | undefined>> = { good: undefined, plain: undefined, busy: 33, bad: 31 };

/** A line in the colour of its tone: what is as asked stays plain, so that the rest stands out. */
export function paint(line: string, tone: Tone, colours: boolean): string {
  const code = colours ? CODES[tone] : undefined;
  return code === undefined ? line : `\u001b[${code}m${line}\u001b[0m`;
}
