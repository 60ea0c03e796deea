import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage, saveImage } from '../../hack/image.ts';
import { ROOT } from '../../hack/paths.ts';
import { freePort } from '../../hack/ports.ts';
import { type Registry, startRegistry } from '../../hack/registry.ts';
import { sampleImage } from '../../hack/sample.ts';
import { programFiles } from '../../hack/shell-image.ts';
import type {} from '../../hack/testing/provided.ts';
import { Home } from './_home.ts';
import { until } from './engines/_contract.ts';
import { FakeController } from './link/_fake-controller.ts';

/**
 * docs/standalone.md as a reader types it, on docker, and by night on podman: each command after a `$` is typed in a shell, and has to print
 * the lines below it. Only what the page leaves to the reader is done here: archives of images, a registry, a controller.
 */
interface Typed {
  command: string;
  output: string[];
}

const PAGE = readFileSync(join(ROOT, 'docs/standalone.md'), 'utf8');

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

let folder: string;
let registry: Registry;
const controller = new FakeController();
const image = (greeting: string) =>
  sampleImage({
    files: programFiles({ sh: '/bin/sh', cat: '/bin/cat' }),
    env: { PATH: '/bin', GREETING: greeting },
  });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'skerry-standalone-'));
  for (const tag of ['1', '2'])
    writeFileSync(join(folder, `web-${tag}.tar`), saveImage(await image(tag), `example.com/shop/web:${tag}`));
  await using open = await startRegistry({ dir: join(folder, 'open') });
  await pushImage(open.url, 'shop/tool', '1', await image('tool'));
  registry = await startRegistry({ dir: join(folder, 'registry'), images: open.images, auth: 'basic' });
  await controller.listen();
}, 60_000);
afterAll(async () => {
  await controller.close();
  await registry[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

function type(command: string, env: Record<string, string>): Promise<{ code: number; lines: string[] }> {
  return new Promise((resolve) => {
    const options = { cwd: folder, env: { ...process.env, ...env }, timeout: 60_000 };
    execFile('sh', ['-c', `exec 2>&1\n${command}`], options, (error, out) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, lines: out.split('\n') }),
    );
  });
}

/** What a second look may show, when the first came too early. */
const isLook = (command: string) => /^(curl|skerry-agent (status|ms ls|ms logs|ms inspect|volume ls))/.test(command);

for (const { kind, url } of inject('engines'))
  describe.runIf(kind === 'docker' || process.env.SKERRY_NIGHTLY)(`docs/standalone.md with ${kind}`, () => {
    test('holds as typed', { timeout: 240_000 }, async () => {
      const home = new Home({ engineUrl: url });
      const port = await freePort();
      try {
        await home.up();
        const program = join(home.folder, 'skerry-agent');
        writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${join(ROOT, 'agent/src/main.ts')}' "$@"\n`, {
          mode: 0o755,
        });
        const env = { PATH: `${home.folder}:${process.env.PATH}`, SKERRY_AGENT_CONFIG: home.config };
        const here: readonly (readonly [string, string])[] = [
          ['8081', String(port)],
          ['/var/lib/skerry-agent', home.disk],
          ['registry.example:5000', registry.host],
          ['skerry://controller.example:51121/6f1c2a', controller.joinString],
          ['gw-1 of https://controller.example:51121', `fake of ${controller.url}`],
        ];
        const page = here.reduce((text, [there, own]) => text.replaceAll(there, own), PAGE);
        const all = typedOf(page);
        expect(all.length).toBeGreaterThan(40);
        for (const { command, output } of all) {
          if (command === 'systemctl restart skerry-agent') {
            await home.end();
            await home.up();
            continue;
          }
          let said = await type(command, env);
          // The engine has images of other programs as well.
          const isOnPage = (row: string) => page.includes(row.split(' ', 1)[0] as string);
          const shown = () =>
            command === 'skerry-agent image ls' ? said.lines.filter((row) => isOnPage(row)) : said.lines;
          const holds = () => areAsWritten(plain(shown()), plain(output));
          if (isLook(command) && !holds())
            await until(
              `"${command}" to show what the page says`,
              async () => {
                said = await type(command, env);
                return holds();
              },
              20_000,
            ).catch(() => {});
          expect(holds(), `$ ${command}\n${said.lines.join('\n')}\nThe page:\n${output.join('\n')}`).toBe(true);
          expect(said.code === 0, command).toBe(!output.some((line) => line.startsWith('Error[')));
        }
      } finally {
        await home.remove();
      }
    });
  });
