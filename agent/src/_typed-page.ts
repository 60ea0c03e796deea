import { execFile } from 'node:child_process';
import { expect } from 'vitest';
import { until } from './engines/_contract.ts';

/**
 * A page as a reader types it: each command after a `$` is typed in a shell, and has to print the lines below it, in which `...` is any
 * lines.
 */
export interface Typed {
  command: string;
  output: string[];
}

/** The commands of the page, in their order. A command continues to the END of its here-document. */
export function typedOf(page: string): Typed[] {
  const all: Typed[] = [];
  let isOpen = false;
  for (const [, line = ''] of page.matchAll(/^ {4}(.*)$/gm)) {
    const last = all.at(-1);
    if (line.startsWith('$ ')) all.push({ command: line.slice(2), output: [] });
    else if (last && isOpen) last.command += `\n${line}`;
    else last?.output.push(line);
    isOpen = line.includes('<<END') || (isOpen && line !== 'END');
  }
  return all;
}

/** What differs from run to run; each is compared by its form alone. */
const FORMS: readonly (readonly [RegExp, string])[] = [
  [/ \(health unknown yet\)/g, ''],
  [/[0-9a-f]{64}/g, '<id>'],
  [/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>'],
  [/\b[0-9a-f]{12}\b/g, '<short id>'],
  [/\b\d+ min\b/g, '<minutes>'],
  [/\b\d+[smh]( \d+s)?\b/g, '<time>'],
  [/\b[\d.]+ ([KM]i?)?B\b/g, '<size>'],
  [/\b(docker|podman|embedded) \d\S* at \S+/g, '<engine>'],
  [/\b\d\d:\d\d:\d\d\b/g, '<clock>'],
  [/-[0-9a-f]{8}\b/g, '-<hash>'],
  [/^\[#\d+\]/, '[#<number>]'],
  [/ +/g, ' '],
];
/** How far a command is, which is shown when it takes long enough. */
const PROGRESS = /^\S+: (parsing|pulling|creating|starting|persisting|done|\d+ %)$/;

const plain = (lines: readonly string[]): string[] =>
  lines
    .map((line) => FORMS.reduce((text, [form, by]) => text.replace(form, by), line).trim())
    .filter((line) => line !== '' && !PROGRESS.test(line));

/** Whether lines are as the page has them, in which `...` is any lines. */
function areAsWritten(lines: readonly string[], written: readonly string[]): boolean {
  const [first, ...rest] = written;
  if (first === undefined) return lines.length === 0;
  if (first !== '...') return lines[0] === first && areAsWritten(lines.slice(1), rest);
  return areAsWritten([], rest) || lines.some((_, at) => areAsWritten(lines.slice(at), rest));
}

/** What a command printed, and its exit code. */
export interface Said {
  code: number;
  lines: readonly string[];
}

/** How a page is typed. */
export interface Typing {
  /** Types a command in a shell; undefined: it is not typed here. */
  type(command: string): Promise<Said | undefined>;
  /** Whether a command only looks: what a second look shows counts when the first came too early. */
  isLook(command: string): boolean;
  /** a look has so long to show it, ms; 20 s when absent */
  lookPatience?: number;
  /** The lines of a command that are compared. */
  shown?(command: string, lines: readonly string[]): readonly string[];
}

/** Types a command, and expects what the page says of it. */
export async function typeAsWritten({ command, output }: Typed, typing: Typing): Promise<void> {
  const { type, isLook, shown = (_: string, lines: readonly string[]) => lines } = typing;
  let said = await type(command);
  if (!said) return;
  const holds = ({ lines }: Said) => areAsWritten(plain(shown(command, lines)), plain(output));
  if (isLook(command) && !holds(said))
    await until(
      `"${command}" to show what the page says`,
      async () => {
        said = (await type(command)) ?? said;
        return said !== undefined && holds(said);
      },
      typing.lookPatience ?? 20_000,
    ).catch(() => {});
  expect(holds(said), `$ ${command}\n${said.lines.join('\n')}\nThe page:\n${output.join('\n')}`).toBe(true);
  expect(said.code === 0, command).toBe(!output.some((line) => line.startsWith('Error[')));
}

/** A shell of this machine that opens in a folder. A command may take `patience` ms. */
export const shellIn =
  ({ folder, env, patience }: { folder: string; env: Record<string, string>; patience: number }) =>
  (command: string): Promise<Said> =>
    new Promise((resolve) => {
      const options = { cwd: folder, env: { ...process.env, ...env }, timeout: patience };
      execFile('sh', ['-c', `exec 2>&1\n${command}`], options, (error, out) =>
        resolve({ code: error ? Number(error.code ?? 1) : 0, lines: out.split('\n') }),
      );
    });
