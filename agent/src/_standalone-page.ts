import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { saveImage } from '../../hack/image.ts';
import { ROOT } from '../../hack/paths.ts';
import { sampleImage } from '../../hack/sample.ts';
import { programFiles } from '../../hack/shell-image.ts';
import { type Said, typeAsWritten, typedOf } from './_typed-page.ts';

/**
 * docs/standalone.md as a reader types it: each command after a `$` is typed in a shell, and has to print the lines below it. Only what
 * the page leaves to the reader is done by the tests: archives of images, a registry, a controller.
 */

const PAGE = readFileSync(join(ROOT, 'docs/standalone.md'), 'utf8');

/** A machine on which the page is typed. */
export interface TypedMachine {
  /** Types a command in a shell; undefined: it is not typed here. */
  type(command: string): Promise<Said | undefined>;
  /** what the page says -> what it is on this machine */
  here: readonly (readonly [string, string])[];
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
  const shown = (command: string, lines: readonly string[]) =>
    command === 'skerry-agent image ls' ? lines.filter(isOnPage) : lines;
  for (const typed of all) await typeAsWritten(typed, { type, isLook, shown });
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
