import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { saveImage } from '../../hack/image.ts';
import { ROOT } from '../../hack/paths.ts';
import { sampleImage } from '../../hack/sample.ts';
import { programFiles } from '../../hack/shell-image.ts';
import { until } from './engines/_contract.ts';

/**
 * docs/standalone.md as a reader types it: each command after a `$` is typed in a shell, and has to print the lines below it. Only what
 * the page leaves to the reader is done by the tests: archives of images, a registry, a controller.
 */

const PAGE = readFileSync(join(ROOT, 'docs/standalone.md'), 'utf8');

export interface Said {
  code: number;
  lines: readonly string[];
}

/** A machine on which the page is typed. */
export interface TypedMachine {
  /** Types a command in a shell; undefined: it is not typed here. */
  type(command: string): Promise<Said | undefined>;
  /** what the page says -> what it is on this machine */
  here: readonly (readonly [string, string])[];
}

interface Typed {
  command: string;
  output: string[];
}

/** The commands of the page, in their order. A command goes on to the END of its here-document. */
function typedOf(page: string): Typed[] {
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

/** What a second look may show, when the first came too early. */
const isLook = (command: string) => /^(curl|skerry-agent (status|ms ls|ms logs|ms inspect|volume ls))/.test(command);

/** Types the page on a machine. Fails with the first command that prints something else. */
export async function typePage({ type, here }: TypedMachine): Promise<void> {
  const page = here.reduce((text, [there, own]) => text.replaceAll(there, own), PAGE);
  const all = typedOf(page);
  expect(all.length).toBeGreaterThan(40);
  // The engine has images of other programs as well.
  const isOnPage = (row: string) => page.includes(row.split(' ', 1)[0] as string);
  for (const { command, output } of all) {
    let said = await type(command);
    if (!said) continue;
    const holds = ({ lines }: Said) => {
      const shown = command === 'skerry-agent image ls' ? lines.filter(isOnPage) : lines;
      return areAsWritten(plain(shown), plain(output));
    };
    if (isLook(command) && !holds(said))
      await until(
        `"${command}" to show what the page says`,
        async () => {
          said = (await type(command)) ?? said;
          return said !== undefined && holds(said);
        },
        20_000,
      ).catch(() => {});
    expect(holds(said), `$ ${command}\n${said.lines.join('\n')}\nThe page:\n${output.join('\n')}`).toBe(true);
    expect(said.code === 0, command).toBe(!output.some((line) => line.startsWith('Error[')));
  }
}

/** An image of the page: a web server that greets, with a shell. */
export const pageImage = (greeting: string) =>
  sampleImage({
    files: programFiles({ sh: '/bin/sh', cat: '/bin/cat' }),
    env: { PATH: '/bin', GREETING: greeting },
  });

/** The archives that the page loads, by their names. */
export async function pageArchives(): Promise<Record<string, Buffer>> {
  const [one, two] = await Promise.all(['1', '2'].map(pageImage));
  if (!one || !two) throw new Error('there are two images');
  return {
    'web-1.tar': saveImage(one, 'example.com/shop/web:1'),
    'web-2.tar': saveImage(two, 'example.com/shop/web:2'),
  };
}
